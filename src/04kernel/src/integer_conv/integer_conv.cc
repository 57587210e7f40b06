#include "integer_conv/integer_conv.h"

#include "cuda/kernels.h"
#include "mem_manager/blob.h"

#include <string_view>

namespace refactor::kernel {

namespace {

/// With the channels in front of the spatial axes.
TensorDesc channels_first(TensorDesc desc) {
    if (desc.dims.size() < 3) return desc;
    auto channels = desc.dims.back();
    for (auto i = desc.dims.size() - 1; i > 1; --i) desc.dims[i] = desc.dims[i - 1];
    desc.dims[1] = channels;
    return desc;
}

Result<Geometry, Rejection> integer_geometry(IntegerConvInfo const& info, std::span<int64_t const> kernel,
                                             BindArgs const& args) {
    if (!info.channels_last) return geometry_of(info.window, kernel, args);
    auto x = channels_first(*args.inputs[0]), y = channels_first(*args.outputs[0]);
    TensorDesc const *inputs[]{&x}, *outputs[]{&y};
    return geometry_of(info.window, kernel, {inputs, outputs, args.params, args.packs, args.threads});
}

}  // namespace

std::string zeros_in_format(mem_manager::Blob const* zeros) {
    if (!zeros) return {};
    std::string_view bytes(static_cast<char const*>(zeros->data()), zeros->bytes());
    return ":zeros " + std::to_string(std::hash<std::string_view>()(bytes));
}

std::string IntegerConvShape::init(IntegerConvInfo const& info, BindArgs const& args) {
    using I = IntegerMatMulInfo;
    auto const &x = args.inputs[I::kA]->dims, &w = args.inputs[I::kB]->dims;
    if (w.size() < 3) return "W " + dims_text(w) + " has no spatial axes";
    auto geometry = integer_geometry(info, std::span<int64_t const>(w).subspan(2), args);
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
    if (args.inputs[I::kShift] && count(I::kShift) != out_channels) return complain(I::kShift, " shifts");
    if (args.inputs[I::kResidual] && count(I::kResidual) != args.outputs[0]->count())
        return complain(I::kResidual, " elements of a residual");
    many_zeros = count(I::kBZero) != 1, many_scales = count(I::kScale) != 1;
    x_signed = args.inputs[I::kA]->dtype == DataType::I8, w_signed = args.inputs[I::kB]->dtype == DataType::I8;
    y = args.outputs[0]->dtype, channels_last = info.channels_last;
    residual = args.inputs[I::kResidual] ? args.inputs[I::kResidual]->dtype : DataType::Undefined;
    return {};
}

std::string IntegerConvInfo::attributes() const {
    auto text = to_string(window) + " group=" + std::to_string(group) + (channels_last ? " channels_last" : "");
    auto tail = result.attributes();
    return tail.empty() ? text : text + " " + tail;
}

Candidates candidates(IntegerConvInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("integer_conv:nvidia:nvrtc", cuda::integer_conv_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "integer_conv/integer_conv_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
