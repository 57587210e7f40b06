#include "gather_matmul/gather_matmul.h"
#include "gather_matmul/routed_panels.h"

#include <limits>

namespace refactor::kernel {

namespace {

/// Rows that are multiplied with the matrix where it lies: more would wait for their elements rather than for it.
constexpr int64_t kFew = 8;

class GroupedTask final : public RoutedTask {
    ProductFunctions const& functions_;
    RoutedPanels panels_;
    bool trans_w_, has_bias_;

    int64_t a_row() const { return whole_lines(shape_.k * 4) / 4; }

    void multiply_few(float const* w, float const* bias, RoutedPart const& part) const {
        ProductBlock t{};
        t.m = part.group.count, t.n = part.columns, t.k = shape_.k;
        t.a = reinterpret_cast<float const*>(part.made), t.a_row = a_row(), t.a_k = 1, t.alpha = 1;
        t.b = trans_w_ ? w + part.column * shape_.k : w + part.column;
        t.b_row = trans_w_ ? shape_.k : shape_.n;
        t.bias = bias ? bias + part.column : nullptr;
        auto run = trans_w_ ? functions_.multiply_dots : functions_.multiply_streamed;
        if (t.m == 1) {
            t.y = part_of_row(part, 0) + part.column, t.y_row = shape_.n;
            return run(t);
        }
        t.y = reinterpret_cast<float*>(part.scratch), t.y_row = t.n;
        run(t);
        put(part, t.y, t.y_row, 0, t.n);
    }

    void multiply(void* const* arguments, RoutedPart const& part) const override {
        auto matrix = int64_t{part.group.matrix};
        auto const* w = static_cast<float const*>(arguments[1]) + matrix * shape_.k * shape_.n;
        auto const* bias = has_bias_ ? static_cast<float const*>(arguments[kRoutedBias]) + matrix * shape_.n : nullptr;
        if (part.group.count <= kFew) return multiply_few(w, bias, part);
        auto set = [&](ProductBlock& t, int64_t column, int64_t k, float*) {
            t.source = trans_w_ ? ProductSource::PackColumns : ProductSource::PackRows;
            t.b = trans_w_ ? w + column * shape_.k + k : w + k * shape_.n + column;
            t.b_row = trans_w_ ? shape_.k : shape_.n;
        };
        panels_.multiply(part, a_row(), bias, set, [&](float const* sums, int64_t column, int64_t count) {
            put(part, sums, panels_.panel(), column - part.column, count);
        });
    }
    void make_row(RowGroup const&, float const* x, std::byte* row) const override {
        std::copy_n(x, shape_.k, reinterpret_cast<float*>(row));
    }
    size_t row_bytes() const override { return static_cast<size_t>(a_row()) * sizeof(float); }

public:
    GroupedTask(ProductFunctions const& functions, RoutedProduct const& shape, bool trans_w, BindArgs const& args)
        : RoutedTask(shape, args, kRoutedIndices, shape.rows, functions.panel),
          functions_(functions),
          panels_(functions, shape.k, 1, shape.rows),
          trans_w_(trans_w),
          has_bias_(args.inputs.size() > kRoutedBias && args.inputs[kRoutedBias]) {}
    size_t scratch_bytes() const override {
        return std::max(static_cast<size_t>(kFew * columns()) * sizeof(float), panels_.scratch_bytes());
    }
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
        auto shape = routed_product({trans_w_}, args);
        if (!shape) return Err{shape.error()};
        if (shape->k == 0 || shape->n == 0) return reject("is for matrices with elements");
        if (shape->rows > std::numeric_limits<int32_t>::max()) return reject("counts rows in 32 bits");
        auto bytes = 4 * shape->met() * static_cast<double>(shape->k * shape->n);
        auto speed = functions_.width * (shape->rows_of_each() > kFew ? 6. : 5.);
        return 20 + std::max(shape->operations() / speed, bytes / 10) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto time = estimate(args); !time) return Err{time.error()};
        return std::unique_ptr<runtime::Task>(
            new GroupedTask(functions_, *routed_product({trans_w_}, args), trans_w_, args));
    }
};

MaybeKernel make(GatherMatMulInfo const& info, Request const& request, Isa isa,
                 ProductFunctions const& (*functions)()) {
    if (auto why = why_not_gather_matmul(request); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
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
