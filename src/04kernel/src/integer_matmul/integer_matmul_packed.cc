#include "integer_matmul/integer_product_task.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;
using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class IntegerProductKernel final : public Kernel {
    IntegerFunctions const& f_;
    Isa isa_;
    IntegerMatMulInfo info_;
    std::shared_ptr<Blob const> constant_;  // B, if it is one matrix for all batches
    std::optional<int64_t> spills_ = 0;     // of it; nothing: too many
    DataType type_;
    bool b_signed_;

public:
    IntegerProductKernel(IntegerFunctions const& f, Isa isa, IntegerMatMulInfo const& info, Request const& request)
        : f_(f), isa_(isa), info_(info), type_(request.inputs[I::kA].dtype) {
        auto const& b = request.inputs[I::kB];
        b_signed_ = b.dtype == DataType::I8;
        auto matrices =
            b.dims.size() < 2 ? 1 : element_count(std::span<int64_t const>(b.dims).first(b.dims.size() - 2));
        if (b.constant && matrices == 1 && b.count() > 0) constant_ = b.constant;
        if (!f_.spills || !constant_) return;
        auto n = b.dims.back();
        Blob::Reader reader(*constant_);
        spills_ = count_spills(f_, {reader.data(), b_signed_, b.count() / n, n});
    }
    bool is_constant() const { return constant_ != nullptr; }
    bool spills_too_much() const { return !spills_; }
    std::string id() const override {
        auto const* how = f_.spills ? "bytes" : f_.narrow ? "narrow" : constant_ ? "packed" : "blocked";
        return id_of("integer_matmul", how, type_, isa_);
    }
    /// At half the peak of a 2.5 GHz core that multiplies two vectors a cycle, less what widening B takes of tiles of
    /// six rows; a read of B, as it is packed, at 10 bytes/ns; two passes over the operands, of which B is packed at 7
    /// bytes/ns.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        IntegerShape shape;
        if (auto why = shape.init(args); !why.empty()) return reject(why);
        auto bytes = static_cast<double>(shape.n) * static_cast<double>(shape.k) * f_.cell_bytes() / f_.group;
        auto depth = ceil_div(shape.k, f_.group);
        PackedSize size(f_, shape.n, depth, *spills_);
        constexpr double kWidening = 1.15;
        auto rate = (tile_dwords_of(f_, 1, depth) ? f_.speed : 1.) * f_.width * f_.group * 5. /
                    (f_.narrow ? kWidening : slowdown_of_spills(f_, size));
        auto staging = static_cast<double>(args.inputs[I::kA]->count()) * 0.2 +
                       (constant_ ? 0. : static_cast<double>(args.inputs[I::kB]->count()) / 7);
        return 500 + std::max((shape.operations() / rate), bytes / 10) / args.threads + staging / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        IntegerShape shape;
        if (auto why = shape.init(args); !why.empty()) return reject(why);
        std::shared_ptr<Blob const> packed;
        if (constant_) {
            auto depth = ceil_div(shape.k, f_.group);
            PackedSize size(f_, shape.n, depth, *spills_);
            auto format = "integer_matmul:" + std::to_string(f_.group) +
                          (f_.spills   ? "s:"
                           : f_.narrow ? "n:"
                                       : ":") +
                          std::to_string(f_.panel) + ":" + std::string(name_of(args.inputs[I::kB]->dtype)) + ":" +
                          std::to_string(shape.n) + "x" + std::to_string(shape.k);
            packed = args.packs.get(*constant_, format, size.bytes(), [&](void const* from, void* target) {
                pack_columns(f_, {from, b_signed_, shape.k, shape.n}, size, depth, static_cast<int32_t*>(target));
            });
        }
        return make_integer_product(f_, info_.result, shape, std::move(packed), *spills_, args);
    }
};

}  // namespace

MaybeKernel make_integer_matmul(IntegerMatMulInfo const& info, Request const& request, Isa isa,
                                IntegerFunctions const& (*functions)()) {
    IntegerTypes types;
    if (auto why = types.init(request, info.result); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    // Other forms of weights that these loops alone gain from.
    bool const special = functions().spills || functions().narrow;
    if (special && request.isa > isa) return reject("a wider instruction set is allowed");
    auto kernel = std::make_unique<IntegerProductKernel>(functions(), isa, info, request);
    if (special && !kernel->is_constant()) return reject("B is no constant matrix");
    if (kernel->spills_too_much()) return reject("too many pairs of weights whose products may not fit i16");
    return std::unique_ptr<Kernel>(std::move(kernel));
}

IntegerStore store_of(DataType y) {
    return y == DataType::I32   ? IntegerStore::I32
           : y == DataType::F32 ? IntegerStore::F32
           : y == DataType::U8  ? IntegerStore::U8
                                : IntegerStore::I8;
}

IntegerTail tail_of(IntegerResult const& result, DataType y, void const* y_zero, DataType residual) {
    IntegerTail tail{.store = store_of(y),
                     .y_zero = y_zero ? byte_at(y_zero, y == DataType::I8, 0) : 0,
                     .low = result.relu ? std::max(0.f, result.low) : result.low,
                     .high = result.high,
                     .rounded = result.rounded,
                     .middle_low = result.middle_low,
                     .middle_high = result.middle_high,
                     .middle_scale = result.middle_scale,
                     .slope = result.slope,
                     .residual = IntegerStore::I32,
                     .residual_scale = result.residual_scale,
                     .residual_zero = result.residual_zero};
    if (residual != DataType::Undefined) tail.residual = store_of(residual);
    return tail;
}

#if RG_X86
MaybeKernel make_integer_matmul_amx(IntegerMatMulInfo const& info, Request const& request) {
    if (auto why = why_not_tiles(request); !why.empty()) return reject(why);
    return make_integer_matmul(info, request, Isa::Avx512Amx, integer_functions_avx512amx);
}
MaybeKernel make_integer_matmul_vnni(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx512Vnni, integer_functions_avx512vnni);
}
MaybeKernel make_integer_matmul_avx512(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx512, integer_functions_avx512);
}
MaybeKernel make_integer_matmul_avx2vnni(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx2Vnni, integer_functions_avx2vnni);
}
MaybeKernel make_integer_matmul_avx2(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx2, integer_functions_avx2);
}
MaybeKernel make_integer_matmul_avx2_bytes(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx2, integer_functions_avx2_bytes);
}
MaybeKernel make_integer_matmul_avx2_narrow(IntegerMatMulInfo const& info, Request const& request) {
    return make_integer_matmul(info, request, Isa::Avx2, integer_functions_avx2_narrow);
}
#else
MaybeKernel make_integer_matmul_amx(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_vnni(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_avx512(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_avx2vnni(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_avx2(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_avx2_bytes(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_matmul_avx2_narrow(IntegerMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
