#pragma once
#include "cuda_plugin/dnn_library.h"
#include "kernel/device_dnn.h"

namespace refactor::cuda_plugin {

/// Numbers by which a graph's tensors are told apart: of operands their place in `RefactorDeviceDnn::run`.
inline constexpr int64_t kOutputTensor = 100, kFirstVirtualTensor = 200, kScaleTensor = 300;

/// A graph of operations, and which algorithms may compute it.
struct DnnGraph {
    std::vector<Descriptor> operations;
    std::vector<int64_t> operands;  ///< numbers of those that there are
    bool scaled = false;            ///< `scale` is an operand, in host memory
    float scale = 1;
    std::vector<cudnnBackendNumericalNote_t> forbidden;
};

/// Throw `DnnFailure`.
DnnGraph graph_of(RefactorConvolution const&);
DnnGraph graph_of(RefactorAttention const&);

}  // namespace refactor::cuda_plugin
