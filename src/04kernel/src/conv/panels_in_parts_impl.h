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

/// Makes a panel, some channels at a time.
template <int B>
class PanelMaker {
    static constexpr int64_t kStep = int64_t{W} * B * W;  // floats of a part of a unit and a tap
    UnitWeights<B> from_;
    float* to_;
    float const *low_ = nullptr, *high_ = nullptr;
    int64_t unit_, tap_;
    int channel_ = 0, low_channels_ = 0, high_channels_ = 0;  // of a block

    void begin_step() {
        channel_ = 0;
        if (!any()) return;
        low_ = from_.at(unit_, tap_), low_channels_ = from_.channels(unit_);
        high_channels_ = from_.channels(unit_ + 1), high_ = high_channels_ ? from_.at(unit_ + 1, tap_) : low_;
    }

public:
    /// Of which some steps are done.
    PanelMaker(RowJob const& j, float* to, int64_t steps_done)
        : from_(j),
          to_(to + steps_done * kParts * kStep),
          unit_(steps_done / from_.taps * 2),
          tap_(steps_done % from_.taps) {
        begin_step();
    }
    RG_SIMD bool any() const { return unit_ < from_.units; }
    int64_t steps() const { return unit_ / 2 * from_.taps + tap_; }
    /// Up to `count` channels of a step.
    [[gnu::noinline]] void make(int64_t count) {
        float const *low = low_ + channel_ * B * W, *high = high_ + channel_ * B * W;
        float* to = to_ + channel_ * B * W;
        int const end = channel_ + count < W ? channel_ + static_cast<int>(count) : W;
        for (int c = channel_; c < end; ++c, low += B * W, high += B * W, to += B * W)
#pragma GCC unroll 2
            for (int b = 0; b < B; ++b) {
                __builtin_prefetch(low + b * W + kWeightsAhead, 0, 2);
                __builtin_prefetch(high + b * W + kWeightsAhead, 0, 2);
                Vec even = c < low_channels_ ? Vec::load(low + b * W) : Vec::zero();
                Vec odd = c < high_channels_ ? Vec::load(high + b * W) : Vec::zero();
                store_parts(even, odd, to + b * W, kStep);
            }
        if ((channel_ = end) < W) return;
        to_ += kParts * kStep;
        if (++tap_ == from_.taps) tap_ = 0, unit_ += 2;
        begin_step();
    }
    void finish_step() {
        if (channel_) make(W);
    }
    void finish() {
        while (any()) make(W);
    }
};

}  // namespace
}  // namespace refactor::kernel
