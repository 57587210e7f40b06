#pragma once
// Include a `simd/vec_*.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

/// The larger one; NaN if either is.
RG_SIMD Vec maximum(Vec a, Vec b) { return select(is_nan(a), a, max(a, b)); }

}  // namespace
}  // namespace refactor::kernel
