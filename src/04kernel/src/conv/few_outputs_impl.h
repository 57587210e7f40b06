#pragma once
#include "conv/few_outputs.h"
#include "simd/math.h"
//
#include "simd/activate.h"
#include "simd/held.h"
#include "simd/sums.h"

// Convolutions with few output channels. Lanes are input channels: a vector of X serves as many multiply-adds as there
// are outputs, where lanes of outputs would take one for each input channel and leave most lanes empty. Sums of as many
// vectors as have lanes are then made at once.

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

alignas(64) constexpr float kNothing[W] = {};

/// `P` positions from `first` on of `M` outputs, `count` of which there are. `edge`: windows may reach outside.
template <int M, int P, bool edge>
RG_SIMD void few_outputs_tile(FewOutputsJob const& j, int64_t first, int64_t count, Vec bias) {
    int64_t const step = j.col_stride * W, dilation = j.col_dilation * W, begin = first * j.col_stride - j.col_pad;
    Vec acc[M][P];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) acc[m][p] = Vec::zero();
    for (int64_t b = 0; b < j.blocks; ++b)
        for (int64_t r = 0; r < j.rows; ++r) {
            float const* w = j.w + b * j.w_block + j.row_w[r];
            float const* x = j.x + b * j.x_block + j.row_x[r] + begin * W;
            // What the next tile reads first of this row: tiles of few positions end before the processor sees that
            // they follow each other.
            for (int64_t next = 0; !edge && next < P * step; next += 16)
                __builtin_prefetch(x + (j.kernel_cols - 1) * dilation + P * step + next);
            for (int64_t c = 0; c < j.kernel_cols; ++c, w += M * W, x += dilation) {
                Vec weights[M];
#pragma GCC unroll 8
                for (int m = 0; m < M; ++m) weights[m] = Vec::load(w + m * W);
#pragma GCC unroll 16
                for (int p = 0; p < P; ++p) {
                    float const* at = x + p * step;
                    int64_t column = begin + p * j.col_stride + c * j.col_dilation;
                    if (edge && (p >= count || column < 0 || column >= j.in_cols)) at = kNothing;
                    Vec value = M > 1 ? held(Vec::load(at)) : Vec::load(at);
#pragma GCC unroll 8
                    for (int m = 0; m < M; ++m) add_product(acc[m][p], weights[m], value);
                }
            }
        }
    Vec all[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) all[i] = i < M * P ? acc[i / P % M][i % P] : Vec::zero();
    alignas(64) float results[W];
    activate(j.activation.kind, sums_of(all) + bias, Vec::set(j.activation.alpha), Vec::set(j.activation.beta))
        .store(results);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
        for (int p = 0; p < (edge ? count : P); ++p) j.y[m * j.y_channel + first + p] = results[m * P + p];
}

template <int M>
void few_outputs_row(FewOutputsJob const& job) {
    constexpr int P = W / M;
    FewOutputsJob const j = job;  // stores might alias what is not a local variable
    alignas(64) float lanes[W] = {};
    for (int m = 0; j.bias && m < M; ++m)
        for (int p = 0; p < P; ++p) lanes[m * P + p] = j.bias[m];
    Vec const bias = Vec::load(lanes);
    int64_t const reach = (P - 1) * j.col_stride + (j.kernel_cols - 1) * j.col_dilation;
    for (int64_t first = j.col; first < j.col_end; first += P) {
        int64_t left = j.col_end - first, begin = first * j.col_stride - j.col_pad;
        if (left >= P && begin >= 0 && begin + reach < j.in_cols)
            few_outputs_tile<M, P, false>(j, first, P, bias);
        else
            few_outputs_tile<M, P, true>(j, first, left < P ? left : P, bias);
    }
}

constexpr FewOutputsIsa kFewOutputsIsa{W,
#ifdef __AVX512F__
                                       {few_outputs_row<1>, few_outputs_row<2>, few_outputs_row<3>, few_outputs_row<4>,
                                        few_outputs_row<5>, few_outputs_row<6>, few_outputs_row<7>, few_outputs_row<8>}
#else
                                       {few_outputs_row<1>, few_outputs_row<2>, few_outputs_row<3>, few_outputs_row<4>}
#endif
};

}  // namespace
}  // namespace refactor::kernel
