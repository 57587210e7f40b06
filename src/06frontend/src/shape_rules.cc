#include "frontend/shape_rules.h"

#include <algorithm>

namespace refactor::frontend {

namespace {

/// `min(low, other)` is `low` or at most as large as `other`: against a constant or an atom the broadcast can only be
/// `other`. If sizes are equal or one, `broadcast(S, min(S, 512))` is `S`.
bool is_min_with(DimExpr const& a, DimExpr const& b) { return min(a, b) == a && !a.is_constant(); }

std::optional<DimExpr> broadcast_sizes(DimExpr const& a, DimExpr const& b) {
    if (a == b) return a;
    if (!a.is_constant() && !b.is_constant()) {
        if (is_min_with(a, b)) return b;
        if (is_min_with(b, a)) return a;
    }
    return broadcast(a, b);
}

}  // namespace

Inferred<Shape> broadcast_shapes(std::vector<Shape> const& shapes, SymbolTable const& symbols) {
    size_t rank = 0;
    for (auto const& shape : shapes) rank = std::max(rank, shape.size());
    Shape result(rank, DimExpr(1));
    for (auto const& shape : shapes) {
        for (size_t i = 0; i < shape.size(); ++i) {
            auto& size = result[rank - shape.size() + i];
            auto common = broadcast_sizes(size, shape[i]);
            if (!common) {
                std::string text;
                for (auto const& s : shapes) text += (text.empty() ? "" : " and ") + to_string(s, symbols);
                return Err{invalid("the shapes ", text, " cannot be broadcast: ", size.to_string(symbols), " and ",
                                   shape[i].to_string(symbols), " differ")};
            }
            size = std::move(*common);
        }
    }
    return result;
}

Inferred<size_t> normalize_axis(int64_t axis, size_t rank) {
    auto n = static_cast<int64_t>(rank);
    if (axis < -n || axis >= n)
        return Err{invalid("axis ", axis, " is out of range for a tensor with ", rank, rank == 1 ? " axis" : " axes")};
    return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

Inferred<std::vector<size_t>> normalize_axes(std::vector<int64_t> const& axes, size_t rank) {
    std::vector<size_t> result;
    for (auto axis : axes) {
        RG_TRY(normal, normalize_axis(axis, rank));
        result.push_back(normal);
    }
    std::sort(result.begin(), result.end());
    if (auto twice = std::adjacent_find(result.begin(), result.end()); twice != result.end())
        return Err{invalid("axis ", *twice, " is listed twice")};
    return result;
}

Inferred<Shape> reshape_rule(Shape const& input, std::vector<DimExpr> const& sizes, bool allow_zero,
                             SymbolTable const& symbols) {
    Shape result;
    std::optional<size_t> rest;
    bool explicit_zero = false;
    for (size_t i = 0; i < sizes.size(); ++i) {
        auto number = sizes[i].constant();
        if (number && *number < -1)
            return Err{invalid("size ", *number, " at position ", i, " of the target shape is not allowed")};
        if (number == -1) {
            if (rest) return Err{invalid("the target shape has more than one -1")};
            rest = i;
            result.emplace_back(1);
        } else if (number == 0 && !allow_zero) {
            if (i >= input.size())
                return Err{invalid("the target shape copies size ", i, ", but the input has ", input.size(), " axes")};
            result.push_back(input[i]);
        } else {
            explicit_zero |= number == 0;
            result.push_back(sizes[i]);
        }
    }
    if (rest && explicit_zero) return Err{invalid("the target shape has both 0 (allowzero) and -1")};
    auto have = element_count(input), want = element_count(result);
    auto n = have.constant(), m = want.constant();
    auto mismatch = [&] {
        return Err{invalid("the shape ", to_string(input, symbols), " cannot become ", to_string(sizes, symbols))};
    };
    if (!rest) {
        if (n && m && *n != *m) return mismatch();
        return result;
    }
    if (n && m && (*m == 0 ? *n != 0 : *n % *m != 0)) return mismatch();
    result[*rest] = m == 0 ? DimExpr(0) : floor_div(have, want);
    return result;
}

namespace {

/// Bounds beyond any size stand for "to the end".
constexpr int64_t kEndless = int64_t{1} << 40;

/// The bounds of a slice, counted from the front, without the clamp.
struct Bounds {
    DimExpr const& size;
    std::vector<kernel::SizeCondition>& conditions;
    DimExpr beyond;  ///< up to -(size + beyond) a bound is in front of all elements, however it is counted

    DimExpr from_front(DimExpr const& bound, char const* what) {
        if (auto number = bound.constant()) return *number < 0 ? size + DimExpr(std::max(*number, -kEndless)) : bound;
        auto from_end = DimExpr(0) - bound;
        if (bound.lower_bound().value_or(-1) >= 0) return bound;
        if (from_end.lower_bound().value_or(0) >= 1) return size + bound;
        if (from_end.lower_bound_if_positive().value_or(0) >= 1) {
            expect(what, bound, min(bound, DimExpr(0) - min(size, 1)));
            return size + bound;
        }
        if (bound.lower_bound_if_positive().value_or(-1) >= 0) {
            expect(what, bound, bound + max(from_end, 0) * min(1, max(size + bound + beyond, 0)));
            return bound;
        }
        return bound + size * min(1, max(from_end, 0));
    }

private:
    void expect(char const* what, DimExpr const& actual, DimExpr const& expected) {
        if (!(actual == expected)) conditions.push_back({{}, what, actual, expected});
    }
};

DimExpr clamp(DimExpr const& bound, DimExpr const& low, DimExpr const& high) {
    if (auto number = bound.constant(); number && *number >= kEndless) return high;
    if (auto number = bound.constant(); number && *number <= -kEndless) return low;
    return max(low, min(bound, high));
}

}  // namespace

Inferred<SliceRange> slice_rule(DimExpr const& size, DimExpr const& start, DimExpr const& end, int64_t step) {
    if (step == 0) return Err{invalid("a step of 0")};
    step = std::clamp(step, -kEndless, kEndless);
    SliceRange range;
    Bounds bounds{size, range.conditions, step > 0 ? 0 : 1};
    auto first = bounds.from_front(start, "the start"), last = bounds.from_front(end, "the end");
    if (step > 0) {
        first = clamp(first, 0, size), last = clamp(last, 0, size);
        auto length = last - first;
        // A tail of constant length: size - max(0, size - k) is min(size, k).
        if (auto k = start.constant(); k && *k < 0 && *k > -kEndless && last == size) length = min(size, -*k);
        range.start = first, range.size = step == 1 ? max(length, 0) : max(ceil_div(length, step), 0);
        return range;
    }
    // From the end, -1 is the last element; before the first there is only "far negative".
    auto top = size - 1;
    first = clamp(first, -1, top), last = clamp(last, -1, top);
    range.start = max(first, 0), range.size = max(ceil_div(first - last, -step), 0);
    return range;
}

Inferred<DimExpr> window_rule(DimExpr const& size, WindowAxis const& axis, bool ceil_mode, SymbolTable const& symbols) {
    auto padded = size + axis.pad_begin + axis.pad_end;
    auto span = padded - axis.extent();
    auto positions = (ceil_mode ? ceil_div(span, axis.stride) : floor_div(span, axis.stride)) + 1;
    if (auto number = positions.constant(); number && *number < 1 && size != DimExpr(0))
        return Err{invalid("a window of ", axis.extent(), " does not fit into ", padded.to_string(symbols),
                           " elements (", size.to_string(symbols), " and pads)")};
    if (ceil_mode && axis.stride > 1) {
        // A window that would start in the right pad is dropped.
        auto starts_inside = floor_div(size + axis.pad_begin - 1, axis.stride) + 1;
        positions = min(positions, starts_inside);
    }
    if (size.is_constant() && positions.is_constant()) return max(positions, 0);
    return positions;
}

void same_pads(DimExpr const& size, WindowAxis& axis, bool upper) {
    auto total = max(0, (ceil_div(size, axis.stride) - 1) * axis.stride + axis.extent() - size);
    auto half = floor_div(total, 2);
    axis.pad_begin = upper ? half : total - half;
    axis.pad_end = upper ? total - half : half;
}

Status expect_equal(DimExpr const& actual, DimExpr const& expected, std::string_view what, SymbolTable const& symbols) {
    auto a = actual.constant(), b = expected.constant();
    if (!a || !b || *a == *b) return std::nullopt;
    return invalid(what, " is ", actual.to_string(symbols), ", expected ", expected.to_string(symbols));
}

Status expect_rank(Tensor const& tensor, size_t least, size_t most) {
    auto rank = tensor.rank();
    if (rank >= least && rank <= most) return std::nullopt;
    if (least == most) return invalid("\"", tensor.name, "\" has ", rank, " axes, expected ", least);
    if (most >= 64) return invalid("\"", tensor.name, "\" has ", rank, " axes, expected at least ", least);
    return invalid("\"", tensor.name, "\" has ", rank, " axes, expected ", least, " to ", most);
}

Shape without_axes(Shape const& shape, std::vector<size_t> const& axes, bool keep) {
    Shape result;
    for (size_t i = 0; i < shape.size(); ++i) {
        bool removed = std::find(axes.begin(), axes.end(), i) != axes.end();
        if (!removed)
            result.push_back(shape[i]);
        else if (keep)
            result.emplace_back(1);
    }
    return result;
}

}  // namespace refactor::frontend
