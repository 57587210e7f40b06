#pragma once
#include "simd/math.h"
//
#include "simd/activate.h"
#include "simd/held.h"

// The part of an epilogue that follows the sum, for vectors of one block of channels.

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

bool simple(ActivationKind kind) {
    return kind == ActivationKind::None || kind == ActivationKind::Relu || kind == ActivationKind::Clip;
}

/// Smallest and largest value that a simple activation lets through.
struct Range {
    Vec low, high;
    explicit Range(Activation const& act) {
        float inf = __builtin_inff();
        bool clip = act.kind == ActivationKind::Clip;
        low = Vec::set(clip ? act.alpha : act.kind == ActivationKind::Relu ? 0.f : -inf);
        high = Vec::set(clip ? act.beta : inf);
    }
};

/// Short enough for sums that are still in registers, and what mobile networks have behind most convolutions.
class HardSwish {
    Vec alpha_, beta_;

public:
    explicit HardSwish(Activation const& act) : alpha_(Vec::set(act.alpha)), beta_(Vec::set(act.beta)) {}
    static bool is(Activation const& act) { return act.kind == ActivationKind::HardSwish; }
    RG_SIMD Vec operator()(Vec sum, int64_t) const { return activate<ActivationKind::HardSwish>(sum, alpha_, beta_); }
};

template <ActivationKind kind>
void activate_row(float* y, float const* residual, int64_t step, int cols, int lanes, Activation const& act) {
    Vec alpha = Vec::set(act.alpha), beta = Vec::set(act.beta);
    for (int i = 0; i < cols; ++i) {
        Vec v = activate<kind>(Vec::load(y + i * step), alpha, beta);
        if (residual) v = v + Vec::load(residual + i * step);
        if (lanes < W) v = select(first_lanes(lanes), v, Vec::zero());
        v.store(y + i * step);
    }
}

/// Calls `f<kind>()` with an activation that is not `simple`.
RG_SIMD void with_kind(ActivationKind kind, auto&& f) {
    using enum ActivationKind;
    switch (kind) {
        case LeakyRelu:
            return f.template operator()<LeakyRelu>();
        case Sigmoid:
            return f.template operator()<Sigmoid>();
        case Silu:
            return f.template operator()<Silu>();
        case HardSigmoid:
            return f.template operator()<HardSigmoid>();
        case HardSwish:
            return f.template operator()<HardSwish>();
        case GeluErf:
            return f.template operator()<GeluErf>();
        case GeluTanh:
            return f.template operator()<GeluTanh>();
        case Tanh:
            return f.template operator()<Tanh>();
        default:
            return;
    }
}

/// Applies an activation that is not `simple` to vectors that have just been stored, then adds `residual` if it is not
/// null.
[[gnu::noinline]] void activate_stored(float* y, float const* residual, int64_t step, int cols, int lanes,
                                       Activation const& act) {
    with_kind(act.kind, [&]<ActivationKind kind>() { activate_row<kind>(y, residual, step, cols, lanes, act); });
}

}  // namespace
}  // namespace refactor::kernel
