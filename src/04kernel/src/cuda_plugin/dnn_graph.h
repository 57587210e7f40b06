#pragma once
#include "cuda_plugin/dnn_library.h"
#include "kernel/device_dnn.h"

namespace refactor::cuda_plugin {

/// Numbers by which a graph's tensors are told apart: of operands their place in `RefactorDeviceDnn::run`.
inline constexpr int64_t kOutputTensor = 100, kFirstVirtualTensor = 200, kFirstNumber = 300;

/// A graph of operations, and which algorithms may compute it.
struct DnnGraph {
    std::vector<Descriptor> operations;
    std::vector<int64_t> operands;  ///< numbers of those that there are
    /// Numbers that are operands of their own, in host memory: the first is tensor `kFirstNumber`. Bits of an f32 or
    /// i32.
    std::vector<uint32_t> numbers{};
    std::vector<cudnnBackendNumericalNote_t> forbidden;
};

using Sizes = std::vector<int64_t>;

// What graphs are made of. All of it throws `DnnFailure`.

cudnnDataType_t type_of(int32_t dtype);
/// A tensor in memory, or one that exists in registers only; row-major unless `steps` says otherwise.
Descriptor tensor(int64_t number, Sizes const& sizes, cudnnDataType_t type, bool is_virtual = false, Sizes steps = {});
/// `y = function(x, b)`, or of x alone; `chooses`: where x is taken, else b.
Descriptor pointwise(Descriptor const& function, Descriptor const& x, Descriptor const* b, Descriptor const& y,
                     Descriptor const* chooses = nullptr);

DnnGraph graph_of(RefactorConvolution const&);
DnnGraph graph_of(RefactorAttention const&);

}  // namespace refactor::cuda_plugin
