#include "cuda/converting.h"

namespace refactor::kernel::cuda {

char const* const kConverting = R"cuda(
typedef rg_vec<float, kRun> Run;
typedef rg_vec<unsigned short, kRun> Bits;
RG_FN Run rg_read(rg_u64 from, Index at, unsigned type) {
    if (type == 0) return ((Run const*)from)[at];
    Bits bits = ((Bits const*)from)[at];
    Run run;
#pragma unroll
    for (int i = 0; i < kRun; ++i) run.v[i] = type == 1 ? rg_from_f16(bits.v[i]) : rg_from_bf16(bits.v[i]);
    return run;
}
template <int type> RG_FN void rg_write(rg_u64 to, Index at, Run run) {
    if constexpr (type == 0) {
        ((Run*)to)[at] = run;
    } else {
        Bits bits;
#pragma unroll
        for (int i = 0; i < kRun; ++i) bits.v[i] = type == 1 ? rg_to_f16(run.v[i]) : rg_to_bf16(run.v[i]);
        ((Bits*)to)[at] = bits;
    }
}
)cuda";

std::optional<uint64_t> converting_number(DataType type) {
    switch (type) {
        case DataType::F32:
            return 0;
        case DataType::F16:
            return 1;
        case DataType::BF16:
            return 2;
        default:
            return std::nullopt;
    }
}

std::optional<Rejection> refuse_converting(Request const& request) {
    if (request.inputs.empty() || request.outputs.empty() || request.outputs.size() > 2)
        return Rejection{std::to_string(request.inputs.size()) + " inputs and " +
                         std::to_string(request.outputs.size()) + " outputs, expected some and 1 or 2"};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list) {
            if (operand.layout != Layout::Plain) return Rejection{"blocked layout, expected plain"};
            if (!converting_number(operand.dtype))
                return Rejection{"an operand of " + std::string(refactor::name_of(operand.dtype)) +
                                 " among others, expected f32, f16 or bf16"};
        }
    return std::nullopt;
}

std::string outputs_kind(BindArgs const& args) {
    auto number = [&](size_t i) { return static_cast<int64_t>(converting_number(args.outputs[i]->dtype).value_or(0)); };
    auto outputs = args.outputs.size();
    return constant_kind("kWholes", static_cast<int64_t>(outputs)) + constant_kind("kFirst", number(0)) +
           constant_kind("kSecond", number(outputs - 1));
}

}  // namespace refactor::kernel::cuda
