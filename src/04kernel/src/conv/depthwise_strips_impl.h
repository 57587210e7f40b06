#pragma once
#include "conv/depthwise.h"
#include "conv/store_impl.h"

// Sums of a depthwise convolution, or of one with groups of a part of a block, for a few positions at a time. Include a
// `simd/lanes_*.h` first.

namespace refactor::kernel {
namespace {

using Job = DepthwiseJobOf<Stored>;
constexpr int kLanes = Lanes::width;

/// Positions whose sums are kept in registers: each multiply-add loads its own input, so 12 chains only have to hide
/// the latency. Of bf16 two vectors each, beside which there is room for the five weights of a row of taps.
constexpr int kPositions = kRounds ? 9 : W == 16 ? 14 : 12;

/// Whether a register is left for an input that several taps meet.
constexpr bool kHolds = W == 16;

/// Positions along a row or a column that see the same part of the window.
struct Strip {
    Stored const* x;              ///< input under the first tap of the part, of the first position
    int64_t x_step;               ///< between positions
    float const* w;               ///< first tap of the part
    int64_t rows, cols;           ///< taps of the part
    int64_t x_row, x_col, w_row;  ///< between taps
    Stored* y;
    Stored const* residual;
    int64_t y_step;
    int64_t first_in = 0, end_in = 0;
};

/// Walks the rows of taps of a strip, plane after plane.
struct TapRow {
    Stored const* x;  ///< first tap of the row
    float const* w;
    int64_t row = 0, count, in_plane = 0;
    Job const& j;
    Strip const& s;
    TapRow(Job const& job, Strip const& strip)
        : x(strip.x), w(strip.w), count(job.planes * strip.rows), j(job), s(strip) {}
    void next() {
        x += s.x_row, w += s.w_row, ++row;
        if (++in_plane < s.rows) return;
        x += j.x_plane - s.rows * s.x_row, w += j.w_plane - s.rows * s.w_row, in_plane = 0;
    }
};

template <int Q>
RG_SIMD void start(Job const& j, Lanes (&acc)[Q]) {
    Lanes value = j.bias ? Lanes::load_first(j.bias, j.lanes) : Lanes::zero();
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) acc[q] = value;
}

/// An activation that is not simple of sums in floats, [count][kLanes], which are then rounded once.
[[maybe_unused, gnu::noinline]] void round_activated(Job const& j, Strip const& s, float* sums, int count) {
    activate_stored(sums, nullptr, W, count * (kLanes / W), W, j.activation);
    auto const lanes = lanes_of(j.lanes);
    for (int q = 0; q < count; ++q) {
        Lanes v = load_floats(sums + q * kLanes);
        if (s.residual && j.residual_last) v = v + Lanes::load(s.residual + q * s.y_step);
        select(lanes, v, Lanes::zero()).store(s.y + q * s.y_step);
    }
}

template <int Q, class T = Stored>
RG_SIMD void finish(Job const& j, Strip const& s, Lanes const (&acc)[Q]) {
    bool const clamp = simple(j.activation.kind);
    Range const range(clamp ? j.activation : Activation{});
    auto const lanes = lanes_of(j.lanes);
    // Locals, since stores might alias the strip.
    T* const y = s.y;
    T const* const residual = s.residual;
    int64_t const y_step = s.y_step;
    auto each = [&](auto&& result) __attribute__((always_inline)) {
#pragma GCC unroll 14
        for (int q = 0; q < Q; ++q) select(lanes, result(acc[q], q * y_step), Lanes::zero()).store(y + q * y_step);
    };
    auto limited = [&](Lanes v) __attribute__((always_inline)) { return min(range.high, max(range.low, v)); };
    if (HardSwish::is(j.activation) && !residual) {
        HardSwish const function(j.activation);
        return each([&](Lanes v, int64_t at) __attribute__((always_inline)) {
            return each_vector(v, [&](Vec sum) __attribute__((always_inline)) { return function(sum, at); });
        });
    }
    if constexpr (kRounds)
        if (!clamp) {
            float sums[Q * kLanes];
            bool const first = residual && !j.residual_last;
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q)
                store_floats(first ? acc[q] + Lanes::load(residual + q * y_step) : acc[q], sums + q * kLanes);
            return round_activated(j, s, sums, Q);
        }
    if (!residual || (j.residual_last && !clamp))
        each([&](Lanes v, int64_t) __attribute__((always_inline)) { return limited(v); });
    else if (j.residual_last)
        each([&](Lanes v, int64_t at)
                 __attribute__((always_inline)) { return limited(v) + Lanes::load(residual + at); });
    else
        each([&](Lanes v, int64_t at)
                 __attribute__((always_inline)) { return limited(v + Lanes::load(residual + at)); });
    if constexpr (!kRounds)
        if (!clamp) activate_stored(y, j.residual_last ? residual : nullptr, y_step, Q, j.lanes, j.activation);
}

/// For each lane, the lanes of its group of `width` in order.
struct GroupLanes {
    static constexpr int kVectors = kLanes / W;
    IntVec lanes[W / 2];
    explicit GroupLanes(int width) {
        width /= kVectors;
        for (int i = 0; i < width; ++i) {
            int32_t numbers[W];
            for (int lane = 0; lane < W; ++lane) numbers[lane] = (lane & -width) + i;
            lanes[i] = IntVec::load(numbers);
        }
    }
    RG_SIMD IntVec nth(int i) const { return lanes[i / kVectors]; }
};

template <int Q>
[[gnu::noinline]] void strip(Job const& j, Strip const& s) {
    Lanes acc[Q];
    start(j, acc);
    int64_t const step = s.x_step;
    for (TapRow at(j, s); at.row < at.count; at.next()) {
        Stored const* x = at.x;
        float const* w = at.w;
        for (int64_t v = 0; v < s.cols; ++v, x += s.x_col, w += kLanes) {
            Lanes weight = load_floats(w);
            Stored const* p = x;
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q, p += step) acc[q] = fma(weight, Lanes::load(p), acc[q]);
        }
    }
    finish(j, s, acc);
}

/// The same for groups of several channels: each lane reads those of its group.
template <int Q>
[[gnu::noinline]] void grouped(Job const& j, Strip const& s) {
    Lanes acc[Q];
    start(j, acc);
    int64_t const step = s.x_step;
    GroupLanes const lanes(j.width);
    for (TapRow at(j, s); at.row < at.count; at.next()) {
        Stored const* x = at.x;
        float const* w = at.w;
        for (int64_t v = 0; v < s.cols; ++v, x += s.x_col)
            for (int i = 0; i < j.width; ++i, w += kLanes) {
                Lanes weight = load_floats(w);
                IntVec from = lanes.nth(i);
                Stored const* p = x;
#pragma GCC unroll 14
                for (int q = 0; q < Q; ++q, p += step) acc[q] = fma(weight, pick(Lanes::load(p), from, i), acc[q]);
            }
    }
    finish(j, s, acc);
}

/// Which inputs along a row may be missing: none; some, but one is under each position; any.
enum class Missing { None, Some, Any };

/// Adds what `Cols` neighbouring taps of a row make of Q positions along it: each input is loaded once for all taps
/// that it meets. Only the inputs [first_in, end_in) counted from `x` exist, where some may be missing. Weights are
/// `w_col` apart; `select` picks the lanes of an input.
template <int Cols, int Stride, Missing Inputs, int Q, class Select>
RG_SIMD void slide(Lanes (&acc)[Q], Stored const* x, float const* w, int64_t w_col, int64_t first_in, int64_t end_in,
                   Select&& select) {
    Lanes weights[Cols];
#pragma GCC unroll 5
    for (int v = 0; v < Cols; ++v) weights[v] = load_floats(w + v * w_col);
#pragma GCC unroll 32
    for (int i = 0; i < (Q - 1) * Stride + Cols; ++i) {
        bool const any = Inputs == Missing::Any, some = Inputs != Missing::None;
        if ((any || (some && i < Cols - 1)) && i < first_in) continue;
        if ((any || (some && i > (Q - 1) * Stride)) && i >= end_in) continue;
        Lanes value = Lanes::load(x + i * kLanes);
        if (kHolds) value = held(value);
        value = select(value);
#pragma GCC unroll 5
        for (int v = 0; v < Cols; ++v)
            if (i >= v && (i - v) % Stride == 0 && (i - v) / Stride < Q)
                acc[(i - v) / Stride] = fma(weights[v], value, acc[(i - v) / Stride]);
    }
}

/// `strip` along a row for `Cols` neighbouring taps and stride `Stride`. `Edge`: only the inputs [first_in, end_in)
/// counted from `x` exist, one at least under each position.
template <int Cols, int Stride, bool Edge, bool Grouped, int Q>
[[gnu::noinline]] void sliding(Job const& j, Strip const& s) {
    Lanes acc[Q];
    start(j, acc);
    int const width = Grouped ? j.width : 1;
    GroupLanes const lanes(Grouped ? width : 0);
    for (TapRow at(j, s); at.row < at.count; at.next())
        for (int k = 0; k < width; ++k)
            slide<Cols, Stride, Edge ? Missing::Some : Missing::None>(
                acc, at.x, at.w + k * kLanes, width * kLanes, s.first_in,
                s.end_in, [&](Lanes value) __attribute__((always_inline)) {
                    return Grouped ? pick(value, lanes.nth(k), k) : value;
                });
    finish(j, s, acc);
}

/// The same for six taps and more, in runs of three to five.
template <int Stride, bool Edge, int Q>
[[gnu::noinline]] void sliding_in_runs(Job const& j, Strip const& s) {
    constexpr auto kInputs = Edge ? Missing::Any : Missing::None;
    Lanes acc[Q];
    start(j, acc);
    int64_t const taps = j.kernel_cols, runs = (taps + 4) / 5;
    auto as_it_is = [](Lanes value) __attribute__((always_inline)) { return value; };
    for (TapRow at(j, s); at.row < at.count; at.next())
        for (int64_t run = 0, tap = 0; run < runs; ++run) {
            int64_t const next = taps * (run + 1) / runs, first_in = s.first_in - tap, end_in = s.end_in - tap;
            auto const* x = at.x + tap * kLanes;
            auto const* w = at.w + tap * kLanes;
            if (next - tap == 3)
                slide<3, Stride, kInputs>(acc, x, w, kLanes, first_in, end_in, as_it_is);
            else if (next - tap == 4)
                slide<4, Stride, kInputs>(acc, x, w, kLanes, first_in, end_in, as_it_is);
            else
                slide<5, Stride, kInputs>(acc, x, w, kLanes, first_in, end_in, as_it_is);
            tap = next;
        }
    finish(j, s, acc);
}

}  // namespace
}  // namespace refactor::kernel
