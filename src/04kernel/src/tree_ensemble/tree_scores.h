#pragma once
#include "kernel/ops/trees.h"
#include "tree_ensemble/post_transform.h"

// From the sums of the trees to the scores and the label of one row.
namespace refactor::kernel {

template <class T>
struct TreeFinish {
    TreeEnsembleInfo const& info;
    T const* base;
    int64_t const* labels;
    int64_t trees;

    /// `score`, `has`: by target, what the leaves gave and whether they gave anything; the result is left in `score`.
    void regress(T* score, bool* has) const {
        for (int64_t i = 0; i < info.targets; ++i) {
            if (!has[i]) score[i] = 0;
            if (info.aggregate == TreeAggregate::Average) score[i] /= static_cast<T>(trees);
            if (info.base_values == info.targets) score[i] += base[i];
        }
        if (info.targets > 1 || info.transform == PostTransform::Probit)
            post_transform(info.transform, score, info.targets);
    }

    /// Returns the label.
    int64_t classify(T* score, bool* has) const {
        if (info.targets == 2) return classify_two(score, has);
        for (int64_t i = 0; i < std::min(info.base_values, info.targets); ++i)
            score[i] = (has[i] ? score[i] : 0) + base[i], has[i] = true;
        if (info.targets == 1) {
            if (!has[0]) score[0] = 0;
            if (info.transform == PostTransform::Probit) post_transform(info.transform, score, 1);
            return score[0] > 0;
        }
        int64_t best = -1;
        for (int64_t i = 0; i < info.targets; ++i) {
            if (has[i] && (best < 0 || score[i] > score[best])) best = i;
            if (!has[i]) score[i] = 0;
        }
        post_transform(info.transform, score, info.targets);
        return labels[std::max(best, int64_t{0})];
    }

private:
    int64_t label_of(T positive) const {
        if (!info.binary) return positive > 0;
        return labels[positive > (info.positive_weights ? static_cast<T>(0.5) : 0)];
    }

    /// onnxruntime's reading of two classes: a row that got weights for the first class only has one score, which is
    /// that of the second class.
    int64_t classify_two(T* score, bool* has) const {
        for (int i = 0; i < 2; ++i)
            if (!has[i]) score[i] = 0;
        if (info.base_values == 2) {
            if (has[1]) {
                score[1] = base[1] + score[0], score[0] = has[0] ? -score[1] : 0;
            } else {
                score[0] += base[0];
            }
        } else {
            if (info.base_values == 1) score[0] = has[0] || !has[1] ? score[0] + base[0] : 0;
            if (!has[1]) {
                auto x = score[0];
                expand_binary(info.transform, info.binary && info.positive_weights, x, score);
                return label_of(x);
            }
        }
        auto label = label_of(has[1] ? score[1] : score[0]);
        post_transform(info.transform, score, 2);
        return label;
    }
};

}  // namespace refactor::kernel
