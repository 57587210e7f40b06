#pragma once
#include "conv/window_impl.h"
#include "pool/pool_blocked.h"
#include "pool/pool_maximum.h"

namespace refactor::kernel {
namespace {

using Element = Vec::Element;
using Job = PoolJobOf<Element>;

constexpr Element kInf = static_cast<Element>(__builtin_inf());

/// `Part` without its divisions where all taps are inside.
RG_SIMD Part taps_inside(int64_t start, int64_t dilation, int64_t taps, int64_t size) {
    if (start >= 0 && start + (taps - 1) * dilation < size) return Part(0, 1, taps, taps);
    return Part(start, dilation, taps, size);
}

}  // namespace
}  // namespace refactor::kernel
