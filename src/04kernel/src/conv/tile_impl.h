#pragma once
#include "conv/tile.h"
#include "conv/tile_store_impl.h"
#include "movement/transpose_small.h"

namespace refactor::kernel {
namespace {

constexpr int kMaxColumns = W == 16 ? 14 : 6;
constexpr int columns_of(int blocks) { return W == 16 || blocks == 2 ? kMaxColumns : 2 * kMaxColumns; }
/// Inputs of the positions behind a tile are asked for meanwhile: tiles of few positions end before the processor sees
/// that their channels follow each other.
constexpr bool kNarrow = W == 8;
/// Input channels between two jumps. Twelve multiply-adds on AVX2 come with eight loads: what counts the loop would be
/// the instructions too many, above all for a thread that shares its core's front end with another.
constexpr int kStepsAtOnce = kNarrow ? W : 1;
/// Taps that repay a call with the sums in memory.
constexpr int64_t kManyTaps = 16;

/// Asks for the inputs of the positions behind a tile's.
template <int R, int Q>
RG_SIMD void prefetch_next(float const* p, int64_t x_row) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int next = Q * W; next < 2 * Q * W; next += 16) __builtin_prefetch(p + r * x_row + next);
}

/// Input channels between two requests for weights behind the job's: those for a whole tap, all at once, would keep
/// AVX-512 waiting for what it needs now.
constexpr int kStepsAsked = kNarrow ? W : 2;

/// The part of the weights behind the job's that a tile brings into L2, `step` floats for `kStepsAsked` channels. A
/// tile would wait for them if it were the first to ask.
struct Ahead {
    float const* from;
    int64_t step;

    RG_SIMD void prefetch() {
        if (!from) return;
        constexpr int64_t kLine = 16;
        auto line_of = [](float const* p) { return reinterpret_cast<uintptr_t>(p) / (kLine * sizeof(float)); };
        float const* to = from + step;
        for (float const* line = from + kLine; line_of(line) <= line_of(to); line += kLine)
            __builtin_prefetch(line, 0, 2);
        from = to;
    }
};

/// Asks for what a tile stores to and for its residual while it makes its sums, some positions with each of the first
/// taps: behind the sums it would wait for memory. All at once would keep its operands waiting; 64 channels, four taps,
/// leave time for the last positions to come.
template <int B, int R, int Q>
RG_SIMD void prefetch_results(RowJob const& j, float const* y, float const* residual, int64_t tap) {
    constexpr int kPositions = (R * Q + 2) / 3;
    for (int64_t p = tap * kPositions; p < R * Q && p < (tap + 1) * kPositions; ++p) {
        int64_t at = p / Q * j.y_row + p % Q * j.y_step;
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b) {
            __builtin_prefetch(y + at + b * j.y_block, 1);
            if (residual) __builtin_prefetch(residual + at + b * j.y_block);
        }
    }
}

#if defined(__AVX512F__) && !defined(RG_BF16_PAIRS) && !defined(RG_EMULATE_AVX512)
constexpr bool kHalves = true;
#else
constexpr bool kHalves = false;
RG_SIMD Vec set_half(float x) { return Vec::set(x); }
RG_SIMD void add_half_product(Vec& c, Vec a, Vec b) { add_product(c, a, b); }
#endif

/// Input channels whose weights AVX-512 asks for before it needs them, from L2. AVX2 has no instructions to spare.
constexpr int kChannelsAhead = kNarrow ? 0 : 16;

/// Adds what one input channel of a tap contributes. `Pinned`: every sum of AVX2 keeps its register. `Half`: of the
/// last block half a vector.
template <int Step, bool Pinned, bool Half, int B, int R, int Q>
RG_SIMD void add_channel(Vec (&acc)[B][R][Q], float const* p, int64_t x_row, float const* w) {
    Vec weights[B];
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) {
        if constexpr (kChannelsAhead > 0 && Step == W) __builtin_prefetch(w + (kChannelsAhead * B + b) * W);
        weights[b] = Vec::load(w + b * W);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
        for (int q = 0; q < Q; ++q) {
            if constexpr (B == 1 && !kNarrow && !(Half && kHalves)) {
                add_product(acc[0][r][q], weights[0], p + r * x_row + q * Step);
                continue;
            }
            Vec value = Half && B == 1 ? set_half(p[r * x_row + q * Step]) : Vec::set(p[r * x_row + q * Step]);
#pragma GCC unroll 2
            for (int b = 0; b < B; ++b)
                if (Half && b + 1 == B)
                    add_half_product(acc[b][r][q], weights[b], value);
                else if constexpr (Pinned || !kNarrow)
                    add_product(acc[b][r][q], weights[b], value);
                else
                    acc[b][r][q] = fma(weights[b], value, acc[b][r][q]);
        }
}

template <int B, int R, int Q>
RG_SIMD void copy(Vec (&to)[B][R][Q], Vec const (&from)[B][R][Q]) {
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q) to[b][r][q] = from[b][r][q];
}

/// Adds the taps [t, end), which read whole blocks. Apart from `tile`, whose other loops leave too few registers.
template <int B, int R, int Q>
[[gnu::noinline]] void add_taps(RowJob const& j, float const* x, float const* w, int64_t t, int64_t end, Ahead ahead,
                                Vec (&sums)[B][R][Q]) {
    Vec acc[B][R][Q];
    copy(acc, sums);
    int64_t const x_row = j.x_row, tap_step = j.tap_step;
    int64_t const* const taps = j.taps;
    for (; t < end; ++t, w += W * B * W) {
        float const* p = x + (taps ? taps[t] : t * tap_step);
        prefetch_next<R, Q>(p, x_row), ahead.prefetch();
#pragma GCC unroll kStepsAtOnce
        for (int i = 0; i < W; ++i) add_channel<W, true, false>(acc, p + i, x_row, w + i * B * W);
    }
    copy(sums, acc);
}

/// B blocks of R rows of Q columns. `Planar` inputs have one value a tap and columns one float apart. `Far`: results
/// are asked for, for which the other tiles have no registers to spare.
template <int B, int R, int Q, bool Planar, bool Far = false, bool Half = false>
[[gnu::noinline]] void tile(RowJob const& j, float const* x, float* y, float const* residual, Ahead ahead) {
    Vec acc[B][R][Q];
    begin(j, y, acc);
    float const* w = j.w;
    int64_t const x_row = j.x_row, tap_step = j.tap_step, tap_count = j.tap_count;
    int64_t const* const taps = j.taps;
    auto input = [&](int64_t t) __attribute__((always_inline)) { return x + (taps ? taps[t] : t * tap_step); };
    if constexpr (Planar) {
        for (int64_t t = 0; t < tap_count; ++t, w += B * W) add_channel<1, false, Half>(acc, input(t), x_row, w);
    } else {
        auto part = [&](int64_t t, int first, int inner) __attribute__((always_inline)) {
            float const* p = input(t);
            for (int i = first; i < inner; ++i, w += B * W) add_channel<W, false, Half>(acc, p + i, x_row, w);
        };
        int64_t const first_taps = j.first_taps, full_taps = j.full_taps;
        int64_t t = 0;
        for (; t < first_taps; ++t) part(t, j.first_inner, t < full_taps ? W : j.last_inner);
        if constexpr (kNarrow)
            if (full_taps - t >= kManyTaps) {
                Vec sums[B][R][Q];
                copy(sums, acc);
                add_taps(j, x, w, t, full_taps, ahead, sums);
                copy(acc, sums);
                w += (full_taps - t) * W * B * W, t = full_taps;
            }
        for (; t < full_taps; ++t, w += W * B * W) {
            float const* p = input(t);
            if constexpr (kNarrow) prefetch_next<R, Q>(p, x_row);
            if constexpr (Far) prefetch_results<B, R, Q>(j, y, residual, t);
#pragma GCC unroll 1
            for (int first = 0; first < W; first += kStepsAsked) {
                ahead.prefetch();
#pragma GCC unroll kStepsAtOnce
                for (int i = first; i < first + kStepsAsked; ++i)
                    add_channel<W, false, Half>(acc, p + i, x_row, w + i * B * W);
            }
        }
        for (; t < tap_count; ++t) part(t, 0, j.last_inner);
    }
    store(j, acc, y, residual);
}

using Tile = void (*)(RowJob const&, float const*, float*, float const*, Ahead);

template <int B, int R, bool Planar, bool Far, bool Half, int... q>
struct TileTable {
    static constexpr Tile tiles[] = {nullptr, tile<B, R, q + 1, Planar, Far, Half>...};
};
template <int B, int R, bool Planar, bool Far, bool Half, int N, int... q>
struct MakeTable : MakeTable<B, R, Planar, Far, Half, N - 1, N - 1, q...> {};
template <int B, int R, bool Planar, bool Far, bool Half, int... q>
struct MakeTable<B, R, Planar, Far, Half, 0, q...> : TileTable<B, R, Planar, Far, Half, q...> {};

template <int B, bool Half>
Tile pick_of(RowJob const& j, int rows, int cols) {
    constexpr int kMost = columns_of(B);
    if (j.planar) return MakeTable<B, 1, true, false, Half, kMost>::tiles[cols];
    if (rows == 2) return MakeTable<B, 2, false, false, Half, kMost / 2>::tiles[cols];
    if constexpr (!kNarrow && !Half && B == 2)
        if (j.far) return MakeTable<B, 1, false, true, Half, kMost>::tiles[cols];
    return MakeTable<B, 1, false, false, Half, kMost>::tiles[cols];
}

/// Tile of `blocks` blocks, 1 or 2 rows, and the given columns.
Tile pick(RowJob const& j, int rows, int cols) {
    if constexpr (kHalves)
        if (j.half) return j.blocks == 2 ? pick_of<2, true>(j, rows, cols) : pick_of<1, true>(j, rows, cols);
    return j.blocks == 2 ? pick_of<2, false>(j, rows, cols) : pick_of<1, false>(j, rows, cols);
}

void run_rows(RowJob const& j) {
    int const most = columns_of(j.blocks);
    int high = !j.planar && j.cols * 2 <= most ? 2 : 1;
    int tiles = (j.cols + most - 1) / most;
    int step = j.planar ? 1 : W;
    int64_t const all = static_cast<int64_t>((j.rows + high - 1) / high) * tiles;
    // What the first of many tiles waits for is little beside what all would spend on asking.
    constexpr int64_t kMostTiles = kNarrow ? 16 : 64;
    Ahead ahead{all <= kMostTiles ? j.ahead : nullptr, (j.blocks * W * kStepsAsked + all - 1) / all};
    for (int r = 0; r < j.rows; r += high) {
        int rows = r + high <= j.rows ? high : 1;
        for (int t = 0, col = 0; t < tiles; ++t) {
            int next = static_cast<int>(static_cast<int64_t>(j.cols) * (t + 1) / tiles);
            int64_t at = r * j.y_row + col * j.y_step;
            pick(j, rows, next - col)(j, j.x + r * j.x_row + static_cast<int64_t>(col) * step, j.y + at,
                                      j.residual ? j.residual + at : nullptr, ahead);
            if (ahead.from) ahead.from += ahead.step * j.tap_count * (W / kStepsAsked);
            col = next;
        }
    }
}

struct Block {
    static constexpr int64_t size = W;
    RG_SIMD static void copy(float const* x, float* y) { Vec::load(x).store(y); }
    RG_SIMD static void zero(float* y) { Vec::zero().store(y); }
};
struct Single {
    static constexpr int64_t size = 1;
    RG_SIMD static void copy(float const* x, float* y) { *y = *x; }
    RG_SIMD static void zero(float* y) { *y = 0; }
};

/// One phase of one row: columns first, first + step, … of `x`.
template <class E, int Step>
void copy_row(float const* x, float* y, int64_t columns, int64_t first, int64_t any_step, int64_t in_columns) {
    int64_t const step = Step ? Step : any_step;
    int64_t begin = first >= 0 ? 0 : (-first + step - 1) / step,
            end = first >= in_columns ? 0 : (in_columns - 1 - first) / step + 1;
    if (begin > columns) begin = columns;
    if (end > columns) end = columns;
    if (end < begin) end = begin;
    for (int64_t i = 0; i < begin; ++i) E::zero(y + i * E::size);
    for (int64_t i = begin; i < end; ++i) E::copy(x + (first + i * step) * E::size, y + i * E::size);
    for (int64_t i = end; i < columns; ++i) E::zero(y + i * E::size);
}

/// Groups of `kStep` floats behind each other to as many rows, `width` apart.
template <int kStep>
void split_groups(float const* __restrict x, float* __restrict y, int64_t groups, int64_t width) {
    for (int64_t i = 0; i < groups; ++i)
#pragma GCC unroll 4
        for (int p = 0; p < kStep; ++p) y[p * width + i] = x[i * kStep + p];
}

/// All phases of one row of floats: column first + i * step + phase of `x`.
void split_row(float const* x, float* y, int64_t columns, int64_t first, int64_t step, int64_t in_columns) {
    auto groups_before = [&](int64_t column) { return column < 0 ? 0 : column / step; };
    auto some = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t p = 0, from = first + i * step; p < step; ++p, ++from)
                y[p * columns + i] = from >= 0 && from < in_columns ? x[from] : 0;
    };
    int64_t begin = groups_before(step - 1 - first), end = groups_before(in_columns - first);
    if (begin > columns) begin = columns;
    if (end > columns) end = columns;
    if (end < begin) end = begin;
    some(0, begin);
    float const* from = x + first + begin * step;
    if (step == 2)
        split_groups<2>(from, y + begin, end - begin, columns);
    else if (step == 4)
        split_groups<4>(from, y + begin, end - begin, columns);
    else
        transpose_words(reinterpret_cast<uint32_t const*>(from), step, end - begin, step,
                        reinterpret_cast<uint32_t*>(y + begin), columns);
    some(end, columns);
}

/// Whether every column of the input belongs to a phase that is read.
bool reads_all_phases(BandJob const& j) {
    if (j.phases < 2 || j.phases != j.column_step || j.phases > 64) return false;
    return j.phase_mask == static_cast<int64_t>(~uint64_t{0} >> (64 - j.phases));
}

template <class E>
void copy_band(BandJob const& j) {
    float* y = j.band;
    int64_t const width = j.columns * E::size;
    bool const all_phases = E::size == 1 && reads_all_phases(j);
    for (int64_t u = 0; u < j.units; ++u)
        for (int64_t d = 0; d < j.planes; ++d, y += j.skip) {
            int64_t z = j.plane_first + d * j.plane_step;
            for (int64_t r = 0; r < j.rows; ++r) {
                int64_t i = j.row_first + r * j.row_step;
                bool inside = z >= 0 && z < j.in_planes && i >= 0 && i < j.in_rows;
                int64_t const limit = inside ? j.in_columns : 0;
                float const* x = j.x + u * j.x_unit + z * j.x_plane + i * j.x_row;
                if (all_phases) {
                    split_row(x, y, j.columns, j.column_first, j.column_step, limit);
                    y += j.phases * width;
                    continue;
                }
                for (int64_t p = 0; p < j.phases; ++p, y += width) {
                    if (!(j.phase_mask >> p % 64 & 1)) continue;
                    int64_t first = j.column_first + p;
                    if (j.column_step == 1)
                        copy_row<E, 1>(x, y, j.columns, first, 1, limit);
                    else if (j.column_step == 2)
                        copy_row<E, 2>(x, y, j.columns, first, 2, limit);
                    else
                        copy_row<E, 0>(x, y, j.columns, first, j.column_step, limit);
                }
            }
        }
}

[[maybe_unused]] constexpr TileIsa kTileIsa{W, kMaxColumns, run_rows, copy_band<Block>, copy_band<Single>};

}  // namespace
}  // namespace refactor::kernel
