#include "common/thread_pool.h"
#include "conv/elements.h"
#include "conv/geometry.h"
#include "global_pool/global_pool.h"

#include <cmath>
#include <limits>

namespace refactor::kernel {

namespace {

template <class T>
class ReferenceTask final : public runtime::Task {
    PoolKind kind_;
    int64_t batch_;
    Addressing x_, y_;

public:
    ReferenceTask(PoolKind kind, TensorDesc const& x, TensorDesc const& y)
        : kind_(kind), batch_(x.dims[0]), x_(x), y_(y) {}

    double operations() const override { return static_cast<double>(batch_ * x_.channels * x_.spatial); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        auto stored = y_.blocks() * y_.block;
        context.pool.parallel_for(batch_ * stored, [&](int64_t task, int) {
            auto n = task / stored, c = task % stored;
            double total = 0, best = -std::numeric_limits<double>::infinity();
            for (int64_t s = 0; c < x_.channels && s < x_.spatial; ++s) {
                auto value = widen(x[x_.at(n, c, s)]);
                total += value;
                if (value > best || std::isnan(value)) best = value;
                if (std::isnan(best)) break;
            }
            if (std::isnan(best)) total = best;
            auto value = kind_ == PoolKind::Max ? best : total / static_cast<double>(x_.spatial);
            y[y_.at(n, c, 0)] = narrow<T>(c < x_.channels ? value : 0.);
        });
    }
};

class ReferenceKernel final : public NamedKernel {
    PoolKind kind_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, PoolKind kind, DataType dtype)
        : NamedKernel(std::move(id)), kind_(kind), dtype_(dtype) {}

    // About 1 ns an element.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return static_cast<double>(args.inputs[0]->count()) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        std::unique_ptr<runtime::Task> task;
        for_float(dtype_, [&](auto t) {
            task = std::make_unique<ReferenceTask<decltype(t)>>(kind_, *args.inputs[0], *args.outputs[0]);
        });
        return task;
    }
};

}  // namespace

KernelResult global_pool_reference(GlobalPoolInfo const& info, Request const& request) {
    if (auto reason = global_pool_mismatch(request); !reason.empty()) return Err{Rejection{reason}};
    auto dtype = request.inputs[0].dtype;
    if (!for_float(dtype, [](auto) {})) return Err{Rejection{"handles floats, got " + std::string(name_of(dtype))}};
    return std::unique_ptr<Kernel>(std::make_unique<ReferenceKernel>(
        "global_pool:cpu:reference:" + std::string(name_of(dtype)), info.kind, dtype));
}

}  // namespace refactor::kernel
