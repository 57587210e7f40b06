#pragma once
#include "kernel/ops/conv.h"

namespace refactor::kernel {

/// Convolutions one after the other, of which the tensors between need not exist as a whole. Inputs: X [N, C,
/// spatial…], then W and, if its epilogue has one, bias of every stage, then the residual of the last stage if its
/// epilogue has one (no other stage may). Layouts as in `ConvInfo`; pads are not symbolic. Output: that of the last
/// stage.
struct ConvChainInfo {
    static constexpr char const* kType = "ConvChain";
    std::vector<ConvInfo> stages;
    std::string attributes() const;
};
Candidates candidates(ConvChainInfo const&, Request const&);

/// Sizes of a convolution's output for X and W of these sizes; -1 where they follow from unknown (-1) ones.
Dims conv_output_dims(Window const&, Dims const& x, Dims const& w);

}  // namespace refactor::kernel
