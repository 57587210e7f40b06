#pragma once
#include "reorder/transpose_blocks.h"
#include "simd/vec.h"

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

void to_blocked(BlockTranspose const& j) {
    for (int64_t s = 0; s < j.positions; s += W) {
        int count = j.positions - s < W ? static_cast<int>(j.positions - s) : W;
        Vec r[W];
#pragma GCC unroll 16
        for (int c = 0; c < W; ++c)
            r[c] = c < j.channels ? Vec::load_first(j.plain + c * j.plain_stride + s, count) : Vec::zero();
        transpose(r);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i)
            if (i < count) r[i].store(j.blocked + (s + i) * W);
    }
}

void to_plain(BlockTranspose const& j) {
    for (int64_t s = 0; s < j.positions; s += W) {
        int count = j.positions - s < W ? static_cast<int>(j.positions - s) : W;
        Vec r[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) r[i] = i < count ? Vec::load(j.blocked + (s + i) * W) : Vec::zero();
        transpose(r);
#pragma GCC unroll 16
        for (int c = 0; c < W; ++c)
            if (c < j.channels) r[c].store_first(j.plain + c * j.plain_stride + s, count);
    }
}

constexpr ReorderIsa kReorderIsa{W, to_blocked, to_plain};

}  // namespace
}  // namespace refactor::kernel
