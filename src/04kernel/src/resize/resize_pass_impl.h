#pragma once
#include "resize/resize_pass.h"

namespace refactor::kernel {
namespace {

constexpr int kTapsAtOnce = 4;

/// y (+)= sums of `taps` weighted rows.
template <int taps, bool add, class T>
void blend_rows(T const* const* x, T const* w, T* __restrict y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        T sum = add ? y[i] : 0;
        for (int k = 0; k < taps; ++k) sum += w[k] * x[k][i];
        y[i] = sum;
    }
}
template <bool add, class T>
void blend_rows(int taps, T const* const* x, T const* w, T* y, int64_t count) {
    switch (taps) {
        case 1:
            return blend_rows<1, add>(x, w, y, count);
        case 2:
            return blend_rows<2, add>(x, w, y, count);
        case 3:
            return blend_rows<3, add>(x, w, y, count);
        default:
            return blend_rows<4, add>(x, w, y, count);
    }
}

template <class T>
void resize_row(ResizePass const& p, T const* x, int64_t o, T* y) {
    T const* rows[kTapsAtOnce];
    T w[kTapsAtOnce];
    int held = 0;
    bool begun = false;
    auto flush = [&] {
        begun ? blend_rows<true>(held, rows, w, y, p.inner) : blend_rows<false>(held, rows, w, y, p.inner);
        begun = true, held = 0;
    };
    for (int64_t k = o * p.taps; k < (o + 1) * p.taps; ++k) {
        if (p.weight[k] == 0) continue;
        if (held == kTapsAtOnce) flush();
        rows[held] = x + p.index[k] * p.inner, w[held] = p.weight[k], ++held;
    }
    if (held > 0) return flush();
    if (!begun)
        for (int64_t i = 0; i < p.inner; ++i) y[i] = 0;
}

template <class T>
T resize_element(ResizePass const& p, T const* x, int64_t o) {
    T sum = 0;
    for (int64_t k = o * p.taps; k < (o + 1) * p.taps; ++k)
        if (p.weight[k] != 0) sum += static_cast<T>(p.weight[k]) * x[p.index[k]];
    return sum;
}

template <class T>
void resize_all(ResizePass const& p, T const* x, T* y, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
        auto o = row % p.out;
        auto const* from = x + row / p.out * p.in * p.inner;
        if (p.inner == 1)
            y[row] = resize_element(p, from, o);
        else
            resize_row(p, from, o, y + row * p.inner);
    }
}

}  // namespace
}  // namespace refactor::kernel
