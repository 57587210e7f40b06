#include "computation/operator.h"
#include "kernel/ops/vision.h"
#include "ops/window.h"

namespace refactor::onnx {

namespace {

struct Picture {
    std::vector<DimExpr> sizes;
    std::vector<int64_t> block;
    std::vector<frontend::WindowAxis> axes;
};

Inferred<Picture> picture_of(InferContext& c, NodeView const& n) {
    if (auto failure = frontend::expect_rank(c.input(0), 3, 3)) return Err{*failure};
    for (size_t i = 1; i < 3; ++i)
        if (auto failure = frontend::expect_rank(c.input(i), 1, 1)) return Err{*failure};
    RG_TRY(sizes, c.values(1, "image_shape"));
    RG_TRY(block, c.integers(2, "block_shape"));
    if (sizes.empty() || sizes.size() != block.size())
        return Err{invalid("image_shape and block_shape have ", sizes.size(), " and ", block.size(),
                           " entries, expected equal numbers")};
    if (sizes.size() > 3) return Err{unsupported("pictures of ", sizes.size(), " axes")};
    for (auto const& size : sizes)
        if (size.constant().value_or(1) < 1) return Err{invalid("image_shape has the entry ", *size.constant())};
    Shape image{c.shape(0)[0], DimExpr(1)};
    image.insert(image.end(), sizes.begin(), sizes.end());
    RG_TRY(axes, window_axes(n, block, image));
    return Picture{sizes, block, axes};
}

Status infer_col2im(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(picture, picture_of(c, n));
    int64_t taps = 1;
    for (auto size : picture.block)
        if (__builtin_mul_overflow(taps, size, &taps)) return invalid("the block is too large");
    auto const& x = c.shape(0);
    if (auto rows = x[1].constant(); rows && *rows % taps)
        return invalid("axis 1 has the size ", *rows, ", expected a multiple of the ", taps, " elements of a block");
    DimExpr places = 1;
    for (size_t i = 0; i < picture.axes.size(); ++i) {
        RG_TRY_STATUS(count, frontend::window_rule(picture.sizes[i], picture.axes[i], false, c.symbols()));
        places = places * count;
    }
    RG_CHECK_STATUS(c.expect_equal(x[2], places, "the number of blocks"));
    Shape y{x[0], floor_div(x[1], taps)};
    y.insert(y.end(), picture.sizes.begin(), picture.sizes.end());
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_col2im(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(picture, picture_of(view, n));
    kernel::Col2ImInfo info;
    info.kernel.assign(picture.block.begin(), picture.block.end());
    info.window = lower_window(picture.axes).window;
    c.emit_output(computation::make_operator(std::move(info)), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_col2im(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Col2Im",
                   .since = 18,
                   .inputs = {3, 3},
                   .types = {{kNumbers}, {kI64}},
                   .attributes = {{"dilations", K::Ints}, {"pads", K::Ints}, {"strides", K::Ints}},
                   .infer = infer_col2im,
                   .lower = lower_col2im});
}

}  // namespace refactor::onnx
