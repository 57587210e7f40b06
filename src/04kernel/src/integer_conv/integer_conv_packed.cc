#include "integer_conv/integer_conv_packed.h"

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;

class PackedKernel final : public Kernel {
    IntegerFunctions const& f_;
    Isa isa_;
    IntegerConvInfo info_;
    DataType type_;
    std::shared_ptr<mem_manager::Blob const> w_, w_zero_;
    bool zero_known_;
    std::optional<IntegerConvPlan::Weights> weights_ = IntegerConvPlan::Weights{};  // nothing: too many spills

    /// Depthwise weights are packed with their zero points.
    std::string format_of(IntegerConvPlan const& plan) const {
        auto format = plan.format();
        return plan.depthwise ? format + zeros_in_format(w_zero_.get()) : format;
    }
    std::shared_ptr<mem_manager::Blob const> pack(IntegerConvPlan const& plan, PackCache& packs) const {
        if (!w_ || (plan.depthwise && !zero_known_)) return nullptr;
        return packs.get(*w_, format_of(plan), plan.packed_bytes(), [&](void const* from, void* target) {
            for (int64_t group = 0; group < plan.groups(); ++group)
                plan.pack(from, w_zero_ ? w_zero_->data() : nullptr, group, target);
        });
    }

    /// Whether zero points of W are those that the loops' own shift of its elements undoes.
    bool is_centred(DataType type, Operand const& zero) const {
        bool w_signed = type == DataType::I8;
        auto shift = b_shift(f_, w_signed);
        if (zero.absent()) return shift == 0;
        if (!zero.constant) return false;
        mem_manager::Blob::Reader reader(*zero.constant);
        for (int64_t i = 0; i < zero.count(); ++i)
            if (byte_at(reader.data(), w_signed, i) + shift != 0) return false;
        return true;
    }

    std::optional<int64_t> most_spills(Operand const& w) const {
        auto out = w.dims[0] / info_.group, channels = w.dims[1], taps = w.count() / (w.dims[0] * channels);
        auto const& dilations = info_.window.dilations;
        bool adjacent = (dilations.empty() || dilations.back() == 1) &&
                        !keeps_groups_together(f_, info_.group, channels, info_.channels_last);
        auto offsets = WindowRuns(taps, w.dims.back(), adjacent, channels).offsets(f_);
        std::optional<int64_t> most = 0;
        mem_manager::Blob::Reader reader(*w_);
        for (int64_t group = 0; group < info_.group && most; ++group) {
            auto const* first = static_cast<uint8_t const*>(reader.data()) + group * out * channels * taps;
            auto count = count_spills(f_, {first, w.dtype == DataType::I8, static_cast<int64_t>(offsets.size()), out,
                                           offsets, channels * taps});
            most = count ? std::optional(std::max(*most, *count)) : std::nullopt;
        }
        return most;
    }

public:
    PackedKernel(IntegerFunctions const& f, Isa isa, IntegerConvInfo info, Request const& request)
        : f_(f), isa_(isa), info_(std::move(info)), type_(request.inputs[I::kA].dtype) {
        auto const &w = request.inputs[I::kB], &zero = request.inputs[I::kBZero];
        if (w.constant && w.count() > 0) w_ = w.constant;
        w_zero_ = zero.constant, zero_known_ = zero.absent() || zero.constant;
        weights_->centred = (f_.few_columns || f_.tile_rows) && is_centred(w.dtype, zero);
        if (!f_.spills || !w_) return;
        if (auto spills = most_spills(w))
            weights_->spills = *spills;
        else
            weights_.reset();
    }
    bool spills_too_much() const { return !weights_; }
    std::string id() const override {
        return id_of("integer_conv", f_.spills ? "bytes" : w_ ? "packed" : "blocked", type_, isa_);
    }
    /// At half the peak of a 2.5 GHz core that multiplies two vectors a cycle, with lanes that have no channel; staging
    /// X and storing Y at about 3 bytes a ns.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        IntegerConvShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        if (shape.empty()) return reject("nothing to compute");
        auto staging = static_cast<double>(args.inputs[I::kA]->count() + args.outputs[0]->count()) * 0.3;
        IntegerConvPlan plan(f_, info_, shape, *weights_);
        auto lanes = static_cast<double>(plan.columns());
        auto padded = std::ceil(lanes / f_.width) * f_.width;
        auto rate = (plan.tile_dwords ? f_.speed : 1.) * f_.width * f_.group * 5. / slowdown_of_spills(f_, plan.size);
        return 200 + (plan.s.operations() * padded / lanes / rate + staging) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        IntegerConvShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        if (shape.empty()) return reject("nothing to compute");
        IntegerConvPlan plan(f_, info_, shape, *weights_);
        return make_integer_conv_task(plan, pack(plan, args.packs), args.inputs[I::kShift] != nullptr, args.threads);
    }
};

}  // namespace

MaybeKernel make_integer_conv(IntegerConvInfo const& info, Request const& request, Isa isa,
                              IntegerFunctions const& (*functions)()) {
    IntegerTypes types;
    if (auto why = types.init(request, info.result); !why.empty()) return reject(why);
    if (types.residual != DataType::Undefined && !info.channels_last) return reject("a residual needs channels_last");
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    auto const& w = request.inputs[I::kB];
    if (functions().spills) {
        if (request.isa > isa) return reject("a wider instruction set is allowed");
        if (!w.constant || w.count() == 0 || w.dims.size() < 3) return reject("W is not constant");
        if (info.group > 1 && w.dims[1] == 1) return reject("one channel for each group");
    }
    auto kernel = std::make_unique<PackedKernel>(functions(), isa, info, request);
    if (kernel->spills_too_much()) return reject("too many pairs of weights whose products may not fit i16");
    return std::unique_ptr<Kernel>(std::move(kernel));
}

#if RG_X86
MaybeKernel make_integer_conv_amx(IntegerConvInfo const& info, Request const& request) {
    if (auto why = why_not_tiles(request); !why.empty()) return reject(why);
    return make_integer_conv(info, request, Isa::Avx512Amx, integer_functions_avx512amx);
}
MaybeKernel make_integer_conv_vnni(IntegerConvInfo const& info, Request const& request) {
    return make_integer_conv(info, request, Isa::Avx512Vnni, integer_functions_avx512vnni);
}
MaybeKernel make_integer_conv_avx512(IntegerConvInfo const& info, Request const& request) {
    return make_integer_conv(info, request, Isa::Avx512, integer_functions_avx512);
}
MaybeKernel make_integer_conv_avx2vnni(IntegerConvInfo const& info, Request const& request) {
    return make_integer_conv(info, request, Isa::Avx2Vnni, integer_functions_avx2vnni);
}
MaybeKernel make_integer_conv_avx2(IntegerConvInfo const& info, Request const& request) {
    return make_integer_conv(info, request, Isa::Avx2, integer_functions_avx2);
}
MaybeKernel make_integer_conv_avx2_bytes(IntegerConvInfo const& info, Request const& request) {
    return make_integer_conv(info, request, Isa::Avx2, integer_functions_avx2_bytes);
}
#else
MaybeKernel make_integer_conv_amx(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_vnni(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_avx512(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_avx2vnni(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_avx2(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_integer_conv_avx2_bytes(IntegerConvInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
