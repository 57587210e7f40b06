#pragma once
#include "cuda_plugin/dnn_graph.h"

#include <memory>
#include <mutex>

namespace refactor::cuda_plugin {

/// A plan as it is run.
struct DnnPlan {
    Descriptor plan;
    std::vector<int64_t> operands;
    std::vector<uint32_t> numbers;
    size_t workspace_bytes;
    /// cuDNN does not promise that threads may execute one plan at a time. Source: pytorch/pytorch#103939.
    std::unique_ptr<std::mutex> executing = std::make_unique<std::mutex>();
};

/// Where plans are to run: a device that is there, or one that is described.
struct Target {
    cudnnHandle_t handle = nullptr;
    Descriptor const* properties = nullptr;
    std::string architecture;  ///< "sm_90"
    std::string device;        ///< all that plans may depend on
};

/// The `rank`-th plan that can be finished. What the library made of a graph, compiled code included, is kept on disk
/// (`CodeCache`) and taken from there the next time. Throws `DnnFailure`.
DnnPlan plan_of(DnnGraph graph, int32_t rank, Target const& target);

}  // namespace refactor::cuda_plugin
