#pragma once
#include <cstdint>

// Include a wrapper, which defines RG_SIMD, first.

namespace refactor::kernel {
namespace {

/// What is wanted after a panel, brought into L2 while its tiles multiply: bytes from `from` on, `step` for each k.
struct Ahead {
    char const* from;
    int64_t step;

    RG_SIMD void prefetch(int steps) {
        constexpr int64_t kLine = 64;
        if (!step) return;
        __builtin_prefetch(from, 0, 2);
        for (int64_t byte = kLine; byte < steps * step; byte += kLine) __builtin_prefetch(from + byte, 0, 2);
        from += steps * step;
    }
};

}  // namespace
}  // namespace refactor::kernel
