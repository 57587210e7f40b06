#include "formula.h"
#include "operator_def.h"

#include <cmath>

// Reductions and running sums.

namespace refactor::pnnx {

namespace {

/// The input as torch sums it: bool and integers in i64, or the type that is asked for.
Edge summand(Call& c, bool floats) {
    auto* x = c.tensor("input");
    auto natural = floats || is_float(Call::type_of(x)) ? Call::type_of(x) : DataType::I64;
    return c.cast(x, c.dtype("dtype", natural));
}

template <ReduceKind kKind>
void build_sum(Call& c) {
    auto* x = summand(c, kKind == ReduceKind::Mean || kKind == ReduceKind::LogSumExp);
    c.set(c.reduce(kKind, x, c.axes("dim", Call::rank(x)), c.flag("keepdim", false)));
}

/// amax and amin; max and min with a dim also give positions.
template <bool kMax>
void build_extremum(Call& c) {
    if (c.has("other")) {
        Formula f(c);
        return c.set(f.finish(f.apply(kMax ? "max" : "min", {f.of(c.tensor("input")), f.of(c.tensor("other"))})));
    }
    auto* x = c.tensor("input");
    bool keep = c.flag("keepdim", false);
    auto axes = c.axes("dim", Call::rank(x));
    c.set(c.reduce(kMax ? ReduceKind::Max : ReduceKind::Min, x, axes, keep));
    if (!c.wants(1) || axes.size() != 1) return;
    kernel::ArgReduceInfo info;
    info.min = !kMax, info.axis = static_cast<int64_t>(axes[0]);
    c.set(1, c.emit(info, {x}, DataType::I64, frontend::without_axes(Call::shape(x), axes, keep)));
}

template <bool kMax>
void build_arg(Call& c) {
    auto* x = c.tensor("input");
    bool keep = c.flag("keepdim", false), all = !c.has("dim");
    auto rank = Call::rank(x);
    kernel::ArgReduceInfo info;
    info.min = !kMax;
    if (all || rank == 0) {
        auto* flat = c.reshape(x, {element_count(Call::shape(x))});
        auto* y = c.emit(info, {flat}, DataType::I64, {});
        return c.set(keep ? c.reshape(y, Shape(rank, DimExpr(1))) : y);
    }
    auto axis = c.axis(c.integer("dim"), rank);
    info.axis = static_cast<int64_t>(axis);
    c.set(c.emit(info, {x}, DataType::I64, frontend::without_axes(Call::shape(x), {axis}, keep)));
}

/// The number of elements that are reduced, as a scalar of `dtype`.
Edge count_of(Call& c, Edge x, std::vector<size_t> const& axes, double less, DataType dtype) {
    DimExpr count = 1;
    for (auto axis : axes) count = count * Call::shape(x)[axis];
    auto* number = c.size_edge(Scalar::of_int(count), dtype);
    return less == 0 ? number : c.binary(ExprOp::Sub, number, c.scalar(dtype, less));
}

struct Moments {
    Edge variance, mean;
};

Moments moments(Call& c) {
    auto* x = c.tensor("input");
    // std(x, unbiased): without dim the flag is in its place.
    bool whole = c.has("dim") && c.argument("dim")->is(Term::Kind::Bool);
    auto axes = c.axes(whole ? "no dim" : "dim", Call::rank(x));
    bool keep = c.flag("keepdim", false);
    double correction = c.flag(whole ? "dim" : "unbiased", true) ? 1 : 0;
    if (c.has("correction")) correction = c.number("correction");
    auto dtype = Call::type_of(x);
    auto* mean = c.reduce(ReduceKind::Mean, x, axes, true);
    auto* squares = c.map({x, mean}, [](Expression& e, auto const& v) {
        auto d = e.binary(ExprOp::Sub, v[0], v[1]);
        return e.binary(ExprOp::Mul, d, d);
    });
    auto* sum = c.reduce(ReduceKind::Sum, squares, axes, keep);
    auto* variance = c.binary(ExprOp::Div, sum, count_of(c, x, axes, correction, dtype));
    return {variance, c.reshape(mean, frontend::without_axes(Call::shape(x), axes, keep))};
}

template <bool kRoot, bool kMean>
void build_variance(Call& c) {
    auto [variance, mean] = moments(c);
    c.set(kRoot ? c.unary(ExprOp::Sqrt, variance) : variance);
    if (kMean) c.set(1, mean);
}

Edge norm(Call& c, Edge x, double p, std::vector<size_t> const& axes, bool keep) {
    if (p == 2) return c.reduce(ReduceKind::L2, x, axes, keep);
    if (p == 1) return c.reduce(ReduceKind::L1, x, axes, keep);
    auto* size = c.unary(ExprOp::Abs, x);
    if (p == INFINITY) return c.reduce(ReduceKind::Max, size, axes, keep);
    if (p == -INFINITY) return c.reduce(ReduceKind::Min, size, axes, keep);
    auto dtype = Call::type_of(x);
    if (p == 0) {
        auto* nonzero = c.cast(c.cast(x, DataType::Bool), dtype);
        return c.reduce(ReduceKind::Sum, nonzero, axes, keep);
    }
    auto* sum = c.reduce(ReduceKind::Sum, c.binary(ExprOp::Pow, size, c.scalar(dtype, p)), axes, keep);
    return c.binary(ExprOp::Pow, sum, c.scalar(dtype, 1 / p));
}

/// Vector norms over any axes; of matrices only the Frobenius norm, which is the 2-norm of all elements.
void build_norm(Call& c) {
    auto* x = c.cast(c.tensor("input"), c.dtype("dtype", Call::type_of(c.tensor("input"))));
    auto order = c.argument(c.has("ord") ? "ord" : "p");
    auto p = order && order->is(Term::Kind::Text) && order->text == "fro" ? 2 : c.number(c.has("ord") ? "ord" : "p", 2);
    bool of_matrix = c.type.find("linalg_norm") != c.type.npos && c.has("dim") && c.integers("dim").size() == 2;
    if (of_matrix && c.has("ord")) refuse_unsupported("a matrix norm of order ", p);
    c.set(norm(c, x, p, c.axes("dim", Call::rank(x)), c.flag("keepdim", false)));
}

/// x / max(|x|_p, eps)
void build_normalize(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", 1), Call::rank(x));
    auto* length = norm(c, x, c.number("p", 2), {axis}, true);
    auto dtype = Call::type_of(x);
    auto eps = c.number("eps", 1e-12);
    c.set(c.map({x, length}, [&](Expression& e, auto const& v) {
        return e.binary(ExprOp::Div, v[0], e.binary(ExprOp::Max, v[1], e.constant(dtype, eps)));
    }));
}

/// |a - b + eps|_p over the last axis
void build_pairwise_distance(Call& c) {
    auto *a = c.tensor("x1"), *b = c.tensor("x2");
    auto dtype = Call::type_of(a);
    auto eps = c.number("eps", 1e-6);
    auto* gap = c.map({a, b}, [&](Expression& e, auto const& v) {
        return e.binary(ExprOp::Add, e.binary(ExprOp::Sub, v[0], v[1]), e.constant(dtype, eps));
    });
    if (Call::rank(gap) == 0) refuse_invalid("the inputs are scalars");
    c.set(norm(c, gap, c.number("p", 2), {Call::rank(gap) - 1}, c.flag("keepdim", false)));
}

/// a · b / (max(|a|, eps) max(|b|, eps))
void build_cosine_similarity(Call& c) {
    auto *a = c.tensor("x1"), *b = c.tensor("x2");
    auto common = c.broadcast({Call::shape(a), Call::shape(b)});
    auto axis = c.axis(c.integer("dim", 1), common.size());
    auto dtype = Call::type_of(a);
    auto eps = c.number("eps", 1e-8);
    a = c.expand(a, common), b = c.expand(b, common);
    auto* product = c.reduce(ReduceKind::Sum, c.binary(ExprOp::Mul, a, b), {axis}, false);
    auto inputs = {product, norm(c, a, 2, {axis}, false), norm(c, b, 2, {axis}, false)};
    c.set(c.map(inputs, [&](Expression& e, auto const& v) {
        auto least = e.constant(dtype, eps);
        return e.binary(ExprOp::Div, e.binary(ExprOp::Div, v[0], e.binary(ExprOp::Max, v[1], least)),
                        e.binary(ExprOp::Max, v[2], least));
    }));
}

template <bool kProduct>
void build_running(Call& c) {
    auto* x = summand(c, false);
    if (Call::rank(x) == 0) return c.set(x);
    kernel::CumSumInfo info;
    info.axis = static_cast<int64_t>(c.axis(c.integer("dim"), Call::rank(x))), info.product = kProduct;
    c.set(c.emit(info, {x}, Call::type_of(x), Call::shape(x)));
}

/// Whether any (all) elements are true: the largest (smallest) of 0 and 1.
template <bool kAny>
void build_truth(Call& c) {
    auto* x = c.cast(c.cast(c.tensor("input"), DataType::Bool), DataType::I32);
    auto kind = kAny ? ReduceKind::Max : ReduceKind::Min;
    c.set(c.cast(c.reduce(kind, x, c.axes("dim", Call::rank(x)), c.flag("keepdim", false)), DataType::Bool));
}

void build_count_nonzero(Call& c) {
    auto* x = c.cast(c.cast(c.tensor("input"), DataType::Bool), DataType::I64);
    c.set(c.reduce(ReduceKind::Sum, x, c.axes("dim", Call::rank(x)), false));
}

}  // namespace

void define_reduce(Definitions& all) {
    constexpr std::string_view kSum = "input dim keepdim dtype";
    all.push_back({"torch.sum aten::sum", kSum, build_sum<ReduceKind::Sum>});
    all.push_back({"torch.mean aten::mean", kSum, build_sum<ReduceKind::Mean>});
    all.push_back({"torch.prod aten::prod", kSum, build_sum<ReduceKind::Prod>});
    all.push_back({"torch.logsumexp aten::logsumexp", "input dim keepdim", build_sum<ReduceKind::LogSumExp>});
    all.push_back({"torch.max torch.amax aten::max aten::amax", "input dim keepdim | other", build_extremum<true>});
    all.push_back({"torch.min torch.amin aten::min aten::amin", "input dim keepdim | other", build_extremum<false>});
    all.push_back({"torch.argmax aten::argmax", "input dim keepdim", build_arg<true>});
    all.push_back({"torch.argmin aten::argmin", "input dim keepdim", build_arg<false>});
    constexpr std::string_view kVariance = "input dim unbiased keepdim | correction";
    all.push_back({"torch.var aten::var", kVariance, build_variance<false, false>});
    all.push_back({"torch.std aten::std", kVariance, build_variance<true, false>});
    all.push_back({"torch.var_mean aten::var_mean", kVariance, build_variance<false, true>});
    all.push_back({"torch.std_mean aten::std_mean", kVariance, build_variance<true, true>});
    all.push_back({"torch.norm aten::norm aten::frobenius_norm", "input p dim keepdim dtype", build_norm});
    all.push_back({"aten::linalg_norm aten::linalg_vector_norm torch.linalg_vector_norm", "input ord dim keepdim dtype",
                   build_norm});
    all.push_back({"F.normalize", "input p dim eps", build_normalize});
    all.push_back({"F.pairwise_distance nn.PairwiseDistance aten::pairwise_distance", "x1 x2 p eps keepdim",
                   build_pairwise_distance});
    all.push_back(
        {"F.cosine_similarity nn.CosineSimilarity aten::cosine_similarity", "x1 x2 dim eps", build_cosine_similarity});
    all.push_back({"torch.cumsum aten::cumsum", "input dim dtype", build_running<false>});
    all.push_back({"torch.cumprod aten::cumprod", "input dim dtype", build_running<true>});
    all.push_back({"torch.any aten::any", "input dim keepdim", build_truth<true>});
    all.push_back({"torch.all aten::all", "input dim keepdim", build_truth<false>});
    all.push_back({"aten::count_nonzero torch.count_nonzero", "input dim", build_count_nonzero});
}

}  // namespace refactor::pnnx
