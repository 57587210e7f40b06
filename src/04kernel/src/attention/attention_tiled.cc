#include "attention/tiled_attention_task.h"
#include "common/cpu_features.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

class TiledAttentionKernel final : public Kernel {
    AttentionFunctions functions_;
    Isa isa_;
    AttentionInfo info_;
    NarrowAttention narrow_;

    /// Beside products of f32.
    double speed_of_products() const {
        if (!functions_.rounded) return 1;
        return functions_.rounded->product.tiles.multiply ? 3 : cpu_features().fast_bf16 ? 1.5 : 0.5;
    }

public:
    TiledAttentionKernel(AttentionFunctions const& functions, Isa isa, AttentionInfo const& info,
                         NarrowAttention narrow = {})
        : functions_(functions), isa_(isa), info_(info), narrow_(narrow) {}
    std::string id() const override {
        return id_of("attention", "tiled", functions_.rounded ? DataType::BF16 : DataType::F32, isa_);
    }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto width = functions_.product.width;
        auto sets = static_cast<double>(shape.batch * shape.kv_heads);
        auto rows = static_cast<double>(shape.batch * shape.heads * shape.queries);
        auto keys = static_cast<double>(std::max<int64_t>(1, shape.keys));
        auto depth = static_cast<double>(shape.depth), value_depth = static_cast<double>(shape.value_depth);
        auto vectors = [&](double n) { return std::ceil(n / width); };
        if (rows <= static_cast<double>(kFewRows) * sets) {
            auto read = keys * (vectors(depth) + vectors(value_depth));
            auto work = (0.22 * rows + 0.6 * sets) * read + 8 * rows * vectors(keys);
            return 100 + (vector_time(width) * work + 23 * rows + 136 * sets) / args.threads;
        }
        auto products = vectors(keys) * depth + vectors(value_depth) * keys;
        auto work = rows * (0.3 * products / speed_of_products() + (info_.has_mask ? 6.9 : 3.1) * vectors(keys));
        auto packing = 0.062 * keys * (depth + value_depth) + 226;
        return 100 + (vector_time(width) * work + 26 * rows + sets * packing) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        return make_tiled_attention(functions_, info_, shape, narrow_, args.threads);
    }
};

NarrowAttention narrow_operands(Request const& request) {
    return {request.inputs[0].dtype == DataType::BF16, request.outputs[0].dtype == DataType::BF16};
}

/// Empty if an instruction set at least `isa` is allowed and all operands are f32, or narrow if they may be (the mask
/// may be bool).
std::string why_not(AttentionInfo const& info, Request const& request, Isa isa, NarrowAttention narrow) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.isa < isa)
        return "needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa));
    for (int i = 0; i < 3 + info.has_mask + info.has_sinks; ++i) {
        bool is_mask = info.has_mask && i == 3;
        auto expected = narrow.qkv && i < 3 ? DataType::BF16 : DataType::F32;
        if (auto dtype = request.inputs[i].dtype; dtype != expected && (!is_mask || dtype != DataType::Bool))
            return "input " + std::to_string(i) + " is " + std::string(name_of(dtype)) + ", expected " +
                   std::string(name_of(expected)) + (is_mask ? " or bool" : "");
    }
    return why_not_outputs_of(request, narrow.y ? DataType::BF16 : DataType::F32);
}

}  // namespace

#if RG_X86
#define RG_MAKE(NAME, ISA, ROUNDED)                                                                         \
    MaybeKernel NAME(AttentionInfo const& info, Request const& request) {                                   \
        if (!info.may_round) return reject("operands may not be rounded to bf16");                          \
        auto narrow = narrow_operands(request);                                                             \
        if (auto why = why_not(info, request, ISA, narrow); !why.empty()) return reject(why);               \
        AttentionFunctions functions{product_functions_avx512(), score_functions_avx512bf16(), &ROUNDED()}; \
        return std::unique_ptr<Kernel>(new TiledAttentionKernel(functions, ISA, info, narrow));             \
    }
#else
#define RG_MAKE(NAME, ISA, ROUNDED) \
    MaybeKernel NAME(AttentionInfo const&, Request const&) { return reject("not built for this architecture"); }
#endif
RG_MAKE(make_attention_rounded_avx512amx, Isa::Avx512Amx, rounded_functions_avx512amx)
RG_MAKE(make_attention_rounded_avx512bf16, Isa::Avx512Bf16, rounded_functions_avx512bf16)
#undef RG_MAKE
MaybeKernel make_attention_avx512(AttentionInfo const& info, Request const& request) {
#if RG_X86
    if (auto why = why_not(info, request, Isa::Avx512, {}); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new TiledAttentionKernel({product_functions_avx512(), score_functions_avx512()}, Isa::Avx512, info));
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_attention_avx2(AttentionInfo const& info, Request const& request) {
#if RG_X86
    if (auto why = why_not(info, request, Isa::Avx2, {}); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new TiledAttentionKernel({product_functions_avx2(), score_functions_avx2()}, Isa::Avx2, info));
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
