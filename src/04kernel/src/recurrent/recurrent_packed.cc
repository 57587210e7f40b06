#include "recurrent/recurrent_task.h"

#include <cstring>
#include <string>
#include <vector>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

class PackedRecurrentKernel final : public Kernel {
    RecurrentFunctions functions_;
    Isa isa_;
    RecurrentInfo info_;
    std::shared_ptr<Blob const> w_, r_;

    std::shared_ptr<Blob const> pack(Blob const& source, GateMatrix const& m, RecurrentShape const& s,
                                     PackCache& packs) const {
        auto const& product = functions_.product;
        auto format = (functions_.rounded ? "recurrent:pairs:" : "recurrent:") + std::to_string(product.panel) + ":" +
                      std::to_string(s.gates) + "x" + std::to_string(s.hidden) + "x" + std::to_string(m.depth) + ":" +
                      std::to_string(m.first_gate) + "+" + std::to_string(m.gates) + "x" + std::to_string(s.directions);
        return packs.get(
            source, format, m.floats() * static_cast<size_t>(s.directions) * sizeof(float),
            [&](void const* from, void* target) {
                std::vector<float> rows(static_cast<size_t>(product.panel * m.depth));
                for (int64_t d = 0; d < s.directions; ++d)
                    pack_gates(product, m, s.hidden, static_cast<float const*>(from) + d * s.gates * s.hidden * m.depth,
                               static_cast<float*>(target) + static_cast<size_t>(d) * m.floats(), rows.data());
            });
    }

    bool tiles_pay(RecurrentShape const& s) const {
        return functions_.takes_tiles(info_.batch_first ? s.steps : s.steps * s.batch);
    }

public:
    PackedRecurrentKernel(RecurrentFunctions functions, Isa isa, RecurrentInfo const& info, Request const& request)
        : functions_(functions),
          isa_(isa),
          info_(info),
          w_(request.inputs[1].constant),
          r_(request.inputs[2].constant) {}
    std::string id() const override {
        return id_of("recurrent", "packed", functions_.rounded ? DataType::BF16 : DataType::F32, isa_);
    }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto rate = functions_.product.width * (!functions_.rounded ? 4. : cpu_features().fast_bf16 ? 6. : 4.5);
        if (!functions_.product.tiles.multiply) return 100 + shape.operations() / rate;
        if (!tiles_pay(shape)) return reject("too few rows for tiles");
        // Tiles multiply at least twice as fast; a step of few sequences makes no use of them.
        auto inputs = static_cast<double>(shape.inputs) / static_cast<double>(shape.inputs + shape.hidden);
        auto all = functions_.takes_tiles(shape.batch) ? 0.5 : 1 - inputs / 2;
        return 100 + shape.operations() / rate * all;
    }
    MaybeTask bind(BindArgs const& args) const override {
        RecurrentShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        if (functions_.product.tiles.multiply && !tiles_pay(shape)) return reject("too few rows for tiles");
        RecurrentPlan plan(functions_, info_, shape, args.threads, true, true);
        PackedWeights packed;
        if (w_ && plan.w.floats()) packed.w = pack(*w_, plan.w, shape, args.packs);
        if (r_ && plan.r.floats()) {
            packed.r = pack(*r_, plan.r, shape, args.packs);
            if (plan.split) packed.part = pack(*r_, plan.r_part, shape, args.packs);
        }
        return recurrent_task(functions_, info_, shape, std::move(packed), args.threads);
    }
};

MaybeKernel make(RecurrentInfo const& info, Request const& request, Isa isa, RecurrentFunctions functions) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (info.quantized) return reject("weights are bytes, expected f32");
    if (auto dtype = request.inputs[0].dtype; dtype != DataType::F32)
        return reject("X is " + std::string(name_of(dtype)) + ", expected f32");
    if (functions.product.tiles.multiply && !functions.rounded && request.precision == Precision::Exact)
        return reject("exact precision allows no sums of parts of bf16");
    return std::unique_ptr<Kernel>(new PackedRecurrentKernel(functions, isa, info, request));
}

}  // namespace

#if RG_X86
namespace {

MaybeKernel make_rounded(RecurrentInfo const& info, Request const& request, Isa isa, RoundedFunctions const& rounded) {
    if (!info.may_round) return reject("operands may not be rounded to bf16");
    return make(info, request, isa,
                {rounded.product, cell_functions_avx512(), nullptr, row_product_avx512bf16(), &rounded});
}

}  // namespace
#endif

MaybeKernel make_recurrent_rounded_avx512amx(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make_rounded(info, request, Isa::Avx512Amx, rounded_functions_avx512amx());
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_rounded(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make_rounded(info, request, Isa::Avx512Bf16, rounded_functions_avx512bf16());
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_avx512amx(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512Amx,
                {product_functions_avx512amx(), cell_functions_avx512(), nullptr, row_product_avx512()});
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_avx512(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx512,
                {product_functions_avx512(), cell_functions_avx512(), nullptr, row_product_avx512()});
#else
    return reject("not built for this architecture");
#endif
}
MaybeKernel make_recurrent_avx2(RecurrentInfo const& info, Request const& request) {
#if RG_X86
    return make(info, request, Isa::Avx2,
                {product_functions_avx2(), cell_functions_avx2(), &stream_functions_avx2(), nullptr});
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
