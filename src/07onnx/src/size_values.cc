#include "size_values.h"

#include <algorithm>
#include <utility>

namespace refactor::onnx {

namespace {

using Operands = std::span<DimExpr const>;
using Element = std::optional<DimExpr>;

bool never_negative(DimExpr const& x) {
    auto low = x.lower_bound();
    return low && *low >= 0;
}

bool is_positive(DimExpr const& x) {
    auto low = x.lower_bound();
    return low && *low > 0;
}

bool may_change_sign(DimExpr const& x) { return !never_negative(x) && !never_negative(DimExpr(0) - x); }

/// a < b, if that is known.
std::optional<bool> less(DimExpr const& a, DimExpr const& b) {
    if (is_positive(b - a)) return true;
    if (never_negative(a - b)) return false;
    return std::nullopt;
}

Element truth(std::optional<bool> value) {
    if (!value) return std::nullopt;
    return DimExpr(*value ? 1 : 0);
}

Element divide(Operands x, bool is_float) {
    if (is_float) {
        if (mod(x[0], x[1]) == DimExpr(0) && x[1] != DimExpr(0)) return floor_div(x[0], x[1]);
        return std::nullopt;
    }
    // Integer division truncates: the same as rounding down where nothing is negative.
    if (x[1] == DimExpr(0) || !never_negative(x[1])) return std::nullopt;
    if (auto negative = DimExpr(0) - x[0]; never_negative(negative)) return DimExpr(0) - floor_div(negative, x[1]);
    if (!x[0].lower_bound()) return std::nullopt;
    return floor_div(x[0], x[1]);
}

/// The sign is that of the divisor.
Element modulo(Operands x, bool) {
    if (x[1] == DimExpr(0)) return std::nullopt;
    return mod(x[0], x[1]);
}

/// The sign is that of the dividend.
Element remainder(Operands x, bool is_float) {
    if (!never_negative(x[0]) || !never_negative(x[1])) return std::nullopt;
    return modulo(x, is_float);
}

template <bool kMin>
Element extremum(Operands x, bool) {
    auto result = x[0];
    for (auto const& operand : x.subspan(1)) result = kMin ? min(result, operand) : max(result, operand);
    return result;
}

Element sum(Operands x, bool) {
    auto result = x[0];
    for (auto const& operand : x.subspan(1)) result = result + operand;
    return result;
}

Element equal(Operands x, bool) {
    if (x[0] == x[1]) return DimExpr(1);
    auto a = less(x[0], x[1]), b = less(x[1], x[0]);
    if (a == true || b == true) return DimExpr(0);
    return std::nullopt;
}

Element where(Operands x, bool) {
    auto condition = x[0].constant();
    if (!condition) return x[1] == x[2] ? Element(x[1]) : std::nullopt;
    return *condition ? x[1] : x[2];
}

Element absolute(Operands x, bool) {
    if (never_negative(x[0])) return x[0];
    return std::nullopt;
}

Element logical_not(Operands x, bool) {
    auto value = x[0].constant();
    return value ? Element(DimExpr(*value ? 0 : 1)) : std::nullopt;
}

Element same(Operands x, bool) { return x[0]; }

struct Rule {
    std::string_view name;
    ElementRule apply;
};
constexpr Rule kRules[]{
    {"Abs", absolute},
    {"Add", [](Operands x, bool) -> Element { return x[0] + x[1]; }},
    {"And", [](Operands x, bool) -> Element { return x[0] * x[1]; }},
    {"Ceil", same},
    {"Div", divide},
    {"Equal", equal},
    {"Floor", same},
    {"Greater", [](Operands x, bool) { return truth(less(x[1], x[0])); }},
    {"GreaterOrEqual", [](Operands x, bool) { return truth(less(x[1] - 1, x[0])); }},
    {"Less", [](Operands x, bool) { return truth(less(x[0], x[1])); }},
    {"LessOrEqual", [](Operands x, bool) { return truth(less(x[0] - 1, x[1])); }},
    {"Max", extremum<false>},
    {"Min", extremum<true>},
    {"Mod", modulo},
    {"Mul", [](Operands x, bool) -> Element { return x[0] * x[1]; }},
    {"Neg", [](Operands x, bool) -> Element { return DimExpr(0) - x[0]; }},
    {"Not", logical_not},
    {"Or", [](Operands x, bool) -> Element { return max(x[0], x[1]); }},
    {"Relu", [](Operands x, bool) -> Element { return max(x[0], 0); }},
    {"Round", same},
    {"Sub", [](Operands x, bool) -> Element { return x[0] - x[1]; }},
    {"Sum", sum},
    {"Where", where},
};

/// Position in a tensor of sizes `from` of element `index` of the broadcast shape `to` (both constant).
size_t source_index(size_t index, Dims const& from, Dims const& to) {
    size_t position = 0, stride = 1;
    for (size_t i = to.size(); i-- > 0;) {
        auto size = static_cast<size_t>(to[i]), at = index % size;
        index /= size;
        auto offset = to.size() - from.size();
        if (i < offset) continue;
        auto own = static_cast<size_t>(from[i - offset]);
        if (own != 1) position += at * stride;
        stride *= own;
    }
    return position;
}

std::optional<Dims> small_dims(Shape const& shape) {
    Dims dims;
    int64_t count = 1;
    for (auto const& size : shape) {
        auto number = size.constant();
        if (!number || *number > static_cast<int64_t>(InferContext::kMaxValues)) return std::nullopt;
        dims.push_back(*number);
        if ((count *= *number) > static_cast<int64_t>(InferContext::kMaxValues)) return std::nullopt;
    }
    return dims;
}

}  // namespace

std::optional<std::vector<DimExpr>> elementwise_values(InferContext& context, Shape const& output, ElementRule apply) {
    auto dims = small_dims(output);
    if (!apply || !dims) return std::nullopt;
    // Only where something is symbolic: what is constant throughout is computed by the kernels.
    bool symbolic = false;
    for (size_t i = 0; i < context.input_count(); ++i) {
        auto const& input = context.input(i);
        if (!input.constant && !input.values) return std::nullopt;
        symbolic |= !input.constant;
    }
    if (!symbolic) return std::nullopt;
    std::vector<std::vector<DimExpr>> operands;
    std::vector<Dims> shapes;
    for (size_t i = 0; i < context.input_count(); ++i) {
        auto values = context.known_values(i);
        auto shape = small_dims(context.shape(i));
        if (!values || !shape) return std::nullopt;
        operands.push_back(std::move(*values)), shapes.push_back(std::move(*shape));
    }
    std::vector<DimExpr> result(static_cast<size_t>(element_count(*dims))), element(operands.size());
    bool floats = is_float(context.dtype(context.input_count() - 1));
    std::vector<DimExpr> dividends;
    for (size_t i = 0; i < result.size(); ++i) {
        for (size_t k = 0; k < operands.size(); ++k) element[k] = operands[k][source_index(i, shapes[k], *dims)];
        auto value = apply(element, floats);
        if (!value) return std::nullopt;
        if (apply == divide && !floats && may_change_sign(element[0])) dividends.push_back(element[0]);
        result[i] = std::move(*value);
    }
    for (auto const& dividend : dividends) context.expect({"", "the dividend", dividend, max(dividend, 0)});
    return result;
}

std::optional<std::vector<DimExpr>> viewed_values(InferContext const& context, Shape const& output, Dims const& steps,
                                                  int64_t first) {
    if (context.input(0).constant) return std::nullopt;
    auto dims = small_dims(output);
    auto values = dims ? context.known_values(0) : std::nullopt;
    if (!values) return std::nullopt;
    std::vector<DimExpr> result;
    for (int64_t i = 0; i < element_count(*dims); ++i) {
        auto position = first, rest = i;
        for (size_t axis = dims->size(); axis-- > 0; rest /= (*dims)[axis])
            position += rest % (*dims)[axis] * steps[axis];
        result.push_back((*values)[static_cast<size_t>(position)]);
    }
    return result;
}

std::optional<Dims> row_major_steps(Shape const& shape) {
    auto steps = small_dims(shape);
    if (!steps) return std::nullopt;
    int64_t step = 1;
    for (size_t axis = steps->size(); axis-- > 0;) step *= std::exchange((*steps)[axis], step);
    return steps;
}

ElementRule element_rule(NodeView const& node) {
    std::string_view op_type = node.op_type;
    if (op_type == "Mod" && node.integer("fmod", 0)) return remainder;
    auto it = std::lower_bound(std::begin(kRules), std::end(kRules), op_type,
                               [](Rule const& rule, std::string_view name) { return rule.name < name; });
    return it != std::end(kRules) && it->name == op_type ? it->apply : nullptr;
}

}  // namespace refactor::onnx
