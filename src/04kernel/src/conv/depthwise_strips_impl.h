#pragma once
#include "conv/depthwise.h"
#include "conv/store_impl.h"

// Sums of a depthwise convolution, or of one with groups of a part of a block, for a few positions at a time.

namespace refactor::kernel {
namespace {

/// Positions whose sums are kept in registers: each multiply-add loads its own input, so 12 chains only have to hide
/// the latency.
constexpr int kPositions = W == 16 ? 14 : 12;

/// Whether a register is left for an input that several taps meet.
constexpr bool kHolds = W == 16;

/// Positions along a row or a column that see the same part of the window.
struct Strip {
    float const* x;               ///< input under the first tap of the part, of the first position
    int64_t x_step;               ///< between positions
    float const* w;               ///< first tap of the part
    int64_t rows, cols;           ///< taps of the part
    int64_t x_row, x_col, w_row;  ///< between taps
    float* y;
    float const* residual;
    int64_t y_step;
    int64_t first_in = 0, end_in = 0;
};

/// Walks the rows of taps of a strip, plane after plane.
struct TapRow {
    float const *x, *w;  ///< first tap of the row
    int64_t row = 0, count, in_plane = 0;
    DepthwiseJob const& j;
    Strip const& s;
    TapRow(DepthwiseJob const& job, Strip const& strip)
        : x(strip.x), w(strip.w), count(job.planes * strip.rows), j(job), s(strip) {}
    void next() {
        x += s.x_row, w += s.w_row, ++row;
        if (++in_plane < s.rows) return;
        x += j.x_plane - s.rows * s.x_row, w += j.w_plane - s.rows * s.w_row, in_plane = 0;
    }
};

template <int Q>
RG_SIMD void start(DepthwiseJob const& j, Vec (&acc)[Q]) {
    Vec value = j.bias ? Vec::load_first(j.bias, j.lanes) : Vec::zero();
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) acc[q] = value;
}

template <int Q>
RG_SIMD void finish(DepthwiseJob const& j, Strip const& s, Vec const (&acc)[Q]) {
    bool const clamp = simple(j.activation.kind);
    Range const range(clamp ? j.activation : Activation{});
    Mask const lanes = first_lanes(j.lanes);
    // Locals, since stores might alias the strip.
    float* const y = s.y;
    float const* const residual = s.residual;
    int64_t const y_step = s.y_step;
    auto each = [&](auto&& result) __attribute__((always_inline)) {
#pragma GCC unroll 14
        for (int q = 0; q < Q; ++q) select(lanes, result(acc[q], q * y_step), Vec::zero()).store(y + q * y_step);
    };
    auto limited = [&](Vec v) __attribute__((always_inline)) { return min(range.high, max(range.low, v)); };
    if (HardSwish::is(j.activation) && !residual) return each(HardSwish(j.activation));
    if (!residual || (j.residual_last && !clamp))
        each([&](Vec v, int64_t) __attribute__((always_inline)) { return limited(v); });
    else if (j.residual_last)
        each([&](Vec v, int64_t at) __attribute__((always_inline)) { return limited(v) + Vec::load(residual + at); });
    else
        each([&](Vec v, int64_t at) __attribute__((always_inline)) { return limited(v + Vec::load(residual + at)); });
    if (!clamp) activate_stored(y, j.residual_last ? residual : nullptr, y_step, Q, j.lanes, j.activation);
}

/// For each lane, the lanes of its group of `width` in order.
struct GroupLanes {
    IntVec nth[W / 2];
    explicit GroupLanes(int width) {
        for (int i = 0; i < width; ++i) {
            int32_t lanes[W];
            for (int lane = 0; lane < W; ++lane) lanes[lane] = (lane & -width) + i;
            nth[i] = IntVec::load(lanes);
        }
    }
};

RG_SIMD Vec pick(Vec from, IntVec lanes) {
#ifdef __AVX512F__
    return {_mm512_permutexvar_ps(lanes.v, from.v)};
#else
    return {_mm256_permutevar8x32_ps(from.v, lanes.v)};
#endif
}

template <int Q>
[[gnu::noinline]] void strip(DepthwiseJob const& j, Strip const& s) {
    Vec acc[Q];
    start(j, acc);
    int64_t const step = s.x_step;
    for (TapRow at(j, s); at.row < at.count; at.next()) {
        float const *x = at.x, *w = at.w;
        for (int64_t v = 0; v < s.cols; ++v, x += s.x_col, w += W) {
            Vec weight = Vec::load(w);
            float const* p = x;
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q, p += step) acc[q] = fma(weight, Vec::load(p), acc[q]);
        }
    }
    finish(j, s, acc);
}

/// The same for groups of several channels: each lane reads those of its group.
template <int Q>
[[gnu::noinline]] void grouped(DepthwiseJob const& j, Strip const& s) {
    Vec acc[Q];
    start(j, acc);
    int64_t const step = s.x_step;
    GroupLanes const lanes(j.width);
    for (TapRow at(j, s); at.row < at.count; at.next()) {
        float const *x = at.x, *w = at.w;
        for (int64_t v = 0; v < s.cols; ++v, x += s.x_col)
            for (int i = 0; i < j.width; ++i, w += W) {
                Vec weight = Vec::load(w);
                IntVec from = lanes.nth[i];
                float const* p = x;
#pragma GCC unroll 14
                for (int q = 0; q < Q; ++q, p += step) acc[q] = fma(weight, pick(Vec::load(p), from), acc[q]);
            }
    }
    finish(j, s, acc);
}

/// `strip` along a row for `Cols` neighbouring taps and stride `Stride`: each input is loaded once for all taps that
/// it meets. `Edge`: only the inputs [first_in, end_in) counted from `x` exist, one at least under each position.
template <int Cols, int Stride, bool Edge, bool Grouped, int Q>
[[gnu::noinline]] void sliding(DepthwiseJob const& j, Strip const& s) {
    Vec acc[Q];
    start(j, acc);
    int const width = Grouped ? j.width : 1;
    GroupLanes const lanes(Grouped ? width : 0);
    for (TapRow at(j, s); at.row < at.count; at.next()) {
        float const *x = at.x, *w = at.w;
        for (int k = 0; k < width; ++k, w += W) {
            Vec weights[Cols];
#pragma GCC unroll 5
            for (int v = 0; v < Cols; ++v) weights[v] = Vec::load(w + v * width * W);
#pragma GCC unroll 32
            for (int i = 0; i < (Q - 1) * Stride + Cols; ++i) {
                if (Edge && ((i < Cols - 1 && i < s.first_in) || (i > (Q - 1) * Stride && i >= s.end_in))) continue;
                Vec value = Vec::load(x + i * W);
                if (kHolds) value = held(value);
                if (Grouped) value = pick(value, lanes.nth[k]);
#pragma GCC unroll 5
                for (int v = 0; v < Cols; ++v)
                    if (i >= v && (i - v) % Stride == 0 && (i - v) / Stride < Q)
                        acc[(i - v) / Stride] = fma(weights[v], value, acc[(i - v) / Stride]);
            }
        }
    }
    finish(j, s, acc);
}

}  // namespace
}  // namespace refactor::kernel
