#pragma once
#include "lrn/lrn_tile.h"
#include "simd/math.h"

namespace refactor::kernel {
namespace {

/// s^-beta; the exponent of every published network, 0.75, needs two roots instead of a logarithm.
template <bool kThreeQuarters>
RG_SIMD Vec divisor(Vec s, Vec beta) {
    if constexpr (kThreeQuarters) {
        Vec root = sqrt(s);
        return root * sqrt(root);
    } else {
        return exp(beta * log(s));
    }
}

template <bool kThreeQuarters>
void tile(LrnTile const& t) {
    constexpr int W = Vec::width;
    int64_t const before = (t.size - 1) / 2, after = t.size / 2, ring = t.size + 1;
    Vec const scale = Vec::set(t.scale), beta = Vec::set(t.beta), bias = Vec::set(t.bias);
    auto square = [&](int64_t c) {
        float* to = t.squares + c % ring * kLrnStrip;
        float const* x = t.x + c * t.stride;
        int64_t i = 0;
        for (; i + W <= t.count; i += W) {
            Vec v = Vec::load(x + i);
            (v * v).store(to + i);
        }
        if (int left = static_cast<int>(t.count - i)) {
            Vec v = Vec::load_first(x + i, left);
            (v * v).store(to + i);
        }
    };
    for (int64_t c = 0; c < after && c < t.channels; ++c) square(c);
    for (int64_t c = 0; c < t.channels; ++c) {
        if (c + after < t.channels) square(c + after);
        int64_t first = c < before ? 0 : c - before, last = c + after < t.channels ? c + after : t.channels - 1;
        float const* x = t.x + c * t.stride;
        float* y = t.y + c * t.stride;
        for (int64_t i = 0; i < t.count; i += W) {
            Vec sum = Vec::zero();
            for (int64_t k = first; k <= last; ++k) sum = sum + Vec::load(t.squares + k % ring * kLrnStrip + i);
            Vec d = divisor<kThreeQuarters>(fma(sum, scale, bias), beta);
            int left = t.count - i < W ? static_cast<int>(t.count - i) : W;
            (Vec::load_first(x + i, left) / d).store_first(y + i, left);
        }
    }
}

void run_tile(LrnTile const& t) { t.beta == 0.75f ? tile<true>(t) : tile<false>(t); }

}  // namespace
}  // namespace refactor::kernel
