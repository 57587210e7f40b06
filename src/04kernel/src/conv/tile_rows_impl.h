#pragma once
// Rows of positions by tiles (AMX) of numbers of bf16, rounded or in three parts; include what emulates them first,
// where they are.
//
// A band holds pairs of channels, [unit][row][column][parts][16 pairs], so that 16 neighbouring positions of a unit are
// a tile of A where they lie, or three; 16 pairs of channels by a block of output channels are a tile of B. Where rows
// of the band follow each other, tiles go on from one to the next through the columns between them, which are computed
// in vain: 2 of 58 where that leaves no tile half empty.
//
// Products of three parts are those of f32 (`three_parts.h`). Numbers that are not finite make sums that are not, which
// vectors then compute again.
#include "conv/tile_store_impl.h"
//
#include "simd/ahead.h"
#include "simd/three_parts.h"
#include "simd/tiles.h"

namespace refactor::kernel {
namespace {

/// Positions of a job: rows of `pitch`, of which the first `cols` are wanted, one after the other, or each for itself.
struct Positions {
    int64_t rows, cols, pitch;

    static Positions of(RowJob const& j, int parts) {
        int64_t const rows = j.rows, cols = j.cols, pitch = j.x_row / (parts * W);
        auto tiles = [](int64_t n) { return (n + kTileRows - 1) / kTileRows; };
        bool together = rows > 1 && tiles((rows - 1) * pitch + cols) <= rows * tiles(cols);
        return {rows, cols, together ? pitch : 0};
    }
    /// That tiles walk through before they start anew.
    int64_t run() const { return pitch ? (rows - 1) * pitch + cols : cols; }
    int64_t runs() const { return pitch ? 1 : rows; }
};

/// Bytes of weights that are asked for ahead: L2 has to keep them beside those that are read and the band.
constexpr int64_t kMostAhead = 512 << 10;

/// Sums of `count` neighbouring positions, [position][block], by vectors.
template <int B>
[[gnu::noinline]] void sum_by_vectors(RowJob const& j, float const* x, int count, float* sums) {
    for (int q = 0; q < count; ++q, x += kParts * W, sums += B * W) {
        Vec acc[B]{};
        float const* w = j.w;
        for (int64_t t = 0; t < j.tap_count; ++t, w += kParts * B * W * W)
            for (bool odd : {false, true}) {
                alignas(64) float channels[W];
                from_parts(x + (j.taps ? j.taps[t] : t * j.tap_step), W, odd).store(channels);
                for (int i = 0; i < W; ++i)
                    for (int b = 0; b < B; ++b)
                        acc[b] = fma(Vec::set(channels[i]), from_parts(w + (i * B + b) * W, B * W * W, odd), acc[b]);
            }
        for (int b = 0; b < B; ++b) acc[b].store(sums + b * W);
    }
}

/// Sums of two tiles of positions that are stored a few at a time, while those of the next are made.
template <int B, int parts>
class PendingSums {
    static constexpr int kAtOnce = 4;
    RowJob const& j_;
    Positions const p_;
    float *sums_ = nullptr, *y_ = nullptr;
    float const *x_ = nullptr, *residual_ = nullptr;
    int64_t left_ = 0, wanted_ = 0;  // positions, and of this row those that are wanted

    RG_SIMD void skip(int64_t positions) {
        sums_ += positions * B * W, left_ -= positions;
        if constexpr (parts > 1) x_ += positions * parts * W;
    }
    RG_SIMD void next_row(int64_t columns) {
        y_ += j_.y_row - columns * j_.y_step;
        if (residual_) residual_ += j_.y_row - columns * j_.y_step;
        wanted_ = p_.cols;
    }
    /// `Q` neighbouring positions.
    template <int Q>
    RG_SIMD void store_some() {
        if constexpr (parts > 1) {
            Mask finite = first_lanes(W);
#pragma GCC unroll 8
            for (int i = 0; i < Q * B; ++i)
                finite = finite & (abs(Vec::load(sums_ + i * W)) <= Vec::set(__FLT_MAX__));
            if (finite.m != first_lanes(W).m) [[unlikely]]
                sum_by_vectors<B>(j_, x_, Q, sums_);
        }
        Vec acc[B][1][Q];
        begin(j_, y_, acc);
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) acc[b][0][q] = acc[b][0][q] + Vec::load(sums_ + (q * B + b) * W);
        store(j_, acc, y_, residual_);
        y_ += Q * j_.y_step;
        if (residual_) residual_ += Q * j_.y_step;
        wanted_ -= Q, skip(Q);
    }

public:
    PendingSums(RowJob const& j, Positions const& p) : j_(j), p_(p) {}
    /// Those of `count` positions from position `first` on of a run that begins with row `row`, whose input is `x` (of
    /// one part: is not read).
    RG_SIMD void begin_tiles(float* sums, float const* x, int64_t row, int64_t first, int64_t count) {
        int64_t const down = p_.pitch ? first / p_.pitch : 0, col = first - down * p_.pitch;
        int64_t const at = (row + down) * j_.y_row + col * j_.y_step;
        sums_ = sums, x_ = x, y_ = j_.y + at, residual_ = j_.residual ? j_.residual + at : nullptr;
        left_ = count, wanted_ = p_.cols - col;
        if (wanted_ <= 0) skip(p_.pitch - col), next_row(col);
    }
    [[gnu::noinline]] void store_a_few() {
        int64_t const n = left_ < wanted_ ? left_ : wanted_;
        if (n >= kAtOnce)
            store_some<kAtOnce>();
        else
            for (int64_t i = 0; i < n; ++i) store_some<1>();
        if (wanted_ == 0 && any()) skip(p_.pitch - p_.cols), next_row(p_.cols);
    }
    RG_SIMD bool any() const { return left_ > 0; }
    RG_SIMD void store_all() {
        while (any()) store_a_few();
    }
};

template <bool kBoth, int B, int parts>
RG_SIMD void add_taps_of(RowJob const& j, float const* x, Ahead& ahead, PendingSums<B, parts>& pending, float* sums) {
    constexpr int64_t kColumn = 4 * parts * W, kRow = B * 4 * W;
    clear_sums<kBoth, B == 2>();
    float const* w = j.w;
    int64_t const taps = j.tap_count;
    for (int64_t t = 0; t < taps; ++t, w += parts * B * W * W) {
        ahead.prefetch(parts * W);
        float const* from = x + (j.taps ? j.taps[t] : t * j.tap_step);
        float const* second = from + kTileRows * parts * W;
        if constexpr (parts == 1) {
            add_pairs<kBoth, B == 2>(from, second, kColumn, w, kRow);
            if (pending.any()) pending.store_a_few();
        } else {
            bool other = false;
            add_parts<kBoth, B == 2>({from, second, kColumn, W, w, kRow, B * W * W},
                                     [&]() __attribute__((always_inline)) {
                                         if ((other = !other) && pending.any()) pending.store_a_few();
                                     });
        }
    }
    pending.store_all();
    store_sums<kBoth, B == 2>(sums, sums + kTileRows * B * W, kRow);
}

template <int B, int parts>
void run_tiles(RowJob const& j) {
    constexpr int64_t kBoth = 2 * kTileRows;
    auto const p = Positions::of(j, parts);
    int64_t const run = p.run(), all = p.runs() * ((run + kBoth - 1) / kBoth);
    constexpr int64_t kRow = B * 4 * W;
    bool const more = j.ahead && j.tap_count * parts * W * kRow <= kMostAhead;
    Ahead ahead{reinterpret_cast<char const*>(j.ahead), more ? (kRow + all - 1) / all : 0};
    alignas(64) float sums[2][kBoth * B * W];
    PendingSums<B, parts> pending(j, p);
    int at = 0;
    for (int64_t row = 0; row < p.runs(); ++row)
        for (int64_t first = 0; first < run; first += kBoth, at ^= 1) {
            int64_t const count = run - first < kBoth ? run - first : kBoth;
            float const* x = j.x + row * j.x_row + first * parts * W;
            if (count > kTileRows)
                add_taps_of<true, B>(j, x, ahead, pending, sums[at]);
            else
                add_taps_of<false, B>(j, x, ahead, pending, sums[at]);
            pending.begin_tiles(sums[at], x, row, first, count);
        }
    pending.store_all();
}

template <int parts>
void run_rows_by_tiles(RowJob const& j) {
    TileRegisters registers(W);
    registers.shape(kTileRows, kTileRows);
    if (j.blocks == 2)
        run_tiles<2, parts>(j);
    else
        run_tiles<1, parts>(j);
}

}  // namespace
}  // namespace refactor::kernel
