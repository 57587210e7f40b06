#pragma once
#include "conv/columns.h"
#include "simd/math.h"
//
#include "simd/activate.h"
#include "simd/every_third.h"
#include "simd/held.h"

#include <algorithm>
#include <utility>

// Convolutions with few output channels between row-major tensors. Lanes are neighbouring columns: a vector of X serves
// all outputs, and with a stride of one it lies as a vector wherever the tap moves it to.

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

template <int M, int N>
void columns_tile(ColumnsJob const& job) {
    ColumnsJob const j = job;  // stores might alias what is not a local variable
    Vec acc[M][N];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
        Vec const first = j.bias ? Vec::set(j.bias[m]) : Vec::zero();
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) acc[m][n] = first;
    }
    for (int64_t r = 0; r < j.rows; ++r) {
        float const *x = j.x + j.row_x[r], *w = j.w + j.row_w[r];
        for (int64_t c = 0; c < j.channels; ++c, x += j.x_channel)
            for (int64_t t = 0; t < j.taps; ++t, w += M) {
                float const* at = x + j.tap_x[t];
                Vec values[N];
#pragma GCC unroll 8
                for (int n = 0; n < N; ++n) values[n] = M > 1 ? held(Vec::load(at + n * W)) : Vec::load(at + n * W);
#pragma GCC unroll 8
                for (int m = 0; m < M; ++m) {
                    Vec const weight = Vec::set(w[m]);
#pragma GCC unroll 8
                    for (int n = 0; n < N; ++n) add_product(acc[m][n], weight, values[n]);
                }
            }
    }
    Vec sums[M][N];  // in memory, once they are complete
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) sums[m][n] = acc[m][n];
    Vec const alpha = Vec::set(j.activation.alpha), beta = Vec::set(j.activation.beta);
#pragma GCC unroll 1
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 1
        for (int n = 0; n < N; ++n) {
            auto lanes = static_cast<int>(std::clamp<int64_t>(j.count - n * W, 0, W));
            activate(j.activation.kind, sums[m][n], alpha, beta).store_first(j.y + m * j.y_channel + n * W, lanes);
        }
}

template <int64_t kStride>
void copy_phases(PhasesJob const& j) {
    auto stride = kStride ? kStride : j.stride;
    for (int64_t phase = 0; phase < stride; ++phase) {
        if (!(j.phase_mask >> phase % 64 & 1)) continue;
        auto begin = j.begin + phase;
        auto first = std::clamp<int64_t>(begin < 0 ? (-begin + stride - 1) / stride : 0, 0, j.length);
        auto end =
            std::clamp<int64_t>(j.columns > begin ? (j.columns - begin + stride - 1) / stride : 0, first, j.length);
        auto* y = j.y + phase * j.length;
        auto const* x = j.x + begin;
        std::fill(y, y + first, 0.f);
        auto i = first;
        if constexpr (kStride == 3)
            for (; i + W <= end && begin + 3 * (i + W) <= j.columns; i += W)
                every_third(Vec::load(x + 3 * i), Vec::load(x + 3 * i + W), Vec::load(x + 3 * i + 2 * W)).store(y + i);
        for (; i < end; ++i) y[i] = x[i * stride];
        std::fill(y + end, y + j.length, 0.f);
    }
}

void phases(PhasesJob const& job) {
    if (job.stride == 1) return copy_phases<1>(job);
    if (job.stride == 2) return copy_phases<2>(job);
    job.stride == 3 ? copy_phases<3>(job) : copy_phases<0>(job);
}

using Tile = void (*)(ColumnsJob const&);

template <int M, size_t... vectors>
constexpr void add_tiles(ColumnsIsa& isa, std::index_sequence<vectors...>) {
    isa.vectors[M - 1] = sizeof...(vectors);
    ((isa.tile[M - 1][vectors] = columns_tile<M, vectors + 1>), ...);
}

/// As many sums as leave registers for a weight and the vectors of X.
constexpr ColumnsIsa make_columns_isa() {
    ColumnsIsa isa{W, W / 2, {}, {}, phases};
    add_tiles<1>(isa, std::make_index_sequence<8>{});
#ifdef __AVX512F__
    add_tiles<2>(isa, std::make_index_sequence<8>{});
    add_tiles<3>(isa, std::make_index_sequence<7>{});
    add_tiles<4>(isa, std::make_index_sequence<6>{});
    add_tiles<5>(isa, std::make_index_sequence<4>{});
    add_tiles<6>(isa, std::make_index_sequence<4>{});
    add_tiles<7>(isa, std::make_index_sequence<3>{});
    add_tiles<8>(isa, std::make_index_sequence<3>{});
#else
    add_tiles<2>(isa, std::make_index_sequence<4>{});
    add_tiles<3>(isa, std::make_index_sequence<3>{});
    add_tiles<4>(isa, std::make_index_sequence<3>{});
#endif
    return isa;
}

constexpr ColumnsIsa kColumnsIsa = make_columns_isa();

}  // namespace
}  // namespace refactor::kernel
