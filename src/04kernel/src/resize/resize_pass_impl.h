#pragma once
// Loops of ResizePass. Include behind what defines `sample_row` for rows of single f32.
#include "resize/resize_pass.h"

namespace refactor::kernel {
namespace {

/// y (+)= sum of `count` weighted rows.
template <int count, bool add, class T>
void blend_some(T const* const* rows, T const* weights, T* __restrict y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
        T sum = add ? y[i] : 0;
        for (int k = 0; k < count; ++k) sum += weights[k] * rows[k][i];
        y[i] = sum;
    }
}
template <bool add, class T>
void blend_some(int count, T const* const* rows, T const* weights, T* y, int64_t size) {
    switch (count) {
        case 1:
            return blend_some<1, add>(rows, weights, y, size);
        case 2:
            return blend_some<2, add>(rows, weights, y, size);
        case 3:
            return blend_some<3, add>(rows, weights, y, size);
        default:
            return blend_some<4, add>(rows, weights, y, size);
    }
}
template <class T>
void blend(int count, T const* const* rows, T const* weights, T* y, int64_t size) {
    constexpr int kAtOnce = 4;
    blend_some<false>(count < kAtOnce ? count : kAtOnce, rows, weights, y, size);
    for (int k = kAtOnce; k < count; k += kAtOnce)
        blend_some<true>(count - k < kAtOnce ? count - k : kAtOnce, rows + k, weights + k, y, size);
}

void widen_row(uint16_t const* __restrict x, float* __restrict y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
        uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
        __builtin_memcpy(y + i, &bits, sizeof bits);
    }
}
void narrow_row(float const* __restrict x, uint16_t* __restrict y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
        uint32_t bits;
        __builtin_memcpy(&bits, x + i, sizeof bits);
        uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
        y[i] = static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
    }
}

void blend_narrow(int count, float const* const* rows, float const* weights, float* sum, uint16_t* y, int64_t size) {
    blend(count, rows, weights, sum, size);
    narrow_row(sum, y, size);
}

/// `lanes` elements of each pixel.
template <int lanes, class T>
void sample_pixels(ResizePass const& p, T const* x, T* y) {
    for (int64_t o = 0; o < p.out; ++o, y += p.inner) {
        T sum[lanes] = {};
        for (int64_t k = o * p.taps; k < (o + 1) * p.taps; ++k) {
            if (p.weight[k] == 0) continue;
            auto const* from = x + p.index[k] * p.inner;
            T w = p.weight[k];
            for (int i = 0; i < lanes; ++i) sum[i] += w * from[i];
        }
        for (int i = 0; i < lanes; ++i) y[i] = sum[i];
    }
}

template <class T>
void resize_row(ResizePass const& p, T const* x, int64_t o, T* y) {
    constexpr int kMost = 64;
    T const* rows[kMost];
    T weights[kMost];
    int count = 0;
    bool begun = false;
    auto flush = [&] {
        if (!begun)
            blend(count, rows, weights, y, p.inner);
        else
            for (int k = 0; k < count; ++k) blend_some<1, true>(rows + k, weights + k, y, p.inner);
        begun = true, count = 0;
    };
    for (int64_t k = o * p.taps; k < (o + 1) * p.taps; ++k) {
        if (p.weight[k] == 0) continue;
        if (count == kMost) flush();
        rows[count] = x + p.index[k] * p.inner, weights[count] = p.weight[k], ++count;
    }
    if (count > 0) return flush();
    if (!begun)
        for (int64_t i = 0; i < p.inner; ++i) y[i] = 0;
}

template <class T>
void resize(ResizePass const& p, T const* x, T* y, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
        auto o = row % p.out;
        auto const* from = x + row / p.out * p.in * p.inner;
        if (o > 0 || end - row < p.out || (p.inner != 1 && p.inner != 8 && p.inner != 16 && p.inner != 32)) {
            resize_row(p, from, o, y + row * p.inner);
            continue;
        }
        auto* to = y + row * p.inner;
        if (p.inner == 1)
            sample_row(p, from, to);
        else if (p.inner == 8)
            sample_pixels<8>(p, from, to);
        else
            for (int64_t i = 0; i < p.inner; i += 16) sample_pixels<16>(p, from + i, to + i);
        row += p.out - 1;
    }
}

}  // namespace
}  // namespace refactor::kernel
