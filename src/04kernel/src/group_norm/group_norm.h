#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes of a group normalisation: `sets` = N * groups runs of `channels` * `positions` contiguous elements.
struct GroupShape {
    int64_t groups, channels, sets, positions = 1;
    GroupShape(GroupNormInfo const&, std::span<int64_t const> dims);
};
/// Empty if the sizes of all inputs agree, else what is wrong.
std::string why_not_group_norm(GroupNormInfo const&, BindArgs const&);

/// f32, vectorised (AVX-512 or AVX2).
MaybeKernel make_group_norm_rows(GroupNormInfo const&, Request const&);
/// f32 in blocks of channels as wide as the vectors.
MaybeKernel make_group_norm_blocked(GroupNormInfo const&, Request const&);
MaybeKernel make_group_norm_reference(GroupNormInfo const&, Request const&);

}  // namespace refactor::kernel
