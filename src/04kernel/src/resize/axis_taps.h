#pragma once
#include "kernel/ops/movement.h"
#include "resize/resize_pass.h"

#include <optional>
#include <vector>

namespace refactor::kernel {

/// Which elements of one axis make up each element of the resampled axis: `taps` indices and weights for each output
/// coordinate. Indices are clamped to the axis; weights of what `exclude_outside` drops are zero. Source: ONNX
/// Resize-19 and its reference implementation.
struct AxisTaps {
    int64_t in = 0, out = 0, taps = 0;
    std::vector<int32_t> index;
    std::vector<float> weight;
    std::vector<int32_t> tap_index;  ///< `index` and `weight` as [taps][out]
    std::vector<float> tap_weight;
    std::vector<uint8_t> outside;  ///< tf_crop_and_resize: the coordinate lies outside; empty if none does

    /// Axis `axis` of `rank`.
    static AxisTaps make(ResizeInfo const& info, size_t axis, size_t rank, int64_t in, int64_t out);

    /// Coordinates [begin, end) of the output alone, with indices that count from the `first` element they use.
    AxisTaps part(int64_t begin, int64_t end, int64_t& first) const;

    void order_by_tap();  ///< `tap_index` and `tap_weight` from `index` and `weight`

    /// The loops' view of it, for elements of `inner` numbers.
    ResizePass pass(int64_t inner) const {
        return {in, out, inner, taps, index.data(), weight.data(), tap_index.data(), tap_weight.data()};
    }
};

/// The loops of what the request allows.
ResizeFunctions const& resize_functions_of(Isa isa);

/// Shapes that a Resize may have, or why not.
std::optional<Rejection> refuse_resize_shapes(ResizeInfo const& info, BindArgs const& args);

/// Taps of all axes, of tensors in blocks of channels those of [N, blocks, spatial…, block].
Result<std::vector<AxisTaps>, Rejection> axes_of(ResizeInfo const& info, BindArgs const& args);

}  // namespace refactor::kernel
