#pragma once
#include "conv/geometry.h"
#include "conv/named_kernel.h"
#include "conv/tile.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_CONV_KERNEL(FACTORY, ID) KernelResult FACTORY(ConvInfo const&, Request const&);
#include "conv/conv_kernels.inc"
#undef RG_CONV_KERNEL

/// Positions of the optional inputs of Conv and ConvTranspose; -1 where absent.
struct ConvOperands {
    int bias = -1, residual = -1, output;
    explicit ConvOperands(Epilogue const& epilogue) {
        int next = 2;
        if (epilogue.bias) bias = next++;
        if (epilogue.residual) residual = next++;
        output = next;
    }
};

/// Why the operands of a (transposed) convolution in so many groups cannot be multiplied as pairs of bf16, or nothing.
std::string why_not_rounded(bool may_round, int64_t group, Request const&);
/// Why the operands do not fit a convolution with this epilogue, or nothing: counts, ranks, and one dtype for all.
std::string conv_operand_mismatch(Epilogue const&, Request const&);
/// The same, and why this is no request for the CPU.
std::string conv_mismatch(Epilogue const&, Request const&);
/// The same, and why Winograd's algorithm is not for it: f32 in the blocks of its vectors, constant weights, not exact.
std::string winograd_mismatch(Epilogue const&, Request const&, Isa);
/// The same for a kernel of f32 whose X, or Y and residual, may be bf16 in blocks of 32 channels.
std::string rounded_conv_mismatch(Epilogue const&, Request const&);
using ConvGeometry = Result<Geometry, Rejection> (*)(Window const&, int64_t group, BindArgs const&);
/// Adds a kernel for X without elements to those that take tensors of bf16, each of which refuses it; for those of f32
/// the reference does it. Its outputs, which padding makes, are the epilogue of nothing.
void add_empty_conv(Candidates&, std::string id, Window const&, int64_t group, Epilogue const&, ConvGeometry,
                    Request const&);
/// Those that these tiles take so.
RoundedTensors rounded_tensors(TileIsa const&, Request const&);

}  // namespace refactor::kernel
