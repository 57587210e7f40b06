#pragma once
#include "kernel/kernel.h"
#include "kernel/ops/trees.h"

namespace refactor::kernel {

/// Code of a number that a table is searched for: equal for equal numbers of one type, and for all NaN.
template <class T>
uint64_t lookup_code(T x) {
    if constexpr (std::is_floating_point_v<T>)
        return tree_key(static_cast<double>(x));
    else
        return static_cast<uint64_t>(static_cast<int64_t>(x));
}

/// Maps every element of x (f32, f64, i16, i32, i64) to the value whose key it is. Inputs: x, the codes of the keys u64
/// [k], ascending and different, the values [k] (any type of whole bytes), and the value of everything else [1].
/// Source: ONNX-ML LabelEncoder-4.
struct LookupInfo {
    static constexpr char const* kType = "Lookup";
    std::string attributes() const { return {}; }
};
Candidates candidates(LookupInfo const&, Request const&);

}  // namespace refactor::kernel
