#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "matmul/pack_weights.h"
#include "matmul/strassen_plan.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

namespace {

/// A convolution of 1 × 1 is a product of pixels and channels: a row is a pixel, in runs of a block of channels.
class StrassenConvTask final : public runtime::Task {
    ProductFunctions const& functions_;
    MatMulShape shape_;
    StrassenPlan plan_;
    ConvOperands operands_;
    ProductBlock block_{};  // with the pointers still open
    std::shared_ptr<mem_manager::Blob const> packed_;
    int threads_;

public:
    StrassenConvTask(ProductFunctions const& functions, Epilogue const& epilogue, MatMulShape const& shape,
                     std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : functions_(functions),
          shape_(shape),
          plan_(strassen_plan(functions, shape, threads, functions.width)),
          operands_(epilogue),
          packed_(std::move(packed)),
          threads_(std::max(1, threads)) {
        auto width = functions.width;
        block_.k = shape.k, block_.a_k = 1, block_.a_row = block_.run = block_.y_row = width;
        block_.run_step = block_.y_vector = shape.m * width;
        block_.source = ProductSource::Packed, block_.alpha = 1;
        block_.residual_last = epilogue.residual_last, block_.activation = epilogue.activation;
        block_.block_m = plan_.block_m, block_.block_k = plan_.block_k, block_.group = plan_.group;
    }
    void run_part(void* const* arguments, int64_t part, std::byte* scratch) const {
        auto t = block_;
        auto column = part % plan_.column_parts * plan_.columns;
        part /= plan_.column_parts;
        auto row = part % plan_.row_parts * plan_.rows, image = part / plan_.row_parts;
        t.m = std::min(plan_.rows, plan_.m - row), t.n = std::min(plan_.columns, shape_.n - column);
        t.a = static_cast<float const*>(arguments[0]) + image * shape_.m * shape_.k + row * t.a_row;
        t.b = static_cast<float const*>(packed_->data()) + column * t.k;
        auto y = (image * shape_.n + column) * shape_.m + row * t.y_row;
        if (operands_.bias >= 0) t.bias = static_cast<float const*>(arguments[operands_.bias]) + column;
        if (operands_.residual >= 0) t.residual = static_cast<float const*>(arguments[operands_.residual]) + y;
        t.y = static_cast<float*>(arguments[operands_.output]) + y;
        t.scratch = reinterpret_cast<float*>(scratch);
        functions_.multiply_strassen(t);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(plan_.batches * plan_.row_parts * plan_.column_parts, [&](int64_t part, int worker) {
            run_part(arguments, part, context.workspace + static_cast<size_t>(worker) * plan_.scratch_bytes);
        });
    }
    size_t workspace_bytes() const override { return plan_.scratch_bytes * static_cast<size_t>(threads_); }
    uint64_t unread_inputs() const override { return 2; }
    double operations() const override { return shape_.operations(); }
};

class StrassenConvKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    ProductFunctions const& functions() const {
        return isa_ == Isa::Avx512 ? product_functions_avx512() : product_functions_avx2();
    }
    Result<MatMulShape, Rejection> shape_of(BindArgs const& args) const {
        auto g = geometry_of(info_.window, std::span<int64_t const>(args.inputs[1]->dims).subspan(2), args);
        if (!g) return Err{g.error()};
        bool whole = g->taps() == 1 && !g->padded() && std::equal(g->in, g->in + 3, g->out);
        if (!whole) return Err{Rejection{"is for kernels of one tap that read every pixel"}};
        MatMulShape shape;
        shape.m = g->out_size(), shape.k = g->in_channels, shape.n = g->out_channels, shape.batches = g->batch;
        auto const& f = functions();
        if (g->empty() || shape.k % (2 * f.width) || shape.n % (2 * f.panel))
            return Err{Rejection{"needs multiples of " + std::to_string(2 * f.width) + " input and " +
                                 std::to_string(2 * f.panel) + " output channels, got " + std::to_string(shape.k) +
                                 " and " + std::to_string(shape.n)}};
        if (shape.m < 4 * f.rows) return Err{Rejection{"needs more pixels, got " + std::to_string(shape.m)}};
        return shape;
    }

public:
    StrassenConvKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    /// As the estimate of the direct kernel.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        CostModel cost(isa_, args.threads);
        auto work = 2 * strassen_plan(functions(), *shape, args.threads, functions().width).work / (0.85 * cost.flops);
        auto weights = 4. * static_cast<double>(shape->k * shape->n);
        auto bytes = 4. * static_cast<double>(shape->batches * shape->m * (shape->n + shape->k));
        return std::max(work, weights / (cost.bandwidth(weights) * cost.threads)) +
               bytes / (cost.bandwidth(bytes) * 2 * cost.threads);
    }
    TaskResult bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        auto packed = pack_panels(functions(), *weights_, DataType::F32, true, shape->n, shape->k, args.packs);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<StrassenConvTask>(functions(), info_.epilogue, *shape, std::move(packed), args.threads));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (request.precision == Precision::Exact) return Err{Rejection{"has a larger error than exact precision allows"}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != blocked || y.layout != blocked)
        return Err{Rejection{"expects X and Y in the blocked layout of its vectors"}};
    if (info.group != 1) return Err{Rejection{"is for one group"}};
    for (size_t i = 2; i < w.dims.size(); ++i)
        if (w.dims[i] != 1) return Err{Rejection{"is for kernels of one tap"}};
    if (!w.constant) return Err{Rejection{"needs constant weights"}};
    return std::unique_ptr<Kernel>(std::make_unique<StrassenConvKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

KernelResult conv_strassen_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:strassen:f32:avx512");
}
KernelResult conv_strassen_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:strassen:f32:avx2");
}

}  // namespace refactor::kernel
