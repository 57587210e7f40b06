#include "common/thread_pool.h"
#include "matmul/matmul.h"
#include "matmul/pack_weights.h"
#include "matmul/product.h"
#include "matmul/strassen_plan.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

class StrassenTask final : public runtime::Task {
    ProductFunctions const& functions_;
    MatMulShape shape_;
    StrassenPlan plan_;
    ProductBlock block_{};  // with the pointers still open
    std::shared_ptr<Blob const> packed_;
    bool has_bias_, has_residual_;
    int threads_;

public:
    StrassenTask(ProductFunctions const& functions, MatMulInfo const& info, MatMulShape const& shape,
                 std::shared_ptr<Blob const> packed, int threads)
        : functions_(functions),
          shape_(shape),
          plan_(strassen_plan(functions, shape, threads)),
          packed_(std::move(packed)),
          has_bias_(info.epilogue.bias),
          has_residual_(info.epilogue.residual),
          threads_(std::max(1, threads)) {
        block_.k = shape.k, block_.y_row = shape.n, block_.a_row = shape.k, block_.a_k = 1;
        block_.source = ProductSource::Packed, block_.weight_type = WeightType::F32;
        block_.scalar_bias = shape.scalar_bias, block_.residual_last = info.epilogue.residual_last;
        block_.alpha = info.alpha, block_.activation = info.epilogue.activation;
        block_.block_m = plan_.block_m, block_.block_k = plan_.block_k, block_.group = plan_.group;
        block_.run = block_.run_step = shape.k, block_.y_vector = functions.width;
    }

    void run_part(void* const* arguments, int64_t part, std::byte* scratch) const {
        auto t = block_;
        auto column = part % plan_.column_parts * plan_.columns;
        part /= plan_.column_parts;
        auto row = part % plan_.row_parts * plan_.rows, batch = part / plan_.row_parts;
        int64_t a = 0, b = 0;
        if (batch) shape_.offsets(batch, a, b);
        t.m = std::min(plan_.rows, plan_.m - row), t.n = std::min(plan_.columns, shape_.n - column);
        t.a = static_cast<float const*>(arguments[0]) + a + row * t.a_row;
        t.b = static_cast<float const*>(packed_->data()) + column * t.k;
        auto const* next = arguments + 2;
        if (has_bias_) t.bias = static_cast<float const*>(*next++) + (t.scalar_bias ? 0 : column);
        auto y = (batch * plan_.m + row) * shape_.n + column;
        if (has_residual_) t.residual = static_cast<float const*>(*next++) + y;
        t.y = static_cast<float*>(*next) + y;
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

class StrassenKernel final : public Kernel {
    ProductFunctions const& functions_;
    Isa isa_;
    MatMulInfo info_;
    std::shared_ptr<Blob const> constant_;  // B

    /// Why these sizes are not for halves, or empty.
    std::string init(MatMulShape& shape, BindArgs const& args) const {
        if (auto why = shape.init(info_, args); !why.empty()) return why;
        if (args.inputs[0]->dims.size() < 3) return "A is one matrix, whose rows may be samples";
        if (shape.k % 2) return "needs an even K, got " + std::to_string(shape.k);
        if (shape.n < 2 * functions_.panel) return "needs two panels of columns";
        if (shape.m < 8 * functions_.rows) return "needs more rows, got " + std::to_string(shape.m);
        return {};
    }

public:
    StrassenKernel(ProductFunctions const& functions, Isa isa, MatMulInfo const& info,
                   std::shared_ptr<Blob const> constant)
        : functions_(functions), isa_(isa), info_(info), constant_(std::move(constant)) {}
    std::string id() const override { return id_of("matmul", "strassen", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        return 20 + strassen_plan(functions_, shape, args.threads).work * 2 / (functions_.width * 5.);
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        auto packed = pack_panels(functions_, *constant_, DataType::F32, info_.trans_b, shape.n, shape.k, args.packs);
        return std::unique_ptr<runtime::Task>(
            new StrassenTask(functions_, info_, shape, std::move(packed), args.threads));
    }
};

MaybeKernel make(MatMulInfo const& info, Request const& request, Isa isa, ProductFunctions const& (*functions)()) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (request.precision == Precision::Exact) return reject("has a larger error than exact precision allows");
    auto const &a = request.inputs[0], &b = request.inputs[1];
    if (a.dtype != DataType::F32 || b.dtype != DataType::F32) return reject("A or B is not f32");
    if (auto why = why_types_differ(info, request); !why.empty()) return reject(why);
    if (info.trans_a) return reject("A is transposed");
    auto matrices = b.dims.size() < 2 ? 1 : element_count(std::span(b.dims.data(), b.dims.size() - 2));
    if (!b.constant || matrices != 1 || b.count() == 0) return reject("B is not one constant matrix");
    return std::unique_ptr<Kernel>(new StrassenKernel(functions(), isa, info, b.constant));
}

}  // namespace

MaybeKernel make_strassen_avx512(MatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512, product_functions_avx512);
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_strassen_avx2(MatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2, product_functions_avx2);
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
