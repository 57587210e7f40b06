#pragma once
// Sums of tiles of positions that wait to be stored; include a wrapper first.
#include "conv/panels_in_parts_impl.h"
#include "conv/tile_store_impl.h"
//
#include "simd/tiles.h"

namespace refactor::kernel {
namespace {

/// Positions of a job by tiles of 16: rows of `pitch`, of which the first `cols` are wanted, one after the other, or
/// each for itself (`pitch` 0).
struct TilePositions {
    int64_t rows, cols, pitch;

    static constexpr int64_t kTile = 16, kPair = 2 * kTile;
    static TilePositions of(int64_t rows, int64_t cols, int64_t pitch) {
        auto tiles = [](int64_t n) { return (n + kTile - 1) / kTile; };
        bool together = rows > 1 && tiles((rows - 1) * pitch + cols) <= rows * tiles(cols);
        return {rows, cols, together ? pitch : 0};
    }
    /// That tiles walk through before they start anew.
    int64_t run() const { return pitch ? (rows - 1) * pitch + cols : cols; }
    int64_t runs() const { return pitch ? 1 : rows; }
    /// Of two tiles.
    int64_t pairs() const { return runs() * ((run() + kPair - 1) / kPair); }
};

/// Sums of `count` neighbouring positions, [position][block], by vectors, of the numbers that parts are of.
template <int B>
[[gnu::noinline]] void sum_by_vectors(RowJob const& j, float const* x, int count, float* sums) {
    UnitWeights<B> const weights(j);
    for (int q = 0; q < count; ++q, x += W, sums += B * W) {
        Vec acc[B]{};
        for (int64_t u = 0; u < weights.units; ++u)
            for (int64_t t = 0; t < weights.taps; ++t) {
                alignas(64) float channels[W];
                from_parts(x + j.taps[u * weights.taps + t], j.x_part, u % 2).store(channels);
                float const* w = weights.at(u, t);
                for (int i = 0; i < weights.channels(u); ++i, w += B * W)
                    for (int b = 0; b < B; ++b) acc[b] = fma(Vec::set(channels[i]), Vec::load(w + b * W), acc[b]);
            }
        for (int b = 0; b < B; ++b) acc[b].store(sums + b * W);
    }
}

/// Sums of two tiles of positions that are stored a few at a time, while those of the next are made.
template <int B, int parts>
class PendingSums {
    static constexpr int kAtOnce = 4;
    RowJob const& j_;
    TilePositions const p_;
    float *sums_ = nullptr, *y_ = nullptr;
    float const *x_ = nullptr, *residual_ = nullptr;
    int64_t left_ = 0, wanted_ = 0;  // positions, and of this row those that are wanted

    RG_SIMD void skip(int64_t positions) {
        sums_ += positions * B * W, left_ -= positions;
        if constexpr (parts > 1) x_ += positions * W;
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
            for (int i = 0; i < Q * B; ++i) finite = finite & (abs(Vec::load(sums_ + i * W)) <= Vec::set(__FLT_MAX__));
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
    static constexpr int64_t kTimes = TilePositions::kPair / kAtOnce;  ///< until all are stored

    PendingSums(RowJob const& j, TilePositions const& p) : j_(j), p_(p) {}
    /// Those of `count` positions from position `first` on of a run that begins with row `row`, whose input is `x` (of
    /// one part: is not read).
    RG_SIMD void begin_tiles(float* sums, float const* x, int64_t row, int64_t first, int64_t count) {
        int64_t const down = p_.pitch ? first / p_.pitch : 0, col = first - down * p_.pitch;
        int64_t const at = (row + down) * j_.y_row + col * j_.y_step;
        sums_ = sums, x_ = x, y_ = j_.y + at, residual_ = j_.residual ? j_.residual + at : nullptr;
        left_ = count, wanted_ = p_.cols - col;
        if (wanted_ <= 0) skip(p_.pitch - col), next_row(col);
    }
    /// `times` times up to four.
    [[gnu::noinline]] void store_a_few(int64_t times = 1) {
        for (; times > 0 && any(); --times) {
            int64_t const n = left_ < wanted_ ? left_ : wanted_;
            if (n >= kAtOnce)
                store_some<kAtOnce>();
            else
                for (int64_t i = 0; i < n; ++i) store_some<1>();
            if (wanted_ == 0 && any()) skip(p_.pitch - p_.cols), next_row(p_.cols);
        }
    }
    RG_SIMD bool any() const { return left_ > 0; }
    RG_SIMD void store_all() {
        if (any()) store_a_few(left_);
    }
};

}  // namespace
}  // namespace refactor::kernel
