#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv_chain.h"

namespace refactor::kernel {

#define RG_CONV_CHAIN_KERNEL(FACTORY, ID) KernelResult FACTORY(ConvChainInfo const&, Request const&);
#include "conv_chain/conv_chain_kernels.inc"
#undef RG_CONV_CHAIN_KERNEL

/// Positions of the operands of a ConvChain; -1 where absent.
struct ChainOperands {
    struct Stage {
        int weights = 0, bias = -1;
    };
    SmallVector<Stage, 4> stages;
    int residual = -1, output;

    explicit ChainOperands(ConvChainInfo const& info) {
        int next = 1;
        for (auto const& stage : info.stages) {
            Stage operands{next++};
            if (stage.epilogue.bias) operands.bias = next++;
            stages.push_back(operands);
        }
        if (!info.stages.empty() && info.stages.back().epilogue.residual) residual = next++;
        output = next;
    }
};

/// Why the operands do not fit the chain, or nothing.
std::string conv_chain_mismatch(ConvChainInfo const&, Request const&);

}  // namespace refactor::kernel
