#include "common/thread_pool.h"
#include "matmul/matmul.h"
#include "matmul/pack_weights.h"
#include "matmul/product.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// How a product is cut into parts for the threads, and a part into blocks.
struct StrassenPlan {
    int64_t batches, m;     ///< matrices, and rows of each
    int64_t rows, columns;  ///< of a part
    int64_t row_parts, column_parts;
    int64_t group;  ///< rows among which pairs are formed
    int64_t block_m, block_k;
    double work = 0;  ///< of the busiest thread, in multiply-adds
};

/// Multiply-adds of a part, and what else takes as long as so many: a vector of a sum of two quadrants of B four
/// cycles, of A three, of Y that is saved and read again two.
double work_of(int64_t rows, int64_t columns, int64_t depth) {
    auto m = static_cast<double>(rows) / 2, n = static_cast<double>(columns) / 2, k = static_cast<double>(depth) / 2;
    return 7 * m * n * k + 4 * 4 * n * k + 4 * 3 * m * k + 3 * 2 * m * n;
}

/// Depth: what a pair of row tiles reads of B (7 × k/2 × panel) takes at most 3/4 of L2. Rows: A and its sums (2 m × k)
/// may be twice as large as L2, for each pair of panels reads them once and in order. Several whole matrices that share
/// B and fit into a block make one of more rows. Parts: the best of cutting rows and pairs of panels.
StrassenPlan plan_of(ProductFunctions const& functions, MatMulShape const& shape, int threads) {
    auto floats = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
    auto deepest = std::max<int64_t>(64, floats * 3 / 14 / functions.panel);
    auto block_k = round_up(ceil_div(shape.k, ceil_div(shape.k, deepest)), 2);
    auto most = std::max<int64_t>(4 * functions.rows, floats / block_k);
    bool gathers = shape.batches > 1 && shape.m <= most && shape.folds_rows(false);
    auto batches = gathers ? 1 : shape.batches, m = gathers ? shape.m * shape.batches : shape.m;
    auto unit = gathers ? shape.m : std::min<int64_t>(2 * functions.rows, m);
    int64_t pair = 2 * functions.panel, pairs = ceil_div(shape.n, pair);
    StrassenPlan best{};
    for (int64_t across = 1; across <= (threads == 1 ? 1 : std::min<int64_t>(pairs, 4 * threads)); ++across)
        for (int64_t down = 1; down <= (threads == 1 ? 1 : 2 * threads); ++down) {
            auto rows = round_up(ceil_div(m, down), unit), columns = ceil_div(pairs, across) * pair;
            StrassenPlan plan{batches, m, rows, columns, ceil_div(m, rows), ceil_div(shape.n, columns), 0, 0, block_k};
            auto rounds = ceil_div(batches * plan.row_parts * plan.column_parts, threads);
            // Threads do not begin together, nor run equally fast: a twentieth of a part is lost.
            plan.work = (static_cast<double>(rounds) + (threads > 1 ? 0.05 : 0)) *
                        work_of(std::min(rows, m), std::min(columns, shape.n), shape.k);
            if (best.work == 0 || plan.work < best.work) best = plan;
        }
    auto rows = std::min(best.rows, m);
    best.group = gathers ? shape.m : ceil_div(rows, ceil_div(rows, most));
    best.block_m = gathers ? std::min(rows, most / shape.m * shape.m) : best.group;
    return best;
}

class StrassenTask final : public runtime::Task {
    ProductFunctions const& functions_;
    MatMulShape shape_;
    StrassenPlan plan_;
    ProductBlock block_{};  // with the pointers still open
    std::shared_ptr<Blob const> packed_;
    bool has_bias_, has_residual_;
    size_t scratch_bytes_;
    int threads_;

public:
    StrassenTask(ProductFunctions const& functions, MatMulInfo const& info, MatMulShape const& shape,
                 std::shared_ptr<Blob const> packed, int threads)
        : functions_(functions),
          shape_(shape),
          plan_(plan_of(functions, shape, std::max(1, threads))),
          packed_(std::move(packed)),
          has_bias_(info.epilogue.bias),
          has_residual_(info.epilogue.residual),
          threads_(std::max(1, threads)) {
        block_.k = shape.k, block_.y_row = shape.n, block_.a_row = shape.k, block_.a_k = 1;
        block_.source = ProductSource::Packed, block_.weight_type = WeightType::F32;
        block_.scalar_bias = shape.scalar_bias, block_.residual_last = info.epilogue.residual_last;
        block_.alpha = info.alpha, block_.activation = info.epilogue.activation;
        block_.block_m = plan_.block_m, block_.block_k = plan_.block_k, block_.group = plan_.group;
        auto floats = (2 * plan_.block_k + 2 * functions.rows) * functions.panel + plan_.block_k * plan_.block_m;
        scratch_bytes_ = static_cast<size_t>(round_up(floats * 4, 64));
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
            run_part(arguments, part, context.workspace + static_cast<size_t>(worker) * scratch_bytes_);
        });
    }
    size_t workspace_bytes() const override { return scratch_bytes_ * static_cast<size_t>(threads_); }
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
        return 20 + plan_of(functions_, shape, std::max(1, args.threads)).work * 2 / (functions_.width * 5.);
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
