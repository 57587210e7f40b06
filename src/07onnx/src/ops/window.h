#pragma once
#include "kernel/ops/conv.h"
#include "operator_def.h"

/// What convolutions and poolings share: their windows.
namespace refactor::onnx {

/// Attributes of every windowed operator but `kernel_shape`.
void add_window_attributes(OperatorDef& def);

/// One entry per spatial axis, from `strides`, `dilations`, `pads` and `auto_pad` of a node; `kernel` are the sizes of
/// the window, `input` those of the data [N, C, spatial…]. Checks lengths and ranges.
Inferred<std::vector<frontend::WindowAxis>> window_axes(NodeView const& n, std::vector<int64_t> const& kernel,
                                                        Shape const& input);

/// The axes as kernels want them. Pads that are not constants become `params` (begins, then ends) and zeros in the
/// window.
struct LoweredWindow {
    kernel::Window window;
    std::vector<DimExpr> params;
};
LoweredWindow lower_window(std::vector<frontend::WindowAxis> const& axes);

/// [N, spatial…, C] to [N, C, spatial…] and back: sizes, and data.
Shape channels_first(Shape shape);
Shape channels_last(Shape shape);
LowerContext::Edge channels_first(LowerContext& c, LowerContext::Edge x);
LowerContext::Edge channels_last(LowerContext& c, LowerContext::Edge x);

/// Output sizes of a pooling of x [N, C, spatial…] with the attributes `kernel_shape` and `ceil_mode`, after checking
/// them.
Inferred<Shape> pooled_shape(InferContext& c, NodeView const& n, Shape const& x);

/// The window of a pooling; its kind is left to the caller.
struct LoweredPool {
    kernel::PoolInfo info;
    std::vector<DimExpr> params;
};
Inferred<LoweredPool> lower_pool_window(NodeView const& n, Shape const& x);

}  // namespace refactor::onnx
