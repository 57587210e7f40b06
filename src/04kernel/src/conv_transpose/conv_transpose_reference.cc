#include "conv/reference_task.h"
#include "conv_transpose/conv_transpose.h"

namespace refactor::kernel {

namespace {

struct ConvTransposeSum {
    Geometry g;
    Addressing of_x;

    double products() const {
        return static_cast<double>(g.batch * g.in_channels * g.in_size() * g.taps()) *
               static_cast<double>(g.out_channels / g.group);
    }

    /// Input index that tap `k` of `axis` reads for output index `o`; -1 where there is none.
    int64_t source(int axis, int64_t o, int64_t k) const {
        auto i = o + g.pad[axis] - k * g.dilation[axis];
        if (i < 0 || i % g.stride[axis] != 0) return -1;
        i /= g.stride[axis];
        return i < g.in[axis] ? i : -1;
    }

    template <class T>
    double operator()(T const* x, T const* w, int64_t n, int64_t m, int64_t const (&at)[3]) const {
        auto in_group = g.in_channels / g.group, out_group = g.out_channels / g.group;
        auto first = m / out_group * in_group, column = m % out_group;
        double total = 0;
        for (int64_t d = 0; d < g.kernel[0]; ++d)
            for (int64_t h = 0; h < g.kernel[1]; ++h)
                for (int64_t v = 0; v < g.kernel[2]; ++v) {
                    auto z = source(0, at[0], d), i = source(1, at[1], h), j = source(2, at[2], v);
                    if (z < 0 || i < 0 || j < 0) continue;
                    auto tap = (d * g.kernel[1] + h) * g.kernel[2] + v, position = (z * g.in[1] + i) * g.in[2] + j;
                    for (int64_t c = first; c < first + in_group; ++c)
                        total +=
                            widen(w[(c * out_group + column) * g.taps() + tap]) * widen(x[of_x.at(n, c, position)]);
                }
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
        // Scalar code: a product costs about 4 ns.
        auto const& w = *args.inputs[1];
        auto channels = static_cast<double>(w.count()) / static_cast<double>(std::max<int64_t>(1, w.dims[0]));
        return 4 * static_cast<double>(args.inputs[0]->count()) * channels / args.threads;
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
