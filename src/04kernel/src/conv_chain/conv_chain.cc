#include "conv_chain/conv_chain.h"

#include "conv/conv.h"

namespace refactor::kernel {

std::string ConvChainInfo::attributes() const {
    std::string text;
    for (auto const& stage : stages) text += (text.empty() ? "" : " | ") + stage.attributes();
    return text;
}

Dims conv_output_dims(Window const& window, Dims const& x, Dims const& w) {
    Dims y{x[0], w[0]};
    for (size_t i = 0; i + 2 < x.size(); ++i) {
        auto reach = window.dilations[i] * (w[i + 2] - 1) + 1;
        auto padded = x[i + 2] + window.pads_begin[i] + window.pads_end[i];
        y.push_back(x[i + 2] < 0 ? -1 : padded < reach ? 0 : (padded - reach) / window.strides[i] + 1);
    }
    return y;
}

std::string conv_chain_mismatch(ConvChainInfo const& info, Request const& request) {
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    ChainOperands operands(info);
    auto wanted = static_cast<size_t>(operands.output);
    if (info.stages.empty()) return "expects at least one convolution";
    for (size_t i = 0; i + 1 < info.stages.size(); ++i)
        if (info.stages[i].epilogue.residual) return "takes a residual in the last stage only";
    if (request.inputs.size() != wanted || request.outputs.size() != 1)
        return "expects " + std::to_string(wanted) + " inputs and 1 output, got " +
               std::to_string(request.inputs.size()) + " and " + std::to_string(request.outputs.size());
    auto rank = request.inputs[0].dims.size();
    for (size_t i = 0; i < info.stages.size(); ++i) {
        auto const& stage = info.stages[i];
        auto const& w = request.inputs[static_cast<size_t>(operands.stages[i].weights)];
        for (auto const* sizes :
             {&stage.window.strides, &stage.window.dilations, &stage.window.pads_begin, &stage.window.pads_end})
            if (rank < 3 || w.dims.size() != rank || sizes->size() + 2 != rank)
                return "expects X, every W and every window to have the same 1 to 3 spatial axes";
    }
    return {};
}

Candidates candidates(ConvChainInfo const& info, Request const& request) {
    Candidates result;
#define RG_CONV_CHAIN_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "conv_chain/conv_chain_kernels.inc"
#undef RG_CONV_CHAIN_KERNEL
    return result;
}

}  // namespace refactor::kernel
