#include "common/thread_pool.h"
#include "gather_matmul/gather_matmul.h"
#include "matmul/product.h"

#include <cstring>
#include <limits>

namespace refactor::kernel {

namespace {

/// Rows that share one reading of their matrix; more would wait for their elements rather than for it.
constexpr int64_t kGroup = 8;
/// Columns of a part: rows of so many elements are long enough to be read in sequence.
constexpr int64_t kPartColumns = 512;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t whole_lines(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

class GroupedTask final : public runtime::Task {
    ProductFunctions const& functions_;
    GatherMatMulShape shape_;
    bool trans_w_;
    int64_t columns_, parts_;  ///< of a part; parts of the columns
    int threads_;

    /// What a run keeps: rows in the order of their matrices, where those of each matrix begin, and where each group of
    /// rows begins among the former.
    struct Order {
        int32_t *rows, *begins, *groups;
        int64_t count;  ///< of groups
    };
    int64_t most_groups() const {
        return std::min(shape_.rows, ceil_div(shape_.rows, kGroup) + std::min(shape_.rows, shape_.matrices));
    }
    size_t order_bytes() const {
        return static_cast<size_t>(
            whole_lines((shape_.rows + shape_.matrices + 1 + most_groups()) * static_cast<int64_t>(sizeof(int32_t))));
    }
    /// Of one thread: the rows of a group and what becomes of them.
    int64_t scratch_floats() const {
        return whole_lines(kGroup * shape_.k * 4) / 4 + whole_lines(kGroup * columns_ * 4) / 4;
    }

    Order order(void const* indices, std::byte* memory) const {
        auto* rows = reinterpret_cast<int32_t*>(memory);
        auto* begins = rows + shape_.rows;
        auto* groups = begins + shape_.matrices + 1;
        std::fill_n(begins, shape_.matrices + 1, 0);
        for (int64_t t = 0; t < shape_.rows; ++t) ++begins[shape_.matrix_of(indices, t) + 1];
        int64_t count = 0;
        for (int64_t e = 0; e < shape_.matrices; ++e) {
            for (auto r = 0; r < begins[e + 1]; r += kGroup) groups[count++] = begins[e] + r;
            begins[e + 1] += begins[e];
        }
        // Begins move on as rows are put down, and become those of the next matrix.
        for (int64_t t = 0; t < shape_.rows; ++t)
            rows[begins[shape_.matrix_of(indices, t)]++] = static_cast<int32_t>(t);
        return {rows, begins, groups, count};
    }

    void multiply(void* const* arguments, Order const& order, int64_t unit, float* scratch) const {
        auto const *x = static_cast<float const*>(arguments[0]), *w = static_cast<float const*>(arguments[1]);
        auto* y = static_cast<float*>(arguments[3]);
        auto group = unit / parts_, column = unit % parts_ * columns_;
        auto first = order.groups[group];
        auto const* rows = order.rows + first;
        auto matrix = shape_.matrix_of(arguments[2], rows[0]);
        auto count = std::min<int64_t>(order.begins[matrix] - first, kGroup);
        ProductBlock t{};
        t.m = count, t.n = std::min(columns_, shape_.n - column), t.k = shape_.k;
        t.a_row = shape_.k, t.a_k = 1, t.alpha = 1;
        w += matrix * shape_.k * shape_.n;
        t.b = trans_w_ ? w + column * shape_.k : w + column;
        t.b_row = trans_w_ ? shape_.k : shape_.n;
        auto run = trans_w_ ? functions_.multiply_dots : functions_.multiply_streamed;
        if (count == 1) {
            t.a = x + rows[0] * shape_.k, t.y = y + rows[0] * shape_.n + column, t.y_row = shape_.n;
            return run(t);
        }
        auto* sums = scratch + whole_lines(kGroup * shape_.k * 4) / 4;
        for (int64_t i = 0; i < count; ++i)
            std::memcpy(scratch + i * shape_.k, x + rows[i] * shape_.k, static_cast<size_t>(shape_.k) * sizeof(float));
        t.a = scratch, t.y = sums, t.y_row = t.n;
        run(t);
        for (int64_t i = 0; i < count; ++i)
            std::memcpy(y + rows[i] * shape_.n + column, sums + i * t.n, static_cast<size_t>(t.n) * sizeof(float));
    }

public:
    GroupedTask(ProductFunctions const& functions, GatherMatMulShape const& shape, bool trans_w, int threads)
        : functions_(functions), shape_(shape), trans_w_(trans_w), threads_(std::max(1, threads)) {
        parts_ = threads_ > 1 ? std::max<int64_t>(1, shape_.n / kPartColumns) : 1;
        columns_ = ceil_div(ceil_div(shape_.n, parts_), functions_.panel) * functions_.panel;
        parts_ = ceil_div(shape_.n, columns_);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const order = this->order(arguments[2], context.workspace);
        context.pool.parallel_for(order.count * parts_, [&](int64_t unit, int worker) {
            multiply(arguments, order, unit, reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
    size_t workspace_bytes() const override { return order_bytes(); }
    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_floats()) * sizeof(float); }
    double operations() const override { return shape_.operations(); }
};

class GroupedKernel final : public Kernel {
    ProductFunctions const& functions_;
    Isa isa_;
    bool trans_w_;

public:
    GroupedKernel(ProductFunctions const& functions, Isa isa, bool trans_w)
        : functions_(functions), isa_(isa), trans_w_(trans_w) {}
    std::string id() const override { return id_of("gather_matmul", "grouped", DataType::F32, isa_); }
    /// As many operations as products of few rows reach, or reading the matrices that are met.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        GatherMatMulShape shape;
        if (auto why = shape.init({trans_w_}, args); !why.empty()) return reject(why);
        if (shape.k == 0 || shape.n == 0) return reject("is for matrices with elements");
        if (shape.rows > std::numeric_limits<int32_t>::max()) return reject("counts rows in 32 bits");
        auto bytes = 4. * static_cast<double>(std::min(shape.rows, shape.matrices) * shape.k * shape.n);
        return 20 + std::max(shape.operations() / (functions_.width * 5.), bytes / 10) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto time = estimate(args); !time) return Err{time.error()};
        GatherMatMulShape shape;
        shape.init({trans_w_}, args);
        return std::unique_ptr<runtime::Task>(new GroupedTask(functions_, shape, trans_w_, args.threads));
    }
};

MaybeKernel make(GatherMatMulInfo const& info, Request const& request, Isa isa,
                 ProductFunctions const& (*functions)()) {
    if (auto why = why_not_gather_matmul(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    return std::unique_ptr<Kernel>(new GroupedKernel(functions(), isa, info.trans_w));
}

}  // namespace

MaybeKernel make_gather_matmul_avx512(GatherMatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512, product_functions_avx512);
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_gather_matmul_avx2(GatherMatMulInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2, product_functions_avx2);
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
