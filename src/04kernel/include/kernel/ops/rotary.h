#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Rotary position embedding: pairs of elements of a row turn by an angle, `y_a = x_a cos_a - x_b sin_a` and
/// `y_b = x_b cos_b + x_a sin_b`; a pair is (i, i + half), or (2i, 2i + 1) if `interleaved`.
///
/// Inputs: X [..., D]; cos and sin [..., half], or [..., 2 half] with an angle for each element, whose leading sizes
/// are those of X or 1. Elements of X behind 2 half stay. All of one type: f32, f64, f16 or bf16. GPU only. Source:
/// RoFormer (arXiv 2104.09864).
struct RotaryInfo {
    static constexpr char const* kType = "Rotary";
    int64_t half = 0;
    bool interleaved = false;
    bool both = false;  ///< cos and sin have 2 half elements
    std::string attributes() const;
};
Candidates candidates(RotaryInfo const&, Request const&);

}  // namespace refactor::kernel
