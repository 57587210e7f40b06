#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <algorithm>

// Slices, and tensors with a slice replaced.

namespace refactor::pnnx {

namespace {

/// One step of a basic index: `x[begin:end:step]` on an axis, or one position of it.
struct Step {
    size_t axis = 0;
    std::optional<DimExpr> select;
    DimExpr start = 0, end = kEnd;
    int64_t step = 1;
};

/// Entry `i` of a list argument called `name` + "s", or the argument `name` itself.
std::optional<DimExpr> entry(Call& c, std::string const& name, size_t i) {
    auto plural = name + "s";
    if (c.has(name)) return c.size(name);
    if (!c.has(plural)) return std::nullopt;
    auto sizes = c.sizes(plural);
    if (i >= sizes.size()) refuse_invalid("the argument \"", plural, "\" has ", sizes.size(), " entries");
    return sizes[i];
}

/// pnnx merges slices of several axes; `selects` has 2^31 - 1 where an axis is sliced. `rank`: of the input.
std::vector<Step> steps_of(Call& c, size_t rank) {
    std::vector<int64_t> dims = c.has("dims") ? c.integers("dims") : std::vector<int64_t>{c.integer("dim", 0)};
    std::vector<Step> steps;
    for (size_t i = 0; i < dims.size(); ++i) {
        Step step;
        step.axis = c.axis(dims[i], rank);
        step.select = entry(c, "select", i);
        if (step.select == DimExpr(kEnd)) step.select.reset();
        step.start = entry(c, "start", i).value_or(0), step.end = entry(c, "end", i).value_or(kEnd);
        auto stride = entry(c, "step", i).value_or(1).constant();
        if (!stride) refuse_unsupported("a step that is not constant");
        step.step = step.select ? 1 : *stride;
        if (step.step < 1) refuse_invalid("a step of ", step.step, ", expected at least 1");
        steps.push_back(step);
    }
    return steps;
}

/// A position counted from the front.
DimExpr position(DimExpr const& index, DimExpr const& size) {
    auto number = index.constant(), limit = size.constant();
    if (number && limit && (*number < -*limit || *number >= *limit))
        refuse_invalid("index ", *number, " is out of range for size ", *limit);
    return number && *number < 0 ? size + index : index;
}

Edge select(Call& c, Edge x, size_t axis, DimExpr const& index) {
    auto at = position(index, Call::shape(x)[axis]);
    return c.squeeze(c.slice(x, axis, at, at + 1), axis);
}

void build_slice(Call& c) {
    auto* x = c.tensor("input");
    std::vector<size_t> gone;
    for (auto const& step : steps_of(c, Call::rank(x))) {
        if (!step.select) {
            x = c.slice(x, step.axis, step.start, step.end, step.step);
            continue;
        }
        auto at = position(*step.select, Call::shape(x)[step.axis]);
        x = c.slice(x, step.axis, at, at + 1);
        gone.push_back(step.axis);
    }
    c.set(c.reshape(x, frontend::without_axes(Call::shape(x), gone, false)));
}

void build_select(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    auto index = c.item("index");
    if (index.edge()) return c.set(c.gather(x, *index.edge(), axis));
    c.set(select(c, x, axis, c.size("index")));
    // An element of a list of sizes is a size.
    auto* term = c.argument("input");
    auto number = c.size("index").constant();
    if (!term->is(Term::Kind::Operand) || Call::rank(x) != 1 || !number) return;
    auto values = c.known_values(static_cast<size_t>(term->integer));
    bool symbolic = values && !c.operand(static_cast<size_t>(term->integer)).constant;
    if (!symbolic) return;
    auto at = *number < 0 ? *number + static_cast<int64_t>(values->size()) : *number;
    c.values(0) = {(*values)[static_cast<size_t>(at)]};
}

void build_narrow(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim"), Call::rank(x));
    auto start = position(c.size("start"), Call::shape(x)[axis]);
    c.set(c.slice(x, axis, start, start + c.size("length")));
}

/// `x` with `source` in the place of the part that `steps` from `at` on describe.
Edge replace(Call& c, Edge x, Edge source, std::vector<Step> const& steps, size_t at) {
    if (at == steps.size()) return c.expand(source, Call::shape(x));
    auto const& step = steps[at];
    auto size = Call::shape(x)[step.axis];
    DimExpr start = step.start, end = step.end;
    if (step.select) start = position(*step.select, size), end = start + 1;
    auto* part = c.slice(x, step.axis, start, end, step.step);
    auto* filled = replace(c, part, source, steps, at + 1);
    auto far = end == DimExpr(kEnd) ? DimExpr(INT64_MAX) : end;
    auto range = take(frontend::slice_rule(size, start, far, step.step));
    auto last = range.start + range.size * step.step;
    if (step.step == 1)
        return c.concat({c.slice(x, step.axis, 0, range.start), filled, c.slice(x, step.axis, last, size)}, step.axis);
    Shape along(Call::rank(x), DimExpr(1));
    along[step.axis] = range.size;
    auto* positions = c.reshape(c.range(range.start, step.step, range.size), along);
    kernel::ScatterInfo info;
    info.axis = static_cast<int64_t>(step.axis);
    return c.emit(info, {x, c.expand(positions, Call::shape(filled)), filled}, Call::type_of(x), Call::shape(x));
}

/// x[…] = source, as a new tensor.
void build_slice_copy(Call& c) {
    auto *x = c.tensor(c.has("self") ? "self" : "input"), *source = c.cast(c.tensor("src"), Call::type_of(x));
    auto steps = steps_of(c, Call::rank(x));
    // The source has no axis where one position was selected.
    std::vector<size_t> selected;
    for (auto const& step : steps)
        if (step.select) selected.push_back(step.axis);
    std::sort(selected.begin(), selected.end());
    auto shape = Call::shape(source);
    auto missing = static_cast<int64_t>(Call::rank(x)) - static_cast<int64_t>(shape.size() + selected.size());
    if (missing < 0) refuse_invalid("the source has more axes than the part it replaces");
    shape.insert(shape.begin(), static_cast<size_t>(missing), DimExpr(1));
    for (auto axis : selected) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), DimExpr(1));
    c.set(replace(c, x, c.reshape(source, shape), steps, 0));
}

}  // namespace

void define_slice(Definitions& all) {
    constexpr std::string_view kSlice = "input dim start end step | dims starts ends steps select selects";
    all.push_back({"Tensor.slice torch.slice aten::slice", kSlice, build_slice});
    all.push_back({"Tensor.select torch.select aten::select", "input dim index", build_select});
    all.push_back({"torch.narrow aten::narrow", "input dim start length", build_narrow});
    all.push_back({"Tensor.slice_copy torch.slice_scatter aten::slice_scatter",
                   "input src dim start end step | self dims starts ends steps select selects", build_slice_copy});
}

}  // namespace refactor::pnnx
