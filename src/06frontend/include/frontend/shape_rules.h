#pragma once
#include "frontend/tensor.h"
#include "kernel/program.h"

/// Shape rules that operators of all frameworks share, on symbolic sizes. `symbols` is for messages only.
namespace refactor::frontend {

/// Numpy broadcast of any number of shapes.
Inferred<Shape> broadcast_shapes(std::vector<Shape> const& shapes, SymbolTable const& symbols);

/// `axis` counted from the front, for a tensor of `rank` axes; an error naming the range if it is not in [-rank, rank).
Inferred<size_t> normalize_axis(int64_t axis, size_t rank);
/// The same for a list, sorted; every axis at most once.
Inferred<std::vector<size_t>> normalize_axes(std::vector<int64_t> const& axes, size_t rank);

/// Sizes of a tensor of sizes `input` under the target `sizes`: -1 once (the rest), 0 copies the input's size unless
/// `allow_zero`. Source: ONNX Reshape-14.
Inferred<Shape> reshape_rule(Shape const& input, std::vector<DimExpr> const& sizes, bool allow_zero,
                             SymbolTable const& symbols);

struct SliceRange {
    DimExpr start, size;
    std::vector<kernel::SizeCondition> conditions;  ///< where it holds
};
/// Bounds as numpy clamps them; negative ones count from the end. A symbolic bound that is negative, or is not, as soon
/// as no symbol is 0 is taken as that: `conditions` refuse the sizes for which another part would have been meant.
/// Source: ONNX Slice-13.
Inferred<SliceRange> slice_rule(DimExpr const& size, DimExpr const& start, DimExpr const& end, int64_t step);

/// One axis of a sliding window.
struct WindowAxis {
    int64_t kernel = 1, stride = 1, dilation = 1;
    DimExpr pad_begin, pad_end;

    /// Elements from the first to the last that the window covers.
    int64_t extent() const { return (kernel - 1) * dilation + 1; }
};
/// Number of positions of the window; `ceil_mode`: one that starts inside the input or its left pad may hang over the
/// end.
Inferred<DimExpr> window_rule(DimExpr const& size, WindowAxis const& axis, bool ceil_mode, SymbolTable const& symbols);
/// Sets the pads so that the output has ceil(size / stride) positions; an odd rest goes to the end (`upper`) or the
/// beginning.
void same_pads(DimExpr const& size, WindowAxis& axis, bool upper);

/// Refuses two sizes that are different constants.
Status expect_equal(DimExpr const& actual, DimExpr const& expected, std::string_view what, SymbolTable const& symbols);
/// Refuses a tensor whose rank is not within [least, most].
Status expect_rank(Tensor const& tensor, size_t least, size_t most);

/// Shape without `axes`, or with size 1 there.
Shape without_axes(Shape const& shape, std::vector<size_t> const& axes, bool keep);

}  // namespace refactor::frontend
