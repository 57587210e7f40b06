#include "computation/operator.h"
#include "kernel/ops/vision.h"
#include "operator_def.h"

// Pooling of regions of interest: RoiAlign, MaxRoiPool.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

constexpr int64_t kMostBins = int64_t{1} << 20;

Status check_bins(int64_t rows, int64_t columns) {
    if (rows >= 1 && columns >= 1 && rows <= kMostBins && columns <= kMostBins) return std::nullopt;
    return invalid("the output would have ", rows, " by ", columns, " bins, expected 1 to 2^20 each");
}

Inferred<kernel::RoiAlignInfo> align_options(NodeView const& n) {
    kernel::RoiAlignInfo info;
    auto mode = n.text("mode", "avg");
    if (mode != "avg" && mode != "max") return Err{invalid("mode is \"", mode, "\", expected \"avg\" or \"max\"")};
    // Before opset 16 there was but one way to place the samples.
    auto place = n.text("coordinate_transformation_mode", n.opset < 16 ? "output_half_pixel" : "half_pixel");
    if (place != "half_pixel" && place != "output_half_pixel")
        return Err{invalid("coordinate_transformation_mode is \"", place,
                           "\", expected \"half_pixel\" or \"output_half_pixel\"")};
    info.maximum = mode == "max", info.half_pixel = place == "half_pixel";
    info.sampling_ratio = n.integer("sampling_ratio", 0), info.spatial_scale = n.number("spatial_scale", 1);
    if (info.sampling_ratio < 0 || info.sampling_ratio > 4096)
        return Err{invalid("sampling_ratio is ", info.sampling_ratio, ", expected 0 to 4096")};
    return info;
}

Status infer_roi_align(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(options, align_options(n));
    auto rows = n.integer("output_height", 1), columns = n.integer("output_width", 1);
    RG_CHECK_STATUS(check_bins(rows, columns));
    RG_CHECK_STATUS(expect_rank(c.input(0), 4, 4));
    RG_CHECK_STATUS(expect_rank(c.input(1), 2, 2));
    RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
    RG_CHECK_STATUS(c.expect_equal(c.shape(1)[1], 4, "the number of coordinates of a region"));
    RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], c.shape(1)[0], "the number of batch indices"));
    return c.set(0, c.dtype(0), {c.shape(1)[0], c.shape(0)[1], rows, columns});
}

Status lower_roi_align(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(options, align_options(n));
    c.emit_output(computation::make_operator(options), {c.edge(0), c.edge(1), c.edge(2)});
    return std::nullopt;
}

Status infer_max_roi_pool(InferContext& c, NodeView const& n) {
    auto bins = n.integers("pooled_shape");
    if (bins.size() != 2) return invalid("pooled_shape has ", bins.size(), " entries, expected 2");
    RG_CHECK_STATUS(check_bins(bins[0], bins[1]));
    RG_CHECK_STATUS(expect_rank(c.input(0), 4, 4));
    RG_CHECK_STATUS(expect_rank(c.input(1), 2, 2));
    RG_CHECK_STATUS(c.expect_equal(c.shape(1)[1], 5, "the number of values of a region"));
    return c.set(0, c.dtype(0), {c.shape(1)[0], c.shape(0)[1], bins[0], bins[1]});
}

Status lower_max_roi_pool(LowerContext& c, NodeView const& n) {
    c.emit_output(computation::make_operator(kernel::MaxRoiPoolInfo{n.number("spatial_scale", 1)}),
                  {c.edge(0), c.edge(1)});
    return std::nullopt;
}

}  // namespace

void define_roi(Definitions& all) {
    using K = AttributeKind;
    OperatorDef align{.name = "RoiAlign",
                      .since = 10,
                      .inputs = {3, 3},
                      .types = {{kFloats, 'T'}, {kFloats, 'T'}, {kI64}},
                      .attributes = {{"mode", K::String},
                                     {"output_height", K::Int},
                                     {"output_width", K::Int},
                                     {"sampling_ratio", K::Int},
                                     {"spatial_scale", K::Float}},
                      .infer = infer_roi_align,
                      .lower = lower_roi_align};
    all.push_back(align);
    align.since = 16, align.attributes.push_back({"coordinate_transformation_mode", K::String});
    all.push_back(std::move(align));
    all.push_back({.name = "MaxRoiPool",
                   .inputs = {2, 2},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"pooled_shape", K::Ints, true}, {"spatial_scale", K::Float}},
                   .infer = infer_max_roi_pool,
                   .lower = lower_max_roi_pool});
}

}  // namespace refactor::onnx
