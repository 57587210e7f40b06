#include "common/cpu_features.h"
#include "matmul/matmul.h"
#include "matmul/pack_weights.h"
#include "matmul/product_task.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

template <class T>
constexpr DataType kTypeOf = sizeof(T) == 8 ? DataType::F64 : DataType::F32;

WeightType weight_type_of(DataType type) {
    return type == DataType::F16    ? WeightType::F16
           : type == DataType::BF16 ? WeightType::BF16
           : type == DataType::I8   ? WeightType::I8
                                    : WeightType::F32;
}

template <class T>
class ProductKernel final : public Kernel {
    ProductFunctionsOf<T> const& functions_;
    Isa isa_;
    MatMulInfo info_;
    DataType dtype_;  // of B
    bool beside_halves_;
    std::shared_ptr<Blob const> constant_;  // B, if it is one matrix for all batches

    static constexpr char kFew[] = "tiles are for more rows, columns or depth";
    /// Six products in a sixteenth of the time each, less what making parts takes.
    static constexpr double kTilesOverVectors = 2;

    /// Whether vectors of 8 floats take less time than those of 16 in halves, which a last one of few columns fills to
    /// less than a half. They need more instructions, and keep less of B in registers.
    static bool halves_win(MatMulShape const& shape) {
        int64_t const last = (shape.n - 1) % 16 + 1, columns = shape.k <= 16 ? 24 : 40;
        auto m = shape.folds_rows(false) ? shape.m * shape.batches : shape.m;
        return last <= 8 && shape.n > (shape.k <= 16 ? 1 : 8) && shape.n <= columns && m > 16;
    }
    bool by_tiles(MatMulShape const& shape) const {
        return shape.k > functions_.flat && takes_tiles(functions_, info_, shape, weight_type_of(dtype_));
    }
    /// Null where B is used as it is.
    std::shared_ptr<Blob const> pack(MatMulShape const& shape, WeightType type, PackCache& packs) const {
        bool column = shape.n == 1 && type == WeightType::F32;
        if (!constant_ || column) return nullptr;
        if (takes_columns(functions_, info_, shape, type, true))
            return pack_columns(functions_, *constant_, info_.trans_b, shape.n, shape.k, packs);
        if (takes_flat(functions_, shape, type))
            return info_.trans_b ? turn_rows<T>(*constant_, shape.n, shape.k, packs) : nullptr;
        return pack_panels(functions_, *constant_, dtype_, info_.trans_b, shape.n, shape.k, packs);
    }

public:
    /// `best`: the instruction set that kernels beside it may use.
    ProductKernel(ProductFunctionsOf<T> const& functions, Isa isa, Isa best, MatMulInfo const& info, Operand const& b)
        : functions_(functions),
          isa_(isa),
          info_(info),
          dtype_(b.dtype),
          beside_halves_(sizeof(T) == 4 && isa < Isa::Avx512 && best >= Isa::Avx512 && cpu_features().halves_512) {
        auto matrices = b.dims.size() < 2 ? 1 : element_count(std::span(b.dims.data(), b.dims.size() - 2));
        if (b.constant && matrices == 1 && b.count() > 0) constant_ = b.constant;
    }
    bool has_constant() const { return constant_ != nullptr; }
    std::string id() const override { return id_of("matmul", constant_ ? "packed" : "blocked", dtype_, isa_); }
    /// Multiply-adds at half the peak of a 2.5 GHz core with two FMA units, or reading B at 10 bytes/ns.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto bytes =
            static_cast<double>(storage_bytes(dtype_, 1)) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
        auto rate = functions_.width * 5.;
        if (functions_.tiles.multiply) {
            if (!by_tiles(shape)) return reject(kFew);
            rate *= kTilesOverVectors;
        }
        if (beside_halves_ && halves_win(shape)) rate *= 2.1;
        return 20 + std::max(shape.operations() / rate, bytes / 10) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto type = weight_type_of(dtype_);
        if (functions_.tiles.multiply && !by_tiles(shape)) return reject(kFew);
        return make_product_task(functions_, info_, shape, type, pack(shape, type, args.packs), args.threads);
    }
};

template <class T>
MaybeKernel make(MatMulInfo const& info, Request const& request, Isa isa, ProductFunctionsOf<T> const& (*functions)()) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    auto type = request.inputs[0].dtype;
    if (type != kTypeOf<T>)
        return reject("A is " + std::string(name_of(type)) + ", expected " + std::string(name_of(kTypeOf<T>)));
    if (auto why = why_types_differ(info, request); !why.empty()) return reject(why);
    if (isa == Isa::Avx512Amx) {
        if (request.precision == Precision::Exact) return reject("exact precision allows no sums of parts of bf16");
        if (info.trans_a) return reject("A is transposed");
    }
    auto const& b = request.inputs[1];
    auto kernel = std::make_unique<ProductKernel<T>>(functions(), isa, request.isa, info, b);
    if (b.dtype != type && !kernel->has_constant())
        return reject("B is " + std::string(name_of(b.dtype)) + " and not one constant matrix");
    return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

#if RG_X86
#define RG_MAKE(NAME, ISA, FUNCTIONS) \
    MaybeKernel NAME(MatMulInfo const& info, Request const& request) { return make(info, request, ISA, FUNCTIONS); }
#else
#define RG_MAKE(NAME, ISA, FUNCTIONS) \
    MaybeKernel NAME(MatMulInfo const&, Request const&) { return reject("not built for this architecture"); }
#endif
RG_MAKE(make_matmul_avx512amx, Isa::Avx512Amx, product_functions_avx512amx)
RG_MAKE(make_matmul_avx512, Isa::Avx512, product_functions_avx512)
RG_MAKE(make_matmul_avx2, Isa::Avx2, product_functions_avx2)
RG_MAKE(make_matmul_f64_avx512, Isa::Avx512, product_functions_f64_avx512)
RG_MAKE(make_matmul_f64_avx2, Isa::Avx2, product_functions_f64_avx2)
#undef RG_MAKE

}  // namespace refactor::kernel
