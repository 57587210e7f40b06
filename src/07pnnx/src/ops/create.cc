#include "formula.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <cmath>

// Tensors that follow from sizes and numbers alone.

namespace refactor::pnnx {

namespace {

constexpr std::string_view kOptions = "| dtype layout device pin_memory memory_format requires_grad names";

/// The shape of a new tensor: `size`, or that of a tensor it is to be like.
Shape wanted_shape(Call& c) {
    if (c.has("size")) return c.sizes("size");
    return Call::shape(c.tensor("input"));
}

DataType wanted_type(Call& c, DataType natural) {
    return c.dtype("dtype", c.has("input") ? Call::type_of(c.tensor("input")) : natural);
}

void check_sizes(Shape const& shape) {
    for (auto const& size : shape)
        if (size.constant().value_or(0) < 0) refuse_invalid("the size ", *size.constant());
}

template <int kValue>
void build_filled(Call& c) {
    auto shape = wanted_shape(c);
    check_sizes(shape);
    c.set(c.filled(wanted_type(c, DataType::F32), kValue, std::move(shape)));
}

void build_full(Call& c) {
    auto value = c.item("fill_value");
    auto natural = Call::type_of(c.edge_of(value));
    auto shape = wanted_shape(c);
    check_sizes(shape);
    auto dtype = wanted_type(c, natural);
    c.set(c.expand(c.cast(c.edge_of(value, dtype), dtype), std::move(shape)));
}

/// The sizes of an integer range that stays symbolic, or of one of floats that is constant.
void build_arange(Call& c) {
    auto start = c.has("start") ? c.item("start") : Item{Scalar::of_int(0)}, end = c.item("end");
    auto step = c.has("step") ? c.item("step") : Item{Scalar::of_int(1)};
    auto as_scalar = [](Item const& item, std::string_view what) {
        if (auto* scalar = std::get_if<Scalar>(&item.value)) return *scalar;
        refuse_unsupported(what, " depends on data");
    };
    auto first = as_scalar(start, "start"), last = as_scalar(end, "end"), stride = as_scalar(step, "step");
    bool floats = first.is_float() || last.is_float() || stride.is_float();
    auto dtype = c.dtype("dtype", floats ? DataType::F32 : DataType::I64);
    if (stride.constant() == 0) refuse_invalid("step is 0");
    auto a = first.integer(), b = last.integer(), s = stride.integer();
    if (a && b && s) {
        auto number = s->constant();
        if (!number) refuse_unsupported("a step that is not constant");
        auto span = *b - *a;
        auto length = max(0, *number > 0 ? ceil_div(span, *number) : ceil_div(DimExpr(0) - span, -*number));
        c.set(c.cast(c.range(*a, *number, length), dtype));
        auto count = length.constant();
        bool known = count && *count <= static_cast<int64_t>(frontend::InferContext::kMaxValues) && is_integer(dtype);
        if (!known) return;
        std::vector<DimExpr> values;
        for (int64_t i = 0; i < *count; ++i) values.push_back(*a + DimExpr(i * *number));
        c.values(0) = std::move(values);
        return;
    }
    auto x = first.constant(), y = last.constant(), d = stride.constant();
    if (!x || !y || !d) refuse_unsupported("a range of floats that depends on sizes");
    auto count = std::ceil((*y - *x) / *d);
    if (!(std::abs(count) < 0x1p30)) refuse_invalid("the range would have ", count, " elements");
    auto* steps = c.cast(c.range(0, 1, std::max(static_cast<int64_t>(count), int64_t{0})), dtype);
    c.set(c.map({steps}, [&](Expression& e, auto const& v) {
        return e.binary(ExprOp::Add, e.binary(ExprOp::Mul, v[0], e.constant(dtype, *d)), e.constant(dtype, *x));
    }));
}

/// The first half counts from the start, the second one back from the end, as torch does.
void build_linspace(Call& c) {
    auto steps = c.integer("steps");
    auto start = c.number("start"), end = c.number("end");
    if (steps < 0 || steps > (1 << 30)) refuse_invalid("steps is ", steps);
    auto dtype = c.dtype("dtype", DataType::F32);
    if (!is_float(dtype)) refuse_unsupported("integers");
    auto step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
    auto* position = c.cast(c.range(0, 1, steps), dtype);
    c.set(c.map({position}, [&](Expression& e, auto const& v) {
        auto number = [&](double value) { return e.constant(dtype, value); };
        auto up = e.binary(ExprOp::Add, number(start), e.binary(ExprOp::Mul, v[0], number(step)));
        auto left = e.binary(ExprOp::Sub, number(static_cast<double>(steps - 1)), v[0]);
        auto down = e.binary(ExprOp::Sub, number(end), e.binary(ExprOp::Mul, left, number(step)));
        auto early = e.binary(ExprOp::Less, v[0], number(std::floor(static_cast<double>(steps) / 2)));
        return e.select(early, up, down);
    }));
}

void build_eye(Call& c) {
    auto n = c.size("n"), m = c.size("m", n);
    auto* rows = c.reshape(c.range(0, 1, n), {n, DimExpr(1)});
    c.set(c.cast(c.binary(ExprOp::Equal, rows, c.range(0, 1, m)), c.dtype("dtype", DataType::F32)));
}

}  // namespace

void define_create(Definitions& all) {
    static std::string const kSize = frontend::concat("size ", kOptions), kLike = frontend::concat("input ", kOptions),
                             kNew = frontend::concat("input size ", kOptions);
    all.push_back({"torch.zeros torch.empty aten::zeros aten::empty", kSize, build_filled<0>});
    all.push_back({"torch.ones aten::ones", kSize, build_filled<1>});
    all.push_back({"torch.zeros_like torch.empty_like aten::zeros_like aten::empty_like", kLike, build_filled<0>});
    all.push_back({"torch.ones_like aten::ones_like", kLike, build_filled<1>});
    all.push_back({"Tensor.new_zeros Tensor.new_empty aten::new_zeros aten::new_empty", kNew, build_filled<0>});
    all.push_back({"Tensor.new_ones aten::new_ones", kNew, build_filled<1>});
    all.push_back(
        {"torch.full aten::full", "size fill_value | dtype layout device pin_memory names requires_grad", build_full});
    all.push_back({"torch.full_like aten::full_like", "input fill_value | dtype layout device pin_memory memory_format",
                   build_full});
    all.push_back(
        {"Tensor.new_full aten::new_full", "input size fill_value | dtype layout device pin_memory", build_full});
    all.push_back({"torch.arange", "end | start step dtype layout device pin_memory", build_arange});
    all.push_back({"torch.linspace aten::linspace", "start end steps dtype layout device pin_memory", build_linspace});
    all.push_back({"torch.eye aten::eye", "n m | dtype layout device pin_memory", build_eye});
}

}  // namespace refactor::pnnx
