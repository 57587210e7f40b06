#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "matmul/pack_weights.h"
#include "matmul/strassen_task.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

namespace {

/// A convolution of 1 × 1 is a product of pixels and channels: a row is a pixel, in runs of a block of channels. With
/// blocks of 8, as of AVX2, sums of such short runs cost more than the eighth of the products that they save.
class StrassenConvKernel final : public NamedKernel {
    ConvInfo info_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    static ProductFunctions const& functions() { return product_functions_avx512(); }
    Result<MatMulShape, Rejection> shape_of(BindArgs const& args) const {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        bool whole = g->taps() == 1 && !g->padded() && std::equal(g->in, g->in + 3, g->out);
        if (!whole) return Err{Rejection{"is for kernels of one tap that read every pixel"}};
        MatMulShape shape;
        shape.m = g->out_size(), shape.k = g->in_channels, shape.n = g->out_channels, shape.batches = g->batch;
        if (g->batch > 1) shape.batch.push_back({g->batch, shape.m * shape.k, 0});
        auto const& f = functions();
        if (g->empty() || shape.k % (2 * f.width) || shape.n % (2 * f.panel))
            return Err{Rejection{"needs multiples of " + std::to_string(2 * f.width) + " input and " +
                                 std::to_string(2 * f.panel) + " output channels, got " + std::to_string(shape.k) +
                                 " and " + std::to_string(shape.n)}};
        if (shape.m < 4 * f.rows) return Err{Rejection{"needs more pixels, got " + std::to_string(shape.m)}};
        return shape;
    }

public:
    StrassenConvKernel(ConvInfo info, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel("conv:cpu:strassen:f32:avx512"), info_(std::move(info)), weights_(std::move(weights)) {}

    /// As the estimate of the direct kernel.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        CostModel cost(Isa::Avx512, args.threads);
        // Of ResNet-50's layers some gain 4 %, some lose 12 (Zen 5).
        auto pace = cpu_features().whole_512 ? 1.1 : 1;
        auto work = pace * 2 * strassen_plan(functions(), *shape, args.threads, true).work / (0.85 * cost.flops);
        auto weights = 4. * static_cast<double>(shape->k * shape->n);
        auto bytes = 4. * static_cast<double>(shape->batches * shape->m * (shape->n + shape->k));
        return std::max(work, weights / (cost.bandwidth(weights) * cost.threads)) +
               bytes / (cost.bandwidth(bytes) * 2 * cost.threads);
    }
    TaskResult bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        auto packed = pack_panels(functions(), *weights_, DataType::F32, true, shape->n, shape->k, args.packs);
        return make_strassen_task(functions(), info_.epilogue, 1, *shape, true, std::move(packed), args.threads);
    }
};

}  // namespace

KernelResult conv_strassen_avx512(ConvInfo const& info, Request const& request) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < Isa::Avx512) return Err{Rejection{"needs avx512"}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (request.precision == Precision::Exact) return Err{Rejection{"has a larger error than exact precision allows"}};
    if (x.layout != Layout::Blocked16 || y.layout != Layout::Blocked16)
        return Err{Rejection{"expects X and Y in blocks of 16"}};
    if (info.group != 1) return Err{Rejection{"is for one group"}};
    for (size_t i = 2; i < w.dims.size(); ++i)
        if (w.dims[i] != 1) return Err{Rejection{"is for kernels of one tap"}};
    if (!w.constant) return Err{Rejection{"needs constant weights"}};
    return std::unique_ptr<Kernel>(std::make_unique<StrassenConvKernel>(info, w.constant));
}

}  // namespace refactor::kernel
