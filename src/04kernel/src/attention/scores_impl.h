#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h` first, for pairs `bf16_pairs.h`, too, and define RG_BF16_PAIRS.
#include "attention/scores.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width;
constexpr float kInf = __builtin_inff();

RG_SIMD int left_of(int64_t count) { return count >= kWidth ? kWidth : count > 0 ? static_cast<int>(count) : 0; }
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
float find_largest(float const* scores, int64_t visible, float scale) {
    Vec acc[2] = {Vec::set(-kInf), Vec::set(-kInf)};
    int64_t i = 0;
    for (; i + 2 * kWidth <= visible; i += 2 * kWidth) {
        acc[0] = max(Vec::load(scores + i), acc[0]);
        acc[1] = max(Vec::load(scores + i + kWidth), acc[1]);
    }
    for (; i < visible; i += kWidth) {
        int left = left_of(visible - i);
        acc[0] = max(select(first_lanes(left), load_part(scores + i, left), Vec::set(-kInf)), acc[0]);
    }
    return max_of(max(acc[0], acc[1])) * scale;
}

/// Scales, adds the mask and returns the largest score that is not NaN. With `hides`, a mask that hides a key is all
/// that remains of its score.
template <bool hides>
float mask_and_find_largest(float* scores, int64_t visible, float scale, float const* mask, bool one) {
    Vec acc = Vec::set(-kInf), value = Vec::set(*mask), times = Vec::set(scale);
    for (int64_t i = 0; i < visible; i += kWidth) {
        int left = left_of(visible - i);
        Vec score = load_part(scores + i, left), added = one ? value : load_part(mask + i, left);
        Vec s = fma(score, times, added);
        if (hides) s = select(added > Vec::set(kHiddenBelow), s, added);
        store_part(s, scores + i, left);
        acc = max(select(first_lanes(left), s, Vec::set(-kInf)), acc);
    }
    return max_of(acc);
}

/// Replaces scores by softcap · tanh(scale · score / softcap).
void cap(float* scores, int64_t visible, float scale, float softcap) {
    Vec inner = Vec::set(scale / softcap), outer = Vec::set(softcap);
    for (int64_t i = 0; i < visible; i += kWidth) {
        int left = left_of(visible - i);
        store_part(tanh(load_part(scores + i, left) * inner) * outer, scores + i, left);
    }
}

bool is_masked(ScoreRows const& b, int row) { return b.mask[row] || b.allowed[row]; }

float largest_of(ScoreRows const& b, int row) {
    float* scores = b.scores + row * b.step;
    int64_t visible = b.visible[row];
    if (b.lanes) return max_of(Vec::load(b.lanes + row * kWidth)) * b.scale;
    if (visible <= 0) return -kInf;
    if (!is_masked(b, row)) return find_largest(scores, visible, b.scale);
    if (b.mask[row])
        return (b.hides ? mask_and_find_largest<true> : mask_and_find_largest<false>)(scores, visible, b.scale,
                                                                                      b.mask[row], b.one_mask);
    float additive[kMostScoreKeys];
    int64_t values = b.one_mask ? 1 : visible;
    for (int64_t i = 0; i < values; ++i) additive[i] = b.allowed[row][i] ? 0.f : -kInf;
    return mask_and_find_largest<true>(scores, visible, b.scale, additive, b.one_mask);
}

constexpr float kLog2E = 1.44269504f;

/// Whether exponents are `score * log2(e) - top * log2(e)`, in one multiply-add. What rounding the second product adds
/// is the same for all scores of a row and cancels, but not where it is as large as exponents: then differences come
/// first.
bool is_moderate(float top) { return __builtin_fabsf(top) < 4096; }

/// e^(old - now), from what the scores themselves are compared with.
float rescaling(float old, float now) {
    auto exponent = [](float top) {
        return is_moderate(top) ? static_cast<double>(top * kLog2E)
                                : static_cast<double>(top) * static_cast<double>(kLog2E);
    };
    return static_cast<float>(__builtin_exp2(exponent(old) - exponent(now)));
}

/// Weights in the place of scores, which have been read up to there.
template <bool pairs>
RG_SIMD void store_weights(Vec a, Vec b, float* scores, int64_t i) {
#ifdef RG_BF16_PAIRS
    if constexpr (pairs) return round_to_pairs(a, b).store(scores + i / 2);
#endif
    a.store(scores + i), b.store(scores + i + kWidth);
}

/// Replaces `scale` times the scores by exponentials and returns their sum.
template <bool pairs>
float exponentials(float* scores, int64_t count, int64_t visible, float scale, float top) {
    float factor = scale * kLog2E, shift = top * kLog2E;
    if (!is_moderate(top)) {  // masks everywhere that are large numbers, or an infinite score
        Vec times = Vec::set(scale), minus = Vec::set(top);
        // In two passes: `top` is a product that has been rounded, and that is what it has to be compared with.
        for (int64_t i = 0; i < count; i += kWidth) {
            int left = left_of(count - i);
            store_part(load_part(scores + i, left) * times, scores + i, left);
        }
        for (int64_t i = 0; i < count; i += kWidth) {
            int left = left_of(count - i);
            store_part(load_part(scores + i, left) - minus, scores + i, left);
        }
        factor = kLog2E, shift = 0;
    }
    Vec times = Vec::set(factor), minus = Vec::set(-shift), total = Vec::zero();
    int64_t i = 0;
    for (; i + 2 * kWidth <= visible; i += 2 * kWidth) {
        Vec a = exp2_of_negative(fma(Vec::load(scores + i), times, minus)),
            b = exp2_of_negative(fma(Vec::load(scores + i + kWidth), times, minus));
        total = total + (a + b);  // one accumulator: AVX2 has no register for another
        store_weights<pairs>(a, b, scores, i);
    }
    auto part = [&](int64_t at) __attribute__((always_inline)) {
        Vec a = exp2_of_negative(fma(load_part(scores + at, left_of(count - at)), times, minus));
        return select(first_lanes(left_of(visible - at)), a, Vec::zero());
    };
    for (; i < count; i += pairs ? 2 * kWidth : kWidth) {
        Vec a = part(i), b = Vec::zero();
        if constexpr (pairs) {
            b = part(i + kWidth);
            store_weights<true>(a, b, scores, i);
        } else {
            store_part(a, scores + i, left_of(count - i));
        }
        total = total + (a + b);
    }
    return sum(total);
}

/// Nothing has been seen so far, unless it was NaN, which no maximum shows.
template <bool pairs>
void update_unseen(ScoreRows const& b, int row) {
    float* scores = b.scores + row * b.step;
    for (int64_t i = 0; i < b.visible[row]; ++i)
        if (scores[i] != scores[i]) b.sums[row] = __builtin_nanf("");
    if constexpr (pairs)
        for (int64_t i = 0; i < b.count; i += 2 * kWidth) store_weights<true>(Vec::zero(), Vec::zero(), scores, i);
    else
        for (int64_t i = 0; i < b.count; i += kWidth) store_part(Vec::zero(), scores + i, left_of(b.count - i));
}

/// The number that is subtracted from scores: a larger one than before only where it matters, so that results are
/// seldom rescaled. Exponentials stay below e^8, and what divides them is of the same size.
float reference_of(float old, float largest) { return old != -kInf && !(largest > old + 8) ? old : largest; }

template <bool pairs>
void update(ScoreRows const& rows) {
    auto b = rows;
    if (b.softcap > 0) {
        for (int row = 0; row < b.rows; ++row) cap(b.scores + row * b.step, b.visible[row], b.scale, b.softcap);
        b.scale = 1;
    }
    float largest[kScoreRows];
    for (int row = 0; row < b.rows; ++row) largest[row] = largest_of(b, row);
    for (int row = 0; row < b.rows; ++row) {
        float old = b.maxima[row], now = reference_of(old, largest[row]);
        if (now == -kInf) {
            update_unseen<pairs>(b, row);
            continue;
        }
        if (now != old) {
            float factor = old == -kInf ? 0.f : rescaling(old, now);
            b.maxima[row] = now, b.sums[row] *= factor;
            if (b.y) scale_row(b.y + row * b.y_step, b.value_depth, factor);
        }
        b.sums[row] +=
            exponentials<pairs>(b.scores + row * b.step, b.count, b.visible[row], is_masked(b, row) ? 1 : b.scale, now);
    }
}

bool divide(float* y, int64_t count, float sum, float unseen, float of_nan) {
    bool is_number = sum == sum;
    if (sum == 0 || !is_number) {
        for (int64_t i = 0; i < count; i += kWidth)
            store_part(Vec::set(is_number ? unseen : of_nan), y + i, left_of(count - i));
        return true;
    }
    Vec factor = Vec::set(1 / sum), difference = Vec::zero();
    for (int64_t i = 0; i < count; i += kWidth) {
        int left = left_of(count - i);
        Vec value = load_part(y + i, left) * factor;
        difference = difference + (value - value);  // 0 of finite numbers only
        store_part(value, y + i, left);
    }
    return !any(is_nan(difference));
}

int64_t end_of_shown(float const* mask, int64_t from, int64_t count) {
    for (int64_t end = count, begin; end > from; end = begin) {
        begin = end - from < kWidth ? from : end - kWidth;
        int left = static_cast<int>(end - begin);
        Vec x = select(first_lanes(left), load_part(mask + begin, left), Vec::set(-kInf));
        if (any(x > Vec::set(kHiddenBelow))) return end;
    }
    return from;
}

#ifdef RG_BF16_PAIRS
constexpr auto kUpdateToPairs = update<true>;
#else
constexpr void (*kUpdateToPairs)(ScoreRows const&) = nullptr;
#endif
constexpr ScoreFunctions kFunctions{update<false>, kUpdateToPairs, end_of_shown, divide};

}  // namespace
}  // namespace refactor::kernel
