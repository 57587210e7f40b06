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

/// Without a mask the scores stay as they are: the largest one is scaled alone.
float find_largest(ScoreRow const& r) {
    Vec acc[2] = {Vec::set(-kInf), Vec::set(-kInf)};
    int64_t i = 0;
    for (; i + 2 * kWidth <= r.visible; i += 2 * kWidth) {
        acc[0] = max(Vec::load(r.scores + i), acc[0]);
        acc[1] = max(Vec::load(r.scores + i + kWidth), acc[1]);
    }
    for (; i < r.visible; i += kWidth) {
        int left = left_of(r.visible - i);
        acc[0] = max(select(first_lanes(left), load_part(r.scores + i, left), Vec::set(-kInf)), acc[0]);
    }
    return max_of(max(acc[0], acc[1])) * r.scale;
}

/// Scales, adds the mask and returns the largest score that is not NaN.
float mask_and_find_largest(ScoreRow const& r) {
    float additive[kScoreKeys];
    float const* mask = r.mask;
    if (r.allowed) {
        for (int64_t i = 0; i < r.visible; ++i) additive[i] = r.allowed[r.one_mask ? 0 : i] ? 0.f : -kInf;
        mask = additive;
    }
    bool one = r.one_mask && !r.allowed;
    Vec acc = Vec::set(-kInf), value = Vec::set(*mask), scale = Vec::set(r.scale);
    for (int64_t i = 0; i < r.visible; i += kWidth) {
        int left = left_of(r.visible - i);
        Vec s = fma(load_part(r.scores + i, left), scale, one ? value : load_part(mask + i, left));
        store_part(s, r.scores + i, left);
        acc = max(select(first_lanes(left), s, Vec::set(-kInf)), acc);
    }
    return max_of(acc);
}

bool is_masked(ScoreRow const& r) { return r.mask || r.allowed; }

float largest_of(ScoreRow const& r) {
    return r.visible <= 0 ? -kInf : is_masked(r) ? mask_and_find_largest(r) : find_largest(r);
}

constexpr float kLog2E = 1.44269504f;
bool is_finite(float x) { return x - x == 0; }

/// e^(old - now), from the products that the scores themselves are compared with: their rounding cancels.
float rescaling(float old, float now) {
    float before = old * kLog2E, after = now * kLog2E;
    return is_finite(before) && is_finite(after) ? __builtin_exp2f(before - after) : __builtin_expf(old - now);
}

/// Replaces scores by their exponentials and returns the sum.
float exponentials(ScoreRow const& r, float top) {
    float scale = is_masked(r) ? 1 : r.scale, factor = scale * kLog2E, shift = top * kLog2E;
    if (!is_finite(shift)) {  // a mask of the lowest number everywhere, or an infinite score
        Vec a = Vec::set(scale), b = Vec::set(top);
        for (int64_t i = 0; i < r.count; i += kWidth) {
            int left = left_of(r.count - i);
            store_part(load_part(r.scores + i, left) * a - b, r.scores + i, left);
        }
        factor = kLog2E, shift = 0;
    }
    Vec times = Vec::set(factor), minus = Vec::set(-shift), sums[2] = {Vec::zero(), Vec::zero()};
    int64_t i = 0;
    for (; i + 2 * kWidth <= r.visible; i += 2 * kWidth) {
        Vec a = exp2_of_negative(fma(Vec::load(r.scores + i), times, minus)),
            b = exp2_of_negative(fma(Vec::load(r.scores + i + kWidth), times, minus));
        sums[0] = sums[0] + a, sums[1] = sums[1] + b;
        a.store(r.scores + i), b.store(r.scores + i + kWidth);
    }
    for (; i < r.count; i += kWidth) {
        int left = left_of(r.count - i);
        Vec a = exp2_of_negative(fma(load_part(r.scores + i, left), times, minus));
        int64_t seen = r.visible - i;
        a = select(first_lanes(seen < 0 ? 0 : left_of(seen)), a, Vec::zero());
        sums[0] = sums[0] + a;
        store_part(a, r.scores + i, left);
    }
    return sum(sums[0] + sums[1]);
}

/// Nothing has been seen so far, unless it was NaN, which no maximum shows.
void update_unseen(ScoreRow const& r) {
    for (int64_t i = 0; i < r.visible; ++i)
        if (r.scores[i] != r.scores[i]) *r.sum = __builtin_nanf("");
    for (int64_t i = 0; i < r.count; i += kWidth) store_part(Vec::zero(), r.scores + i, left_of(r.count - i));
}

void update(ScoreRow const* rows, int count) {
    float largest[kScoreRows];
    for (int i = 0; i < count; ++i) largest[i] = largest_of(rows[i]);
    for (int i = 0; i < count; ++i) {
        ScoreRow const& r = rows[i];
        float old = *r.maximum, now = largest[i] > old ? largest[i] : old;
        if (now == -kInf) {
            update_unseen(r);
            continue;
        }
        if (now > old) {
            float factor = old == -kInf ? 0.f : rescaling(old, now);
            *r.maximum = now, *r.sum *= factor;
            if (r.y) scale_row(r.y, r.value_depth, factor);
        }
        *r.sum += exponentials(r, now);
    }
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
