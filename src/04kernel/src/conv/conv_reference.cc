#include "conv/reference_task.h"

namespace refactor::kernel {

namespace {

/// Tap (d, h, v) of the kernel reads input position at · stride - pad + tap · dilation.
struct ConvSum {
    Geometry g;
    Addressing of_x;

    double products() const {
        return static_cast<double>(g.batch * g.out_channels * g.out_size() * g.taps()) *
               static_cast<double>(g.in_channels / g.group);
    }

    template <class T>
    double operator()(T const* x, T const* w, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto in_group = g.in_channels / g.group, first = m / (g.out_channels / g.group) * in_group;
        double total = 0;
        for (int64_t c = 0; c < in_group; ++c)
            for (int64_t d = 0; d < g.kernel[0]; ++d)
                for (int64_t h = 0; h < g.kernel[1]; ++h)
                    for (int64_t v = 0; v < g.kernel[2]; ++v) {
                        auto z = at[0] * g.stride[0] - g.pad[0] + d * g.dilation[0];
                        auto i = at[1] * g.stride[1] - g.pad[1] + h * g.dilation[1];
                        auto j = at[2] * g.stride[2] - g.pad[2] + v * g.dilation[2];
                        if (z < 0 || z >= g.in[0] || i < 0 || i >= g.in[1] || j < 0 || j >= g.in[2]) continue;
                        auto weight = w[(((m * in_group + c) * g.kernel[0] + d) * g.kernel[1] + h) * g.kernel[2] + v];
                        total += widen(weight) * widen(x[of_x.at(n, first + c, (z * g.in[1] + i) * g.in[2] + j)]);
                    }
        return total;
    }
};

class ReferenceKernel final : public NamedKernel {
    ConvInfo info_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, ConvInfo info, DataType dtype)
        : NamedKernel(std::move(id)), info_(std::move(info)), dtype_(dtype) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        // Scalar code: an output costs about 12 ns (addressing, epilogue), a product 4 ns.
        auto const& w = *args.inputs[1];
        auto products = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.dims[0]));
        return static_cast<double>(args.outputs[0]->count()) * (12 + 4 * products) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        std::unique_ptr<runtime::Task> task;
        for_float(dtype_, [&](auto t) {
            task = std::make_unique<ConvReferenceTask<decltype(t), ConvSum>>(*g, info_.epilogue, *args.inputs[0],
                                                                             *args.outputs[0]);
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
