#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "ops/attention_parts.h"
#include "ops/ml_attributes.h"

#include <cmath>
#include <limits>

// Operators on tables of features that other operators express: ArrayFeatureExtractor, Binarizer, FeatureVectorizer,
// Imputer, Normalizer, Scaler.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

// ---------------------------------------------------------------------- ArrayFeatureExtractor
Status infer_extractor(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 1, InferContext::kMaxRank));
    auto shape = c.shape(0);
    shape.back() = element_count(c.shape(1));
    if (shape.size() == 1) shape.insert(shape.begin(), DimExpr(1));
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_extractor(LowerContext& c, NodeView const&) {
    auto const& x = c.shape(0);
    auto axis = static_cast<int64_t>(x.size()) - 1;
    auto count = element_count(c.shape(1));
    auto shape = x;
    shape.back() = count;
    auto* picked = c.emit(computation::make_operator(kernel::GatherInfo{axis}),
                          {c.edge(0), c.reshape(c.edge(1), {count})}, c.dtype(0), shape);
    c.set_output(0, c.reshape(picked, *c.output().shape));
    return std::nullopt;
}

// ---------------------------------------------------------------------- Binarizer
/// Whether x > threshold. An integer is greater exactly if it is greater than the threshold rounded down.
Expression::Value is_greater(Expression& e, Expression::Value x, float threshold) {
    auto dtype = e.dtype(x);
    if (is_float(dtype)) return e.binary(ExprOp::Greater, x, e.constant(dtype, static_cast<double>(threshold)));
    auto limit = dtype == DataType::I32 ? 0x1p31 : 0x1p63, floor = std::floor(static_cast<double>(threshold));
    if (floor < -limit) return e.binary(ExprOp::Equal, x, x);
    if (!(floor < limit)) return e.binary(ExprOp::Less, x, x);
    return e.binary(ExprOp::Greater, x, e.constant(dtype, floor));
}

Status lower_binarizer(LowerContext& c, NodeView const& n) {
    Expression e;
    auto hit = is_greater(e, e.input(0, c.dtype(0)), n.number("threshold", 0));
    c.emit_output(computation::make_operator(e.finish(e.cast(hit, c.dtype(0)))), {c.edge(0)});
    return std::nullopt;
}

// ---------------------------------------------------------------------- FeatureVectorizer
/// [N, features]: the axes behind the first count as one.
Shape as_rows(Shape const& x) {
    if (x.size() == 1) return {DimExpr(1), x[0]};
    return {x[0], element_count(Shape(x.begin() + 1, x.end()))};
}

Status infer_vectorizer(InferContext& c, NodeView const& n) {
    auto widths = n.integers("inputdimensions");
    if (!widths.empty() && widths.size() != c.input_count())
        return invalid("inputdimensions has ", widths.size(), " elements for ", c.input_count(), " inputs");
    DimExpr total = 0;
    for (size_t i = 0; i < c.input_count(); ++i) {
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, InferContext::kMaxRank));
        auto rows = as_rows(c.shape(i));
        RG_CHECK_STATUS(c.expect_equal(rows[0], as_rows(c.shape(0))[0], "the number of rows"));
        if (!widths.empty() && widths[i] < 0) return invalid("inputdimensions[", i, "] is ", widths[i]);
        total = total + (widths.empty() ? rows[1] : DimExpr(widths[i]));
    }
    return c.set(0, DataType::F32, {as_rows(c.shape(0))[0], total});
}

/// Columns are cut off or filled up with zeros.
Edge with_width(LowerContext& c, Edge x, int64_t width) {
    auto shape = x->value.shape;
    auto own = shape[1].constant();
    if (own && *own == width) return x;
    if (!own || *own < width) {
        shape[1] = shape[1] + DimExpr(width);
        x = c.emit(computation::make_operator(kernel::PadInfo{}, {DimExpr(0), DimExpr(0)}),
                   {x, c.scalar(DataType::F32, 0)}, DataType::F32, shape);
    }
    return emit_slice(c, x, 1, 0, width);
}

Status lower_vectorizer(LowerContext& c, NodeView const& n) {
    auto widths = n.integers("inputdimensions");
    std::vector<Edge> parts;
    for (size_t i = 0; i < c.input_count(); ++i) {
        auto* rows = c.reshape(c.cast(c.edge(i), DataType::F32), as_rows(c.shape(i)));
        parts.push_back(widths.empty() ? rows : with_width(c, rows, widths[i]));
    }
    if (parts.size() == 1)
        c.set_output(0, parts[0]);
    else
        c.emit_output(computation::make_operator(kernel::ConcatInfo{1}), parts);
    return std::nullopt;
}

// ---------------------------------------------------------------------- Imputer
/// Refuses a list that is neither one value nor one for each column.
Status expect_one_or_columns(InferContext& c, size_t count, std::string_view name) {
    if (count == 1) return std::nullopt;
    auto columns = c.shape(0).back().constant();
    if (count == 0 || (columns && *columns != static_cast<int64_t>(count)))
        return invalid(name, " has ", count, " elements, expected 1 or ", c.text(c.shape(0).back()));
    return std::nullopt;
}

Status infer_imputer(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 1, InferContext::kMaxRank));
    auto floats = list_of<float>(n, "imputed_value_floats").size(),
         integers = n.integers("imputed_value_int64s").size();
    if (floats && integers) return invalid("imputed_value_floats and imputed_value_int64s are given, expected one");
    RG_CHECK_STATUS(is_float(c.dtype(0)) ? expect_one_or_columns(c, floats, "imputed_value_floats")
                                         : expect_one_or_columns(c, integers, "imputed_value_int64s"));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// A row of numbers of the type of input 0.
template <class T>
Edge row_of(LowerContext& c, std::vector<T> const& values) {
    Dims dims{static_cast<int64_t>(values.size())};
    auto from = std::is_same_v<T, float> ? DataType::F32 : std::is_same_v<T, double> ? DataType::F64 : DataType::I64;
    auto* edge = c.constant(from, dims, mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(T)));
    return c.cast(edge, c.dtype(0));
}

Status lower_imputer(LowerContext& c, NodeView const& n) {
    Expression e;
    auto dtype = c.dtype(0);
    auto x = e.input(0, dtype), replacement = e.input(1, dtype);
    Expression::Value hit;
    Edge row, edge = c.edge(0);
    std::vector<Edge> edges{edge};
    if (is_float(dtype)) {
        auto replaced = n.number("replaced_value_float", 0);
        hit = std::isnan(replaced) ? e.unary(ExprOp::IsNan, x)
                                   : e.binary(ExprOp::Equal, x, e.constant(dtype, static_cast<double>(replaced)));
        row = row_of(c, list_of<float>(n, "imputed_value_floats"));
        edges.push_back(row);
    } else {
        // A number that does not fit into the type is never met.
        auto replaced = n.integer("replaced_value_int64", 0);
        std::vector<int64_t> one{replaced};
        row = row_of(c, n.integers("imputed_value_int64s"));
        edges.push_back(row), edges.push_back(row_of(c, one));
        bool fits = dtype == DataType::I64 || replaced == static_cast<int32_t>(replaced);
        hit = fits ? e.binary(ExprOp::Equal, x, e.input(2, dtype)) : e.binary(ExprOp::Less, x, x);
        if (!fits) edges.pop_back();
    }
    c.emit_output(computation::make_operator(e.finish(e.select(hit, replacement, x))), edges);
    return std::nullopt;
}

// ---------------------------------------------------------------------- Scaler
Status infer_scaler(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 1, InferContext::kMaxRank));
    auto offsets = list_of<float>(n, "offset").size(), scales = list_of<float>(n, "scale").size();
    if (offsets != scales) return invalid("scale has ", scales, " elements, expected ", offsets, " as offset");
    RG_CHECK_STATUS(expect_one_or_columns(c, scales, "scale"));
    return c.set(0, DataType::F32, c.shape(0));
}

/// f64 is scaled in f64 and rounded once, everything else in f32.
Status lower_scaler(LowerContext& c, NodeView const& n) {
    auto dtype = c.dtype(0) == DataType::F64 ? DataType::F64 : DataType::F32;
    Expression e;
    auto x = e.cast(e.input(0, c.dtype(0)), dtype);
    auto offset = e.cast(e.input(1, DataType::F32), dtype), scale = e.cast(e.input(2, DataType::F32), dtype);
    auto y = e.binary(ExprOp::Mul, e.binary(ExprOp::Sub, x, offset), scale);
    auto offsets = list_of<float>(n, "offset"), scales = list_of<float>(n, "scale");
    Dims dims{static_cast<int64_t>(scales.size())};
    c.emit_output(computation::make_operator(e.finish(e.cast(y, DataType::F32))),
                  {c.edge(0), c.floats(offsets, dims), c.floats(scales, dims)});
    return std::nullopt;
}

// ---------------------------------------------------------------------- Normalizer
Inferred<kernel::ReduceKind> norm_of(NodeView const& n) {
    auto name = n.text("norm", "MAX");
    if (name == "MAX") return kernel::ReduceKind::Max;
    if (name == "L1") return kernel::ReduceKind::L1;
    if (name == "L2") return kernel::ReduceKind::L2;
    return Err{invalid("norm is \"", name, "\", expected MAX, L1 or L2")};
}

Status infer_normalizer(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(norm, norm_of(n));
    return c.set(0, DataType::F32, c.shape(0));
}

/// MAX is the greatest element, not the greatest magnitude: the definition, and onnxruntime, say so.
Status lower_normalizer(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(norm, norm_of(n));
    auto dtype = c.dtype(0) == DataType::F64 ? DataType::F64 : DataType::F32;
    auto* x = c.cast(c.edge(0), dtype);
    auto shape = c.shape(0);
    auto axis = static_cast<int64_t>(shape.size()) - 1;
    shape.back() = 1;
    auto* length = c.emit(computation::make_operator(kernel::ReduceInfo{norm, {axis}}), {x}, dtype, shape);
    Expression e;
    auto value = e.input(0, dtype), divisor = e.input(1, dtype);
    auto is_zero = e.binary(ExprOp::Equal, divisor, e.constant(dtype, 0));
    auto y = e.select(is_zero, value, e.binary(ExprOp::Div, value, divisor));
    c.emit_output(computation::make_operator(e.finish(e.cast(y, DataType::F32))), {x, length});
    return std::nullopt;
}

}  // namespace

void define_ml_features(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "ArrayFeatureExtractor",
                   .inputs = {2, 2},
                   .types = {{kMlNumbers | types(DataType::String)}, {kI64}},
                   .infer = infer_extractor,
                   .lower = lower_extractor,
                   .domain = kMlDomain});
    all.push_back({.name = "Binarizer",
                   .types = {{kMlNumbers}},
                   .attributes = {{"threshold", K::Float}},
                   .infer = infer_same,
                   .lower = lower_binarizer,
                   .domain = kMlDomain});
    all.push_back({.name = "FeatureVectorizer",
                   .inputs = {1, kVariadic},
                   .types = {{kMlNumbers, 'T'}},
                   .attributes = {{"inputdimensions", K::Ints}},
                   .infer = infer_vectorizer,
                   .lower = lower_vectorizer,
                   .domain = kMlDomain});
    all.push_back({.name = "Imputer",
                   .types = {{kMlNumbers}},
                   .attributes = {{"imputed_value_floats", K::Floats},
                                  {"imputed_value_int64s", K::Ints},
                                  {"replaced_value_float", K::Float},
                                  {"replaced_value_int64", K::Int}},
                   .infer = infer_imputer,
                   .lower = lower_imputer,
                   .domain = kMlDomain});
    all.push_back({.name = "Normalizer",
                   .types = {{kMlNumbers}},
                   .attributes = {{"norm", K::String}},
                   .infer = infer_normalizer,
                   .lower = lower_normalizer,
                   .domain = kMlDomain});
    all.push_back({.name = "Scaler",
                   .types = {{kMlNumbers}},
                   .attributes = {{"offset", K::Floats}, {"scale", K::Floats}},
                   .infer = infer_scaler,
                   .lower = lower_scaler,
                   .domain = kMlDomain});
}

}  // namespace refactor::onnx
