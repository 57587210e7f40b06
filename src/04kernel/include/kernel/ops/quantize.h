#pragma once
#include "common/half.h"
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Elements of another type: their values, or (`reinterpret`, types of equal width) their bits. Any pair of numeric
/// types, packed ones too; one rounding to nearest even. `saturate` and `rounding` as in `refactor::convert`, which
/// says what happens out of range. Input x, output of the same shape. Source: ONNX Cast-24, BitCast-26.
///
/// Conversions that the Expression engine has (same results) are better left to it, where they fuse.
struct ConvertInfo {
    static constexpr char const* kType = "Convert";
    bool saturate = true, reinterpret = false;
    ScaleRounding rounding = ScaleRounding::Up;
    std::string attributes() const;
};
Candidates candidates(ConvertInfo const&, Request const&);

}  // namespace refactor::kernel
