#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/elements.h"
#include "conv/geometry.h"

namespace refactor::kernel {

namespace {

template <class T>
class ReferenceTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    Addressing x_, y_;

    double sum(T const* x, T const* w, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto in_group = g_.in_channels / g_.group, first = m / (g_.out_channels / g_.group) * in_group;
        double total = 0;
        for (int64_t c = 0; c < in_group; ++c)
            for (int64_t d = 0; d < g_.kernel[0]; ++d)
                for (int64_t h = 0; h < g_.kernel[1]; ++h)
                    for (int64_t v = 0; v < g_.kernel[2]; ++v) {
                        auto z = at[0] * g_.stride[0] - g_.pad[0] + d * g_.dilation[0];
                        auto i = at[1] * g_.stride[1] - g_.pad[1] + h * g_.dilation[1];
                        auto j = at[2] * g_.stride[2] - g_.pad[2] + v * g_.dilation[2];
                        if (z < 0 || z >= g_.in[0] || i < 0 || i >= g_.in[1] || j < 0 || j >= g_.in[2]) continue;
                        auto weight =
                            w[(((m * in_group + c) * g_.kernel[0] + d) * g_.kernel[1] + h) * g_.kernel[2] + v];
                        total += widen(weight) * widen(x[x_.at(n, first + c, (z * g_.in[1] + i) * g_.in[2] + j)]);
                    }
        return total;
    }

public:
    ReferenceTask(Geometry const& g, Epilogue const& epilogue, TensorDesc const& x, TensorDesc const& y)
        : g_(g), epilogue_(epilogue), operands_(epilogue), x_(x), y_(y) {}

    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps()) *
               static_cast<double>(g_.in_channels / g_.group);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto *x = static_cast<T const*>(arguments[0]), *w = static_cast<T const*>(arguments[1]);
        auto* bias = operands_.bias < 0 ? nullptr : static_cast<T const*>(arguments[operands_.bias]);
        auto* residual = operands_.residual < 0 ? nullptr : static_cast<T const*>(arguments[operands_.residual]);
        auto* y = static_cast<T*>(arguments[operands_.output]);
        auto stored = y_.blocks() * y_.block;
        context.pool.parallel_for(g_.batch * stored, [&](int64_t task, int) {
            auto n = task / stored, m = task % stored;
            int64_t position = 0, at[3];
            for (at[0] = 0; at[0] < g_.out[0]; ++at[0])
                for (at[1] = 0; at[1] < g_.out[1]; ++at[1])
                    for (at[2] = 0; at[2] < g_.out[2]; ++at[2], ++position) {
                        auto target = y_.at(n, m, position);
                        if (m >= g_.out_channels) {
                            y[target] = narrow<T>(0);
                            continue;
                        }
                        auto value = sum(x, w, n, m, at);
                        if (bias) value += widen(bias[m]);
                        auto extra = residual ? widen(residual[target]) : 0.;
                        if (!epilogue_.residual_last) value += extra;
                        if (epilogue_.activation.kind != ActivationKind::None)
                            value = apply(epilogue_.activation, static_cast<float>(value));
                        if (epilogue_.residual_last) value += extra;
                        y[target] = narrow<T>(value);
                    }
        });
    }
};

class ReferenceKernel final : public NamedKernel {
    ConvInfo info_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, ConvInfo info, DataType dtype)
        : NamedKernel(std::move(id)), info_(std::move(info)), dtype_(dtype) {}

    // About 1 ns a multiply-add.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        // Scalar code: an output costs about 12 ns (addressing, epilogue), a product 4 ns.
        auto const& w = *args.inputs[1];
        auto products = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.dims[0]));
        return static_cast<double>(args.outputs[0]->count()) * (12 + 4 * products) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry_of(info_.window, std::span<int64_t const>(args.inputs[1]->dims).subspan(2), args);
        if (!g) return Err{g.error()};
        g->group = info_.group;
        std::unique_ptr<runtime::Task> task;
        for_float(dtype_, [&](auto t) {
            task = std::make_unique<ReferenceTask<decltype(t)>>(*g, info_.epilogue, *args.inputs[0], *args.outputs[0]);
        });
        return task;
    }
};

}  // namespace

KernelResult conv_reference(ConvInfo const& info, Request const& request) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto dtype = request.inputs[0].dtype;
    if (!for_float(dtype, [](auto) {})) return Err{Rejection{"handles floats, got " + std::string(name_of(dtype))}};
    if (dtype == DataType::F64 && info.epilogue.activation.kind > ActivationKind::Relu)
        return Err{Rejection{"activations of f64 are limited to Relu"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<ReferenceKernel>("conv:cpu:reference:" + std::string(name_of(dtype)), info, dtype));
}

}  // namespace refactor::kernel
