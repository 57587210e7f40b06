#pragma once
#include "attention/attention.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {

/// A row of an attention by its definition, in f64: a query of a head. Q, K and V are of T, sinks and Y of `Result`.
template <class T, class Result = T>
class AttentionRow {
    AttentionInfo const& info_;
    AttentionShape const& shape_;
    DataType mask_type_;
    T const *q_, *k_, *v_;
    void const* mask_;
    int64_t mask_first_, visible_;
    double sink_ = -INFINITY;
    Result* y_;

    double mask_at(int64_t key) const {
        auto index = mask_first_ + key * shape_.mask_step[3];
        if (shape_.bool_mask) return static_cast<bool const*>(mask_)[index] ? 0 : -INFINITY;
        double value = 0;
        visit_float(mask_type_,
                    [&](auto tag) { value = widen(static_cast<typename decltype(tag)::type const*>(mask_)[index]); });
        return value;
    }
    double score(int64_t key) const {
        double product = 0, cap = static_cast<double>(info_.softcap);
        auto k_step = info_.k_transposed ? 1 : shape_.k.row, k_depth = info_.k_transposed ? shape_.k.row : 1;
        for (int64_t d = 0; d < shape_.depth; ++d) product += widen(q_[d]) * widen(k_[key * k_step + d * k_depth]);
        product *= static_cast<double>(info_.scale);
        if (cap > 0) product = cap * std::tanh(product / cap);
        if (!mask_) return product;
        auto mask = mask_at(key);
        return shape_.hides(info_) && mask <= kHidden ? mask : product + mask;
    }
    static constexpr double kHidden = static_cast<double>(kHiddenBelow);

public:
    /// `y`: where the row is stored, not in the arguments.
    AttentionRow(AttentionInfo const& info, AttentionShape const& shape, DataType mask_type, void* const* arguments,
                 int64_t batch, int64_t head, int64_t query, Result* y)
        : info_(info), shape_(shape), mask_type_(mask_type), mask_(info.has_mask ? arguments[3] : nullptr), y_(y) {
        auto kv = head / (shape.heads / shape.kv_heads);
        q_ = static_cast<T const*>(arguments[0]) + shape.q.at(batch, head) + query * shape.q.row;
        k_ = static_cast<T const*>(arguments[1]) + shape.k.at(batch, kv);
        v_ = static_cast<T const*>(arguments[2]) + shape.v.at(batch, kv);
        mask_first_ = shape.mask_at(batch, head, query), visible_ = shape.visible(info, query);
        if (info.has_sinks) sink_ = widen(static_cast<Result const*>(arguments[3 + info.has_mask])[head]);
    }
    /// `weights`: room for one of each key.
    void compute(double* weights) const {
        double max = sink_, sum = 0;
        bool none = true, leaves_out = shape_.leaves_out(info_);
        for (int64_t t = 0; t < visible_; ++t) {
            weights[t] = score(t), max = std::fmax(max, weights[t]);
            none &= weights[t] == -INFINITY;
        }
        if (sink_ != -INFINITY) sum = std::exp(sink_ - max);
        for (int64_t t = 0; t < visible_; ++t) sum += weights[t] = std::exp(weights[t] - max);
        auto zero =
            none ? info_.unseen_to_zero || info_.nan_to_zero || info_.has_sinks : info_.nan_to_zero && std::isnan(sum);
        for (int64_t d = 0; d < shape_.value_depth; ++d) {
            double value = 0;
            for (int64_t t = 0; t < visible_; ++t)
                if (weights[t] != 0 || !leaves_out || !mask_ || mask_at(t) > kHidden)
                    value += weights[t] * widen(v_[t * shape_.v.row + d]);
            y_[d] = narrow<Result>(zero ? 0. : none ? static_cast<double>(NAN) : value / sum);
        }
    }
};

}  // namespace refactor::kernel
