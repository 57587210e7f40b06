#pragma once
#include "reorder/transpose_blocks.h"
#include "simd/vec.h"

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

/// Whole blocks, by themselves, so that the addresses of a block stay in registers.
[[gnu::noinline]] void whole_to_blocked(float const* plain, int64_t stride, float* blocked, int64_t positions) {
    for (int64_t s = 0; s < positions; s += W) {
        Vec r[W];
#pragma GCC unroll 16
        for (int c = 0; c < W; ++c) r[c] = Vec::load(plain + c * stride + s);
        transpose(r);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) r[i].store(blocked + (s + i) * W);
    }
}
[[gnu::noinline]] void whole_to_plain(float* plain, int64_t stride, float const* blocked, int64_t positions) {
    for (int64_t s = 0; s < positions; s += W) {
        Vec r[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) r[i] = Vec::load(blocked + (s + i) * W);
        transpose(r);
#pragma GCC unroll 16
        for (int c = 0; c < W; ++c) r[c].store(plain + c * stride + s);
    }
}

void to_blocked(BlockTranspose const& j) {
    int64_t const whole = j.channels < W ? 0 : j.positions / W * W;
    whole_to_blocked(j.plain, j.plain_stride, j.blocked, whole);
    for (int64_t s = whole; s < j.positions; s += W) {
        int count = j.positions - s < W ? static_cast<int>(j.positions - s) : W;
        Vec r[W];
        for (int c = 0; c < W; ++c)
            r[c] = c < j.channels ? Vec::load_first(j.plain + c * j.plain_stride + s, count) : Vec::zero();
        transpose(r);
        for (int i = 0; i < count; ++i) r[i].store(j.blocked + (s + i) * W);
    }
}

void to_plain(BlockTranspose const& j) {
    int64_t const whole = j.channels < W ? 0 : j.positions / W * W;
    whole_to_plain(j.plain, j.plain_stride, j.blocked, whole);
    for (int64_t s = whole; s < j.positions; s += W) {
        int count = j.positions - s < W ? static_cast<int>(j.positions - s) : W;
        Vec r[W];
        for (int i = 0; i < W; ++i) r[i] = i < count ? Vec::load(j.blocked + (s + i) * W) : Vec::zero();
        transpose(r);
        for (int c = 0; c < j.channels; ++c) r[c].store_first(j.plain + c * j.plain_stride + s, count);
    }
}

constexpr ReorderIsa kReorderIsa{W, to_blocked, to_plain};

}  // namespace
}  // namespace refactor::kernel
