#include "conv/conv.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string ConvInfo::attributes() const {
    auto text = to_string(window) + " group=" + std::to_string(group);
    auto tail = to_string(epilogue);
    if (channels_last) text += " channels_last";
    if (may_round) text += " bf16";
    return tail.empty() ? text : text + " " + tail;
}

std::string conv_mismatch(Epilogue const& epilogue, Request const& request) {
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    return conv_operand_mismatch(epilogue, request);
}

std::string rounded_conv_mismatch(Epilogue const& epilogue, Request const& request) {
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end()),
        outputs(request.outputs.begin(), request.outputs.end());
    for (auto* operands : {&inputs, &outputs})
        for (auto& operand : *operands)
            if (operand.layout == Layout::Blocked32 && operand.dtype == DataType::BF16) operand.dtype = DataType::F32;
    auto as_f32 = request;
    as_f32.inputs = inputs, as_f32.outputs = outputs;
    auto reason = conv_mismatch(epilogue, as_f32);
    if (!reason.empty()) return reason;
    if (inputs[0].dtype != DataType::F32) return "handles f32, got " + std::string(name_of(inputs[0].dtype));
    auto residual = ConvOperands(epilogue).residual;
    bool alike = residual < 0 || (inputs[static_cast<size_t>(residual)].layout == Layout::Blocked32) ==
                                     (outputs[0].layout == Layout::Blocked32);
    return alike ? "" : "expects the residual in the layout of Y";
}

RoundedTensors rounded_tensors(TileIsa const& isa, Request const& request) {
    auto rounded = [&](TensorDesc const& t) { return isa.rounded_band && t.layout == Layout::Blocked32; };
    return {rounded(request.inputs[0]), rounded(request.outputs[0])};
}

std::string conv_operand_mismatch(Epilogue const& epilogue, Request const& request) {
    auto wanted = static_cast<size_t>(ConvOperands(epilogue).output);
    if (request.inputs.size() != wanted || request.outputs.size() != 1)
        return "expects " + std::to_string(wanted) + " inputs and 1 output, got " +
               std::to_string(request.inputs.size()) + " and " + std::to_string(request.outputs.size());
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dims.size() < 3 || x.dims.size() > 5)
        return "handles 1 to 3 spatial axes, X has " + std::to_string(static_cast<int64_t>(x.dims.size()) - 2);
    for (auto const& operand : request.inputs)
        if (operand.dtype != x.dtype)
            return "expects one type for all operands, got " + std::string(name_of(operand.dtype)) + " and " +
                   std::string(name_of(x.dtype));
    if (y.dtype != x.dtype)
        return "expects Y to be " + std::string(name_of(x.dtype)) + ", got " + std::string(name_of(y.dtype));
    if (request.inputs[1].layout != Layout::Plain) return "expects W in the Plain layout";
    return {};
}

Candidates candidates(ConvInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("conv:nvidia:depthwise", cuda::conv_depthwise(info, request));
        for (int rank = 0; rank < cuda::kLibraryRanks; ++rank)
            result.add("conv:nvidia:cudnn", cuda::conv_cudnn(info, request, rank));
        result.add("conv:nvidia:implicit_product", cuda::conv_implicit_product(info, request));
        result.add("conv:nvidia:direct", cuda::conv_direct(info, request));
        return result;
    }
    if (info.channels_last) {
        result.rejections.push_back({"conv:cpu: the channels are in front on the CPU"});
        return result;
    }
#define RG_CONV_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "conv/conv_kernels.inc"
#undef RG_CONV_KERNEL
    add_empty_conv(result, "conv:cpu:empty:bf16", info.window, info.group, info.epilogue, conv_geometry, request);
    return result;
}

}  // namespace refactor::kernel
