#include "ops/window.h"

#include <algorithm>
#include <numeric>

namespace refactor::onnx {

namespace {

// Beyond this nothing real is meant, and sums of a few such numbers cannot overflow.
constexpr int64_t kMost = int64_t{1} << 40;

Inferred<std::vector<int64_t>> list_of(NodeView const& n, std::string_view name, size_t length, int64_t fallback,
                                       int64_t least) {
    auto list = n.integers(name);
    if (!n.has(name)) list.assign(length, fallback);
    if (list.size() != length) return Err{invalid(name, " has ", list.size(), " entries, expected ", length)};
    for (auto value : list)
        if (value < least || value > kMost)
            return Err{invalid(name, " has the entry ", value, ", expected ", least, " to 2^40")};
    return list;
}

}  // namespace

void add_window_attributes(OperatorDef& def) {
    def.attributes.insert(def.attributes.end(), {{"auto_pad", AttributeKind::String},
                                                 {"dilations", AttributeKind::Ints},
                                                 {"pads", AttributeKind::Ints},
                                                 {"strides", AttributeKind::Ints}});
}

Inferred<std::vector<frontend::WindowAxis>> window_axes(NodeView const& n, std::vector<int64_t> const& kernel,
                                                        Shape const& input) {
    auto rank = kernel.size();
    RG_TRY(strides, list_of(n, "strides", rank, 1, 1));
    RG_TRY(dilations, list_of(n, "dilations", rank, 1, 1));
    auto mode = n.text("auto_pad", "NOTSET");
    bool upper = mode == "SAME_UPPER", same = upper || mode == "SAME_LOWER";
    if (!same && mode != "NOTSET" && mode != "VALID")
        return Err{invalid("auto_pad is \"", mode, "\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")};
    std::vector<int64_t> pads(2 * rank, 0);
    if (mode == "NOTSET") {
        RG_TRY(given, list_of(n, "pads", 2 * rank, 0, -kMost));
        pads = given;
    }
    std::vector<frontend::WindowAxis> axes;
    for (size_t i = 0; i < rank; ++i) {
        if (kernel[i] < 1 || kernel[i] > kMost)
            return Err{invalid("the window has the size ", kernel[i], " on spatial axis ", i)};
        if (kernel[i] > 1 && dilations[i] > kMost / kernel[i])
            return Err{invalid("a window of ", kernel[i], " with dilation ", dilations[i], " is too large")};
        frontend::WindowAxis axis{kernel[i], strides[i], dilations[i], pads[i], pads[i + rank]};
        if (pads[i] < 0 || pads[i + rank] < 0)
            return Err{unsupported("negative pads (", pads[i], ", ", pads[i + rank], ")")};
        if (same) frontend::same_pads(input[i + 2], axis, upper);
        axes.push_back(std::move(axis));
    }
    return axes;
}

LoweredWindow lower_window(std::vector<frontend::WindowAxis> const& axes) {
    LoweredWindow result;
    auto& window = result.window;
    std::vector<DimExpr> ends;
    bool constant = true;
    for (auto const& axis : axes) {
        window.strides.push_back(axis.stride), window.dilations.push_back(axis.dilation);
        constant = constant && axis.pad_begin.is_constant() && axis.pad_end.is_constant();
        window.pads_begin.push_back(axis.pad_begin.constant().value_or(0));
        window.pads_end.push_back(axis.pad_end.constant().value_or(0));
        result.params.push_back(axis.pad_begin), ends.push_back(axis.pad_end);
    }
    result.params.insert(result.params.end(), ends.begin(), ends.end());
    if (constant) result.params.clear();
    return result;
}

Shape channels_first(Shape shape) {
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
    return shape;
}

Shape channels_last(Shape shape) {
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    return shape;
}

LowerContext::Edge channels_first(LowerContext& c, LowerContext::Edge x) {
    std::vector<int64_t> axes(x->value.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::rotate(axes.begin() + 1, axes.end() - 1, axes.end());
    return c.transpose(x, axes);
}

LowerContext::Edge channels_last(LowerContext& c, LowerContext::Edge x) {
    std::vector<int64_t> axes(x->value.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    return c.transpose(x, axes);
}

}  // namespace refactor::onnx
