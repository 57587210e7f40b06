#include "common/half.h"
#include "matmul/matmul.h"
#include "matmul/product_task.h"
#include "matmul/rounded_product.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// Columns that fill most of a vector.
constexpr int64_t kLeastColumns = 9;
constexpr char kFewColumns[] = "is for columns that fill most of a vector";

/// Packs [N, K] or [K, N] of f32, f16 or bf16, a panel at a time.
void pack_rounded(ProductFunctions const& f, DataType type, void const* from, bool columns, int64_t n, int64_t k,
                  float* target) {
    if (type == DataType::F32) return f.pack(target, static_cast<float const*>(from), columns ? k : n, columns, n, k);
    auto const* elements = static_cast<uint16_t const*>(from);
    std::vector<float> wide(static_cast<size_t>(std::min<int64_t>(f.panel, n) * k));
    for (int64_t j = 0; j < n; j += f.panel) {
        auto count = std::min<int64_t>(f.panel, n - j);
        if (columns)
            convert(type, elements + j * k, DataType::F32, wide.data(), count * k);
        else
            for (int64_t p = 0; p < k; ++p)
                convert(type, elements + p * n + j, DataType::F32, wide.data() + p * count, count);
        f.pack(target, wide.data(), columns ? k : count, columns, count, k);
        target += pairs_of(k) * ((count + f.width - 1) / f.width * f.width);
    }
}

/// B, if it is one constant matrix for all batches.
std::shared_ptr<Blob const> constant_matrix(Operand const& b) {
    auto matrices = b.dims.size() < 2 ? 1 : element_count(std::span(b.dims.data(), b.dims.size() - 2));
    return matrices == 1 && b.count() > 0 ? b.constant : nullptr;
}

class RoundedKernel final : public Kernel {
    ProductFunctions const& product_;
    Isa isa_;
    MatMulInfo info_;
    DataType dtype_;  // of B
    std::shared_ptr<Blob const> constant_;
    NarrowOperands narrow_;

    /// Rows that share a B which is no constant, from which on rounding it in every run pays.
    static constexpr int64_t kLeastRows = 24;

    Result<MatMulShape, Rejection> shape_of(BindArgs const& args) const {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        if (product_.tiles.multiply && !takes_tiles(product_, info_, shape, WeightType::Pairs))
            return reject("tiles are for more rows or columns");
        if (shape.n < kLeastColumns) return reject(kFewColumns);
        if (!constant_ && (shape.folds_rows(false) ? shape.batches : 1) * shape.m < kLeastRows)
            return reject("rounding a B that is no constant takes longer than so few products");
        return shape;
    }
    std::shared_ptr<Blob const> pack(MatMulShape const& shape, PackCache& packs) const {
        auto format = "matmul:pairs:" + std::to_string(product_.panel) + (info_.trans_b ? ":T:" : ":N:") +
                      std::to_string(shape.n) + "x" + std::to_string(shape.k);
        auto wide = (shape.n + product_.width - 1) / product_.width * product_.width;
        auto bytes = static_cast<size_t>(wide * pairs_of(shape.k)) * sizeof(float);
        return packs.get(*constant_, format, bytes, [&](void const* from, void* target) {
            pack_rounded(product_, dtype_, from, info_.trans_b, shape.n, shape.k, static_cast<float*>(target));
        });
    }

public:
    RoundedKernel(ProductFunctions const& product, Isa isa, MatMulInfo const& info, Request const& request)
        : product_(product),
          isa_(isa),
          info_(info),
          dtype_(request.inputs[1].dtype),
          constant_(constant_matrix(request.inputs[1])),
          narrow_{request.inputs[0].dtype == DataType::BF16, request.outputs[0].dtype == DataType::BF16} {}
    std::string id() const override { return id_of("matmul", "rounded", DataType::BF16, isa_); }
    /// As that of products of f32, of half as many steps and bytes of B, behind rounding A, and B that is no constant,
    /// at 10 elements/ns.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto found = shape_of(args);
        if (!found) return Err{found.error()};
        auto const& shape = *found;
        // Registers' rate is 14 times that of f32; what is around products takes half of the time and more.
        auto rate = product_.width * (product_.tiles.multiply ? 40. : cpu_features().fast_bf16 ? 10. : 2.5);
        auto b = static_cast<double>(shape.n) * static_cast<double>(shape.k);
        auto rounded = static_cast<double>(shape.batches * shape.m) * static_cast<double>(shape.k) +
                       (constant_ ? 0 : static_cast<double>(shape.batches) * b);
        return 20 + (std::max(shape.operations() / rate, b / 5) + rounded / 10) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        return make_product_task(product_, info_, *shape, WeightType::Pairs,
                                 constant_ ? pack(*shape, args.packs) : nullptr, args.threads, narrow_);
    }
};

bool is_one_of(DataType type, std::initializer_list<DataType> types) {
    return std::ranges::find(types, type) != types.end();
}

/// A and Y are f32 or bf16, B is of 16 bits only if it is one constant matrix, the others are f32; or what is not so.
std::string why_types_are_others(MatMulInfo const& info, Request const& request) {
    using enum DataType;
    auto const &a = request.inputs[0], &b = request.inputs[1], &y = request.outputs[0];
    auto text = [](char const* role, DataType type) { return std::string(role) + " is " + std::string(name_of(type)); };
    if (!is_one_of(a.dtype, {F32, BF16})) return text("A", a.dtype) + ", expected f32 or bf16";
    if (!is_one_of(b.dtype, {F32, F16, BF16})) return text("B", b.dtype) + ", expected f32, f16 or bf16";
    if (!is_one_of(y.dtype, {F32, BF16})) return text("Y", y.dtype) + ", expected f32 or bf16";
    for (size_t i = 2; i < request.inputs.size(); ++i)
        if (auto type = request.inputs[i].dtype; !request.inputs[i].absent() && type != F32)
            return text("an operand behind B", type) + ", expected f32";
    if (y.dtype == BF16 && info.epilogue.residual) return "Y is bf16 and has a residual";
    bool const narrow = a.dtype == BF16 || y.dtype == BF16;
    if ((narrow || b.dtype != F32) && !constant_matrix(b))
        return text("A", a.dtype) + ", " + text("B", b.dtype) + " and not one constant matrix, " + text("Y", y.dtype);
    if (!narrow) return {};
    auto const& dims = b.dims;
    auto k = dims[dims.size() - 2 + info.trans_b], n = dims[dims.size() - 1 - info.trans_b];
    if (a.dtype == BF16 && k % 2)
        return "rows of A in bf16 have " + std::to_string(k) + " elements, expected an even number";
    if (n < kLeastColumns) return kFewColumns;
    return {};
}

/// Why no operands can be rounded, or empty.
std::string refuse(MatMulInfo const& info, Request const& request, Isa isa) {
    if (!info.may_round) return "operands may not be rounded to bf16";
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.isa < isa)
        return "needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa));
    if (info.scaled) return "B is i8, expected f32, f16 or bf16";
    if (info.trans_a) return "A is transposed";
    return why_types_are_others(info, request);
}

}  // namespace

#if RG_X86
#define RG_MAKE(NAME, ISA, FUNCTIONS)                                                               \
    MaybeKernel NAME(MatMulInfo const& info, Request const& request) {                              \
        if (auto why = refuse(info, request, ISA); !why.empty()) return reject(why);                \
        return std::unique_ptr<Kernel>(new RoundedKernel(FUNCTIONS().product, ISA, info, request)); \
    }
#else
#define RG_MAKE(NAME, ISA, FUNCTIONS) \
    MaybeKernel NAME(MatMulInfo const&, Request const&) { return reject("not built for this architecture"); }
#endif
RG_MAKE(make_matmul_rounded_avx512amx, Isa::Avx512Amx, rounded_functions_avx512amx)
RG_MAKE(make_matmul_rounded_avx512bf16, Isa::Avx512Bf16, rounded_functions_avx512bf16)
#undef RG_MAKE

}  // namespace refactor::kernel
