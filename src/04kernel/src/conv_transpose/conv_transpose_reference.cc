#include "common/thread_pool.h"
#include "conv/elements.h"
#include "conv/geometry.h"
#include "conv_transpose/conv_transpose.h"

namespace refactor::kernel {

namespace {

template <class T>
class ReferenceTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    Addressing x_, y_;

    /// Input index that tap `k` of `axis` reads for output index `o`; -1 where there is none.
    int64_t source(int axis, int64_t o, int64_t k) const {
        auto i = o + g_.pad[axis] - k * g_.dilation[axis];
        if (i < 0 || i % g_.stride[axis] != 0) return -1;
        i /= g_.stride[axis];
        return i < g_.in[axis] ? i : -1;
    }

    double sum(T const* x, T const* w, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto in_group = g_.in_channels / g_.group, out_group = g_.out_channels / g_.group;
        auto first = m / out_group * in_group, column = m % out_group;
        double total = 0;
        for (int64_t d = 0; d < g_.kernel[0]; ++d)
            for (int64_t h = 0; h < g_.kernel[1]; ++h)
                for (int64_t v = 0; v < g_.kernel[2]; ++v) {
                    auto z = source(0, at[0], d), i = source(1, at[1], h), j = source(2, at[2], v);
                    if (z < 0 || i < 0 || j < 0) continue;
                    auto tap = (d * g_.kernel[1] + h) * g_.kernel[2] + v, position = (z * g_.in[1] + i) * g_.in[2] + j;
                    for (int64_t c = first; c < first + in_group; ++c)
                        total += widen(w[(c * out_group + column) * g_.taps() + tap]) * widen(x[x_.at(n, c, position)]);
                }
        return total;
    }

public:
    ReferenceTask(Geometry const& g, Epilogue const& epilogue, TensorDesc const& x, TensorDesc const& y)
        : g_(g), epilogue_(epilogue), operands_(epilogue), x_(x), y_(y) {}

    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.in_channels * g_.in_size() * g_.taps()) *
               static_cast<double>(g_.out_channels / g_.group);
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
                        auto value = sum(x, w, n, m, at) + (bias ? widen(bias[m]) : 0.);
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
    ConvTransposeInfo info_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, ConvTransposeInfo info, DataType dtype)
        : NamedKernel(std::move(id)), info_(std::move(info)), dtype_(dtype) {}

    // About 1 ns a multiply-add, and as much for a tap that reads nothing.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        // Scalar code: a product costs about 4 ns.
        auto const& w = *args.inputs[1];
        auto channels = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.dims[0]));
        return 4 * static_cast<double>(args.inputs[0]->count()) * channels / args.threads;
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

KernelResult conv_transpose_reference(ConvTransposeInfo const& info, Request const& request) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto dtype = request.inputs[0].dtype;
    if (!for_float(dtype, [](auto) {})) return Err{Rejection{"handles floats, got " + std::string(name_of(dtype))}};
    if (dtype == DataType::F64 && info.epilogue.activation.kind > ActivationKind::Relu)
        return Err{Rejection{"activations of f64 are limited to Relu"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<ReferenceKernel>("conv_transpose:cpu:reference:" + std::string(name_of(dtype)), info, dtype));
}

}  // namespace refactor::kernel
