#include "integer_conv/integer_conv.h"

namespace refactor::kernel {

std::string IntegerConvShape::init(IntegerConvInfo const& info, BindArgs const& args) {
    using I = IntegerMatMulInfo;
    auto const &x = args.inputs[I::kA]->dims, &w = args.inputs[I::kB]->dims;
    if (w.size() < 3) return "W " + dims_text(w) + " has no spatial axes";
    auto geometry = geometry_of(info.window, std::span<int64_t const>(w).subspan(2), args);
    if (!geometry) return geometry.error().reason;
    static_cast<Geometry&>(*this) = *geometry;
    group = info.group;
    if (group < 1 || in_channels % group || out_channels % group || w[0] != out_channels || w[1] != group_in())
        return "X " + dims_text(x) + ", W " + dims_text(w) + " and group " + std::to_string(group) + " do not fit";
    auto count = [&](size_t i) { return args.inputs[i] ? args.inputs[i]->count() : 1; };
    auto complain = [&](size_t i, char const* what) {
        return std::to_string(count(i)) + what + " of a convolution with " + std::to_string(out_channels) +
               " output channels";
    };
    if (count(I::kAZero) != 1) return complain(I::kAZero, " zero points for X");
    if (count(I::kBZero) != 1 && count(I::kBZero) != out_channels) return complain(I::kBZero, " zero points for W");
    if (args.inputs[I::kBias] && count(I::kBias) != out_channels) return complain(I::kBias, " biases");
    if (count(I::kScale) != 1 && count(I::kScale) != out_channels) return complain(I::kScale, " scales");
    if (count(I::kYZero) != 1) return complain(I::kYZero, " zero points for the result");
    many_zeros = count(I::kBZero) != 1, many_scales = count(I::kScale) != 1;
    x_signed = args.inputs[I::kA]->dtype == DataType::I8, w_signed = args.inputs[I::kB]->dtype == DataType::I8;
    y = args.outputs[0]->dtype;
    return {};
}

std::string IntegerConvInfo::attributes() const {
    return to_string(window) + " group=" + std::to_string(group) + (result.relu ? " relu" : "");
}

Candidates candidates(IntegerConvInfo const& info, Request const& request) {
    Candidates answer;
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "integer_conv/integer_conv_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
