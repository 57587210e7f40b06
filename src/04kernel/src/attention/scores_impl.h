#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h` first.
#include "attention/scores.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width;
constexpr float kInf = __builtin_inff();

RG_SIMD int left_of(int64_t count) { return count < kWidth ? static_cast<int>(count) : kWidth; }
RG_SIMD Vec load_part(float const* p, int left) { return left == kWidth ? Vec::load(p) : Vec::load_first(p, left); }
RG_SIMD void store_part(Vec x, float* p, int left) {
    if (left == kWidth)
        x.store(p);
    else
        x.store_first(p, left);
}

void scale_row(float* y, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i += kWidth) {
        int left = left_of(count - i);
        store_part(load_part(y + i, left) * Vec::set(factor), y + i, left);
    }
}

/// Adds the mask and returns the largest score that is not NaN.
float mask_and_find_largest(ScoreRow const& r) {
    float additive[kScoreKeys];
    float const* mask = r.mask;
    if (r.allowed) {
        for (int64_t i = 0; i < r.visible; ++i) additive[i] = r.allowed[r.one_mask ? 0 : i] ? 0.f : -kInf;
        mask = additive;
    }
    bool one = r.one_mask && !r.allowed;
    Vec acc[2] = {Vec::set(-kInf), Vec::set(-kInf)}, value = mask ? Vec::set(*mask) : Vec::zero();
    int64_t i = 0;
    if (!mask)
        for (; i + 2 * kWidth <= r.visible; i += 2 * kWidth) {
            acc[0] = max(Vec::load(r.scores + i), acc[0]);
            acc[1] = max(Vec::load(r.scores + i + kWidth), acc[1]);
        }
    for (; i < r.visible; i += kWidth) {
        int left = left_of(r.visible - i);
        Vec s = load_part(r.scores + i, left);
        if (mask) {
            s = s + (one ? value : load_part(mask + i, left));
            store_part(s, r.scores + i, left);
        }
        acc[0] = max(select(first_lanes(left), s, Vec::set(-kInf)), acc[0]);
    }
    return max_of(max(acc[0], acc[1]));
}

void update(ScoreRow const& r) {
    float largest = r.visible > 0 ? mask_and_find_largest(r) : -kInf;
    float old = *r.maximum, now = largest > old ? largest : old;
    if (now == -kInf) {
        // Nothing seen so far, unless it was NaN, which no maximum shows.
        for (int64_t i = 0; i < r.visible; ++i)
            if (r.scores[i] != r.scores[i]) *r.sum = __builtin_nanf("");
        for (int64_t i = 0; i < r.count; i += kWidth) store_part(Vec::zero(), r.scores + i, left_of(r.count - i));
        return;
    }
    if (now > old) {
        float factor = old == -kInf ? 0.f : __builtin_expf(old - now);
        *r.maximum = now, *r.sum *= factor;
        if (r.y) scale_row(r.y, r.value_depth, factor);
    }
    Vec top = Vec::set(now), sums[2] = {Vec::zero(), Vec::zero()};
    int64_t i = 0;
    for (; i + 2 * kWidth <= r.visible; i += 2 * kWidth) {
        Vec a = exp_of_negative(Vec::load(r.scores + i) - top),
            b = exp_of_negative(Vec::load(r.scores + i + kWidth) - top);
        sums[0] = sums[0] + a, sums[1] = sums[1] + b;
        a.store(r.scores + i), b.store(r.scores + i + kWidth);
    }
    for (; i < r.count; i += kWidth) {
        Vec a = exp_of_negative(load_part(r.scores + i, left_of(r.count - i)) - top);
        int64_t seen = r.visible - i;
        a = select(first_lanes(seen < 0 ? 0 : left_of(seen)), a, Vec::zero());
        sums[0] = sums[0] + a;
        store_part(a, r.scores + i, left_of(r.count - i));
    }
    *r.sum += sum(sums[0] + sums[1]);
}

/// A sum of 0 means that nothing was seen.
void divide(float* y, int64_t count, float sum, bool nan_to_zero) {
    if (sum != 0) return scale_row(y, count, 1 / sum);
    Vec value = nan_to_zero ? Vec::zero() : Vec::set(__builtin_nanf(""));
    for (int64_t i = 0; i < count; i += kWidth) store_part(value, y + i, left_of(count - i));
}

constexpr ScoreFunctions kFunctions{update, divide};

}  // namespace
}  // namespace refactor::kernel
