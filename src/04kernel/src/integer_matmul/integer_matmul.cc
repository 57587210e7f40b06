#include "integer_matmul/integer_matmul.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

namespace {

bool is_byte(DataType type) { return type == DataType::U8 || type == DataType::I8; }

std::string text_of(DataType type) { return std::string(name_of(type)); }

}  // namespace

std::string IntegerTypes::init(Request const& request, IntegerResult const& result) {
    using I = IntegerMatMulInfo;
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.inputs.size() != I::kInputs)
        return std::to_string(request.inputs.size()) + " inputs, expected " + std::to_string(I::kInputs);
    auto type = [&](size_t i) { return request.inputs[i].dtype; };
    y = request.outputs[0].dtype;
    if (!is_byte(type(I::kA)) || !is_byte(type(I::kB)))
        return "operands of " + text_of(type(I::kA)) + " and " + text_of(type(I::kB)) + ", expected u8 or i8";
    if (!is_byte(y) && y != DataType::I32 && y != DataType::F32)
        return "output of " + text_of(y) + ", expected i32, f32, u8 or i8";
    bool scaled = y != DataType::I32;
    DataType const wanted[]{type(I::kA),
                            type(I::kB),
                            type(I::kA),
                            type(I::kB),
                            DataType::I32,
                            scaled ? DataType::F32 : DataType::Undefined,
                            is_byte(y) ? y : DataType::Undefined,
                            scaled ? DataType::F32 : DataType::Undefined};
    for (size_t i = I::kAZero; i < I::kResidual; ++i) {
        if (type(i) == wanted[i] || (type(i) == DataType::Undefined && i != I::kScale)) continue;
        return "input " + std::to_string(i) + " of " + text_of(type(i)) + ", expected " + text_of(wanted[i]);
    }
    residual = type(I::kResidual);
    if (residual != DataType::Undefined && (!scaled || (!is_byte(residual) && residual != DataType::F32)))
        return "residual of " + text_of(residual) + " for an output of " + text_of(y);
    if (!(result == IntegerResult{}) && !scaled) return "what follows a sum needs a scale";
    a_signed = type(I::kA) == DataType::I8, b_signed = type(I::kB) == DataType::I8;
    return {};
}

std::string IntegerShape::init(BindArgs const& args) {
    using I = IntegerMatMulInfo;
    if (auto why = MatMulShape::init({}, args); !why.empty()) return why;
    auto count = [&](size_t i) { return args.inputs[i] ? args.inputs[i]->count() : 1; };
    auto matrices = [&](size_t i) {
        auto const& dims = args.inputs[i]->dims;
        return element_count(std::span<int64_t const>(dims).first(dims.size() - 2));
    };
    auto complain = [&](size_t i, char const* what) {
        return std::to_string(count(i)) + what + " of a product " + std::to_string(m) + " x " + std::to_string(k) +
               " x " + std::to_string(n);
    };
    if (!a_zero.init(count(I::kAZero), m, matrices(I::kA))) return complain(I::kAZero, " zero points for A");
    if (!b_zero.init(count(I::kBZero), n, matrices(I::kB))) return complain(I::kBZero, " zero points for B");
    if (args.inputs[I::kBias] && count(I::kBias) != n) return complain(I::kBias, " biases");
    if (count(I::kScale) != 1 && count(I::kScale) != n) return complain(I::kScale, " scales");
    if (count(I::kYZero) != 1) return complain(I::kYZero, " zero points for the result");
    if (args.inputs[I::kShift] && count(I::kShift) != n) return complain(I::kShift, " shifts");
    if (args.inputs[I::kResidual] && count(I::kResidual) != args.outputs[0]->count())
        return complain(I::kResidual, " elements of a residual");
    many_scales = count(I::kScale) != 1;
    return {};
}

std::string IntegerResult::attributes() const {
    std::string text = relu ? "relu" : "";
    auto add = [&](std::string part) { text += (text.empty() ? "" : " ") + std::move(part); };
    if (rounded)
        add("rounded=[" + exact_text(middle_low) + ", " + exact_text(middle_high) + "]*" + exact_text(middle_scale));
    if (slope != 1) add("slope=" + exact_text(slope));
    if (residual_scale != 1 || residual_zero != 0)
        add("residual=" + exact_text(residual_scale) + "-" + std::to_string(residual_zero));
    if (low > -std::numeric_limits<float>::infinity() || high < std::numeric_limits<float>::infinity())
        add("clip=[" + exact_text(low) + ", " + exact_text(high) + "]");
    return text;
}

std::string IntegerMatMulInfo::attributes() const { return result.attributes(); }

Candidates candidates(IntegerMatMulInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("integer_matmul:nvidia:nvrtc", cuda::integer_matmul_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "integer_matmul/integer_matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
