#include "simd/lanes_bf16.h"
//
#include "reorder/transpose_blocks.h"
#include "simd/bf16_blocks.h"

namespace refactor::kernel {
namespace {

// Pairs of channels are what is transposed: a vector holds 16 positions of two neighbouring channels, or all 32 of one
// position.

using Job = BlockTransposeOf<uint16_t>;
constexpr int W = Vec::width, kPairs = W;

/// `Whole`: all channels, of 16 positions; else the first `count` positions.
template <bool Whole>
RG_SIMD void positions_to_blocked(Job const& j, int64_t s, int count) {
    auto row = [&](int c) __attribute__((always_inline)) {
        float const* x = j.plain + c * j.plain_stride + s;
        return Whole ? Vec::load(x) : c < j.channels ? Vec::load_first(x, count) : Vec::zero();
    };
    Vec r[kPairs];
#pragma GCC unroll 16
    for (int i = 0; i < kPairs; ++i) r[i] = round_side_by_side(row(2 * i), row(2 * i + 1));
    transpose(r);
    auto* y = reinterpret_cast<float*>(j.blocked + s * Lanes::width);
#pragma GCC unroll 16
    for (int i = 0; i < (Whole ? W : count); ++i) r[i].store(y + i * W);
}

template <bool Whole>
RG_SIMD void positions_to_plain(Job const& j, int64_t s, int count) {
    auto* x = reinterpret_cast<float const*>(j.blocked + s * Lanes::width);
    Vec r[kPairs];
#pragma GCC unroll 16
    for (int i = 0; i < kPairs; ++i) r[i] = Whole || i < count ? Vec::load(x + i * W) : Vec::zero();
    transpose(r);
    auto put = [&](Vec v, int c) __attribute__((always_inline)) {
        float* y = j.plain + c * j.plain_stride + s;
        if (Whole)
            v.store(y);
        else if (c < j.channels)
            v.store_first(y, count);
    };
#pragma GCC unroll 16
    for (int i = 0; i < kPairs; ++i) {
        Lanes both = Lanes::of(_mm512_castps_si512(r[i].v));
        put(both.even, 2 * i), put(both.odd, 2 * i + 1);
    }
}

template <class Whole, class Part>
RG_SIMD void each_16(Job const& j, Whole const& whole, Part const& part) {
    int64_t s = 0;
    if (j.channels == Lanes::width)
        for (; s + W <= j.positions; s += W) whole(s);
    for (; s < j.positions; s += W) part(s, j.positions - s < W ? static_cast<int>(j.positions - s) : W);
}
void to_blocked(Job const& j) {
    each_16(
        j, [&](int64_t s) { positions_to_blocked<true>(j, s, W); },
        [&](int64_t s, int count) { positions_to_blocked<false>(j, s, count); });
}
void to_plain(Job const& j) {
    each_16(
        j, [&](int64_t s) { positions_to_plain<true>(j, s, W); },
        [&](int64_t s, int count) { positions_to_plain<false>(j, s, count); });
}

/// Channels of the block from `from` on that exist, at most 16.
int existing(Job const& j, int from) { return j.channels < from ? 0 : j.channels - from < W ? j.channels - from : W; }

void last_to_blocked(Job const& j) {
    int const low = existing(j, 0), high = existing(j, W);
    float const* x = j.plain;
    auto* y = reinterpret_cast<float*>(j.blocked);
    for (int64_t s = 0; s < j.positions; ++s, x += j.plain_stride, y += W)
        round_to_pairs(Vec::load_first(x, low), Vec::load_first(x + W, high)).store(y);
}
void last_to_plain(Job const& j) {
    int const low = existing(j, 0), high = existing(j, W);
    uint16_t const* x = j.blocked;
    float* y = j.plain;
    for (int64_t s = 0; s < j.positions; ++s, x += Lanes::width, y += j.plain_stride)
        load_bf16(x).store_first(y, low), load_bf16(x + W).store_first(y + W, high);
}

constexpr ReorderIsaBf16 kReorderIsa{Lanes::width, to_blocked, to_plain, last_to_blocked, last_to_plain};

}  // namespace

ReorderIsaBf16 const& reorder_avx512bf16() { return kReorderIsa; }

}  // namespace refactor::kernel
