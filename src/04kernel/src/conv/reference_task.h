#pragma once
#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/elements.h"
#include "conv/geometry.h"

namespace refactor::kernel {

/// Scalar convolution of any kind with its epilogue, one output after the other.
///
/// `Sum` is made of a geometry and the addressing of X; `sum(x, w, n, m, at)` is the sum of products for output channel
/// m of image n at the position `at` of the three spatial axes, accumulated in double, and `products()` their number
/// for the whole output. X, W and the bias are of T, the residual and Y of `Out`.
template <class T, class Sum, class Out = T>
class ConvReferenceTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    Addressing y_;
    Sum sum_;

    /// Relu rounds nothing; others are defined in f32.
    double activated(double x) const {
        if (epilogue_.activation.kind == ActivationKind::Relu) return x < 0 ? 0 : x;
        return static_cast<double>(apply(epilogue_.activation, static_cast<float>(x)));
    }

public:
    ConvReferenceTask(Geometry const& g, Epilogue const& epilogue, TensorDesc const& x, TensorDesc const& y)
        : g_(g), epilogue_(epilogue), operands_(epilogue), y_(y), sum_{g, x} {}

    double operations() const override { return 2 * sum_.products(); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto *x = static_cast<T const*>(arguments[0]), *w = static_cast<T const*>(arguments[1]);
        auto* bias = operands_.bias < 0 ? nullptr : static_cast<T const*>(arguments[operands_.bias]);
        auto* residual = operands_.residual < 0 ? nullptr : static_cast<Out const*>(arguments[operands_.residual]);
        auto* y = static_cast<Out*>(arguments[operands_.output]);
        auto stored = y_.blocks() * y_.block;
        context.pool.parallel_for(g_.batch * stored, [&](int64_t task, int) {
            auto n = task / stored, m = task % stored;
            int64_t position = 0, at[3];
            for (at[0] = 0; at[0] < g_.out[0]; ++at[0])
                for (at[1] = 0; at[1] < g_.out[1]; ++at[1])
                    for (at[2] = 0; at[2] < g_.out[2]; ++at[2], ++position) {
                        auto target = y_.at(n, m, position);
                        if (m >= g_.out_channels) {
                            y[target] = narrow<Out>(0);
                            continue;
                        }
                        auto value = sum_(x, w, n, m, at) + (bias ? widen(bias[m]) : 0.);
                        auto extra = residual ? widen(residual[target]) : 0.;
                        if (!epilogue_.residual_last) value += extra;
                        if (epilogue_.activation.kind != ActivationKind::None) value = activated(value);
                        if (epilogue_.residual_last) value += extra;
                        y[target] = narrow<Out>(value);
                    }
        });
    }
};

}  // namespace refactor::kernel
