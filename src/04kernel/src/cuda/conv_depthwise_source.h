#pragma once
#include "kernel/epilogue.h"
#include "kernel/kernel.h"

#include <string>

namespace refactor::kernel::cuda {

/// Threads of a block of `depthwise_source`.
inline constexpr int kDepthwiseThreads = 128;

/// What the code of a depthwise convolution depends on.
struct DepthwiseKind {
    DataType dtype = DataType::F32;
    Epilogue epilogue;
    bool constant = false;   ///< W and the bias are, so that they may be read before what earlier launches write
    bool wide = false;       ///< indices need 64 bits
    int rows = 1, taps = 1;  ///< of the window: along the last axis but one, and along the last
    int vector = 1;          ///< channels of a thread
    int lanes = 1;           ///< neighbouring threads with the same outputs of other channels
    int outputs = 1;         ///< of a thread, neighbours along the last axis; several only without a dilation there
    int step = 1;  ///< between what neighbouring outputs read, the stride of the last axis if outputs are several
    int run = 1;   ///< weights that are read at a time

    /// Strips of outputs of a block.
    int places() const { return kDepthwiseThreads / lanes; }
    /// Inputs along the last axis that a thread reads.
    int columns() const { return (outputs - 1) * step + taps; }
    /// 32-bit registers for a row of them.
    int row_registers() const;
    /// Rows of them that are under way while others are multiplied.
    int ahead() const;
    std::string key() const;
};

/// `rg_depthwise`: X [N, rows, columns, C] by W [C, rows, taps] to Y like X. A thread has `vector` channels of a strip
/// of outputs, what its window covers is read once, a row at a time, and a block keeps the weights of its channels in
/// shared memory. Source: ONNX Conv-11.
std::string depthwise_source(DepthwiseKind const&);

}  // namespace refactor::kernel::cuda
