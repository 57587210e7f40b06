#include "conv/reference_task.h"
#include "conv_transpose/conv_transpose.h"

#include <numeric>

namespace refactor::kernel {

namespace {

struct ConvTransposeSum {
    Geometry g;
    Addressing of_x;

    double products() const {
        return static_cast<double>(g.batch * g.in_channels * g.in_size() * g.taps()) *
               static_cast<double>(g.out_channels / g.group);
    }

    /// Calls `each(k, i)` for the taps of `axis` that read inputs for output index `o`, and these.
    template <class Each>
    void each_source(int axis, int64_t o, Each&& each) const {
        auto from = o + g.pad[axis], stride = g.stride[axis], dilation = g.dilation[axis];
        auto step = stride / std::gcd(stride, dilation);
        int64_t k = 0;
        while (k < step && (from - k * dilation) % stride != 0) ++k;
        if (k == step) return;
        for (; k < g.kernel[axis] && from >= k * dilation; k += step)
            if (auto i = (from - k * dilation) / stride; i < g.in[axis]) each(k, i);
    }

    template <class T>
    double operator()(T const* x, T const* w, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto in_group = g.in_channels / g.group, out_group = g.out_channels / g.group;
        auto first = m / out_group * in_group, column = m % out_group;
        double total = 0;
        each_source(0, at[0], [&](int64_t d, int64_t z) {
            each_source(1, at[1], [&](int64_t h, int64_t i) {
                each_source(2, at[2], [&](int64_t v, int64_t j) {
                    auto tap = (d * g.kernel[1] + h) * g.kernel[2] + v, position = (z * g.in[1] + i) * g.in[2] + j;
                    for (int64_t c = first; c < first + in_group; ++c)
                        total +=
                            widen(w[(c * out_group + column) * g.taps() + tap]) * widen(x[of_x.at(n, c, position)]);
                });
            });
        });
        return total;
    }
};

class ReferenceKernel final : public NamedKernel {
    ConvTransposeInfo info_;
    DataType dtype_;

public:
    ReferenceKernel(std::string id, ConvTransposeInfo info, DataType dtype)
        : NamedKernel(std::move(id)), info_(std::move(info)), dtype_(dtype) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        // Scalar code: a product costs about 4 ns, and a sum 15.
        auto const& w = *args.inputs[1];
        auto channels = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.dims[0]));
        auto products = static_cast<double>(args.inputs[0]->count()) * channels;
        return (4 * products + 15 * static_cast<double>(args.outputs[0]->count())) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = conv_transpose_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        std::unique_ptr<runtime::Task> task;
        for_float(dtype_, [&](auto t) {
            task = std::make_unique<ConvReferenceTask<decltype(t), ConvTransposeSum>>(
                *g, info_.epilogue, *args.inputs[0], *args.outputs[0]);
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
