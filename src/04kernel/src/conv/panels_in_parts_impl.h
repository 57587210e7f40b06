#pragma once
// Weights in three parts, made of those of f32 while tiles multiply; include a wrapper first.
#include "conv/store_impl.h"
#include "conv/tile.h"
//
#include "simd/three_parts.h"

namespace refactor::kernel {
namespace {

/// Weights of f32 of a job, [unit][tap][channels][B × 16].
template <int B>
struct UnitWeights {
    float const* w;
    int64_t units, taps, full;  ///< blocks of input, taps of each, those of them that are full
    int last_inner;

    explicit UnitWeights(RowJob const& j)
        : w(j.w),
          units(j.tap_count / j.unit_taps),
          taps(j.unit_taps),
          full(j.full_taps / j.unit_taps),
          last_inner(j.last_inner) {}
    RG_SIMD int channels(int64_t unit) const { return unit < full ? W : unit < units ? last_inner : 0; }
    RG_SIMD float const* at(int64_t unit, int64_t tap) const {
        return w + (unit * taps * W + tap * channels(unit)) * B * W;
    }
};

/// Asked for ahead of where weights are split, in floats: from L3 or memory they come no sooner by themselves.
constexpr int64_t kWeightsAhead = 2048;

/// Makes a panel, a vector at a time.
template <int B>
class PanelMaker {
    static constexpr int64_t kVectors = W * B;  // of a channel each
    UnitWeights<B> from_;
    float* to_;
    float const *low_ = nullptr, *high_ = nullptr;
    int64_t unit_ = 0, tap_ = 0, vector_ = 0, low_vectors_ = 0, high_vectors_ = 0;

    RG_SIMD void begin_step() {
        low_ = from_.at(unit_, tap_), low_vectors_ = from_.channels(unit_) * B;
        high_vectors_ = from_.channels(unit_ + 1) * B;
        high_ = high_vectors_ ? from_.at(unit_ + 1, tap_) : low_;
    }

public:
    PanelMaker(RowJob const& j, float* to, int64_t steps_done) : from_(j), to_(to + steps_done * kParts * kVectors * W) {
        unit_ = steps_done / from_.taps * 2, tap_ = steps_done % from_.taps;
        if (any()) begin_step();
    }
    RG_SIMD bool any() const { return unit_ < from_.units; }
    RG_SIMD int64_t steps() const { return unit_ / 2 * from_.taps + tap_; }
    RG_SIMD int64_t vectors() const { return (from_.units + 1) / 2 * from_.taps * kVectors; }
    RG_SIMD void make_vector() {
        __builtin_prefetch(low_ + vector_ * W + kWeightsAhead, 0, 2);
        __builtin_prefetch(high_ + vector_ * W + kWeightsAhead, 0, 2);
        Vec low = vector_ < low_vectors_ ? Vec::load(low_ + vector_ * W) : Vec::zero();
        Vec high = vector_ < high_vectors_ ? Vec::load(high_ + vector_ * W) : Vec::zero();
        store_parts(low, high, to_ + vector_ * W, kVectors * W);
        if (++vector_ < kVectors) return;
        vector_ = 0, to_ += kParts * kVectors * W;
        if (++tap_ == from_.taps) tap_ = 0, unit_ += 2;
        if (any()) begin_step();
    }
    void finish_step() {
        while (any() && vector_) make_vector();
    }
    void finish() {
        while (any()) make_vector();
    }
};

}  // namespace
}  // namespace refactor::kernel
