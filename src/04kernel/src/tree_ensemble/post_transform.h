#pragma once
#include "kernel/ops/trees.h"

#include <algorithm>
#include <cmath>

// What follows the scores of one row. Source: onnxruntime, core/providers/cpu/ml/ml_common.h.
namespace refactor::kernel {

template <class T>
T logistic(T x) {
    auto y = 1 / (1 + std::exp(-std::abs(x)));
    return x < 0 ? 1 - y : y;
}

/// The quantile of the normal distribution, by Winitzki's approximation of the inverse error function.
template <class T>
T probit(T p) {
    auto x = static_cast<float>(2 * p - 1);
    auto log = std::log((1 - x) * (1 + x));
    auto half = 2 / (3.14159f * 0.147f) + 0.5f * log;
    auto root = std::sqrt(-half + std::sqrt(half * half - log / 0.147f));
    return static_cast<T>(1.41421356f * (x < 0 ? -root : root));
}

/// Softmax of `count` scores; zeros stay zeros if `skip_zeros`.
template <class T>
void softmax(T* scores, int64_t count, bool skip_zeros) {
    auto largest = *std::max_element(scores, scores + count);
    T sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (skip_zeros && std::abs(scores[i]) <= static_cast<T>(0.0000001f)) {
            scores[i] *= std::exp(-largest);
            continue;
        }
        scores[i] = std::exp(scores[i] - largest);
        sum += scores[i];
    }
    for (int64_t i = 0; i < count; ++i) scores[i] /= sum;
}

/// Transforms the scores of two or more classes or targets in place.
template <class T>
void post_transform(PostTransform transform, T* scores, int64_t count) {
    switch (transform) {
        case PostTransform::None:
            return;
        case PostTransform::Softmax:
        case PostTransform::SoftmaxZero:
            return softmax(scores, count, transform == PostTransform::SoftmaxZero);
        case PostTransform::Logistic:
            return void(std::transform(scores, scores + count, scores, logistic<T>));
        case PostTransform::Probit:
            return void(std::transform(scores, scores + count, scores, probit<T>));
    }
}

/// Writes both scores of two classes of which only the second one's score `x` is known. `complement`: they add up to 1.
template <class T>
void expand_binary(PostTransform transform, bool complement, T x, T* scores) {
    auto other = complement ? 1 - x : -x;
    if (transform == PostTransform::Logistic)
        scores[0] = logistic(-x), scores[1] = logistic(x);
    else if (transform == PostTransform::Probit)
        scores[0] = probit(other), scores[1] = probit(x);
    else
        scores[0] = other, scores[1] = x;
}

}  // namespace refactor::kernel
