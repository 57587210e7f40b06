#include "kernel/ops/random.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <bit>
#include <random>

// Random numbers and what draws on them. The specification leaves the generator open: `kernel/ops/random.h` says which.
// Without a seed a node gets one when the model is imported.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::Distribution;
using kernel::ExprOp;
using kernel::RandomInfo;
using Edge = LowerContext::Edge;

uint64_t fresh_seed() {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
}
/// The attribute `seed`, a float; Dropout's is an integer.
uint64_t seed_of(NodeView const& n) {
    if (auto* number = n.get<float>("seed")) return std::bit_cast<uint32_t>(*number);
    if (auto* number = n.get<int64_t>("seed")) return static_cast<uint64_t>(*number);
    return fresh_seed();
}

/// The attribute `dtype`, if there is one, out of `allowed`.
Inferred<DataType> type_of(NodeView const& n, DataType fallback, TypeSet allowed) {
    auto dtype = fallback;
    if (n.has("dtype")) {
        auto given = data_type_from_onnx(n.integer("dtype", 0));
        if (!given) return Err{invalid("the type ", n.integer("dtype", 0), " does not exist")};
        dtype = *given;
    }
    if (!(allowed >> static_cast<int>(dtype) & 1)) return Err{invalid("outputs of type ", name_of(dtype))};
    return dtype;
}

bool has_shape(NodeView const& n) { return n.op_type == "RandomNormal" || n.op_type == "RandomUniform"; }

Status infer_random(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(dtype, type_of(n, has_shape(n) ? DataType::F32 : c.dtype(0), kFloats));
    if (!has_shape(n)) return c.set(0, dtype, c.shape(0));
    auto sizes = n.integers("shape");
    return c.set(0, dtype, Shape(sizes.begin(), sizes.end()));
}

Status lower_random(LowerContext& c, NodeView const& n) {
    bool normal = n.op_type.starts_with("RandomNormal");
    auto a = n.number(normal ? "mean" : "low", 0), b = n.number(normal ? "scale" : "high", 1);
    c.emit_output(computation::make_operator(RandomInfo{normal ? Distribution::Normal : Distribution::Uniform,
                                                        static_cast<double>(a), static_cast<double>(b), seed_of(n)}),
                  {});
    return std::nullopt;
}

/// Uniform numbers in [0, 1), fine enough to be compared with numbers of `dtype`.
Edge uniform(LowerContext& c, NodeView const& n, DataType dtype, Shape const& shape) {
    return c.emit(computation::make_operator(RandomInfo{Distribution::Uniform, 0, 1, seed_of(n)}), {},
                  dtype == DataType::F64 ? DataType::F64 : DataType::F32, shape);
}

Status infer_bernoulli(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(dtype, type_of(n, c.dtype(0), kNumbers | kBool));
    return c.set(0, dtype, c.shape(0));
}

Status lower_bernoulli(LowerContext& c, NodeView const& n) {
    auto* random = uniform(c, n, c.dtype(0), c.shape(0));
    Expression e;
    auto p = e.cast(e.input(0, c.dtype(0)), random->value.dtype), u = e.input(1, random->value.dtype);
    c.emit_output(computation::make_operator(e.finish(e.cast(e.binary(ExprOp::Less, u, p), c.output().dtype))),
                  {c.edge(0), random});
    return std::nullopt;
}

Status infer_multinomial(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(dtype, type_of(n, DataType::I32, kIndices));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 2));
    auto samples = n.integer("sample_size", 1);
    if (samples < 0) return invalid("sample_size is ", samples, ", expected at least 0");
    if (c.shape(0)[1] == DimExpr(0)) return invalid("there are no classes to draw from");
    return c.set(0, dtype, {c.shape(0)[0], DimExpr(samples)});
}

Status lower_multinomial(LowerContext& c, NodeView const& n) {
    c.emit_output(computation::make_operator(kernel::MultinomialInfo{seed_of(n)}), {c.edge(0)});
    return std::nullopt;
}

/// Whether Dropout drops; nothing if that depends on data.
std::optional<bool> is_training(InferContext const& c, NodeView const& n, size_t outputs) {
    // Exporters of opsets 1 to 6 left the default, training, in models for inference: dropping elements is asked for by
    // the second output, the mask, only.
    if (n.opset < 7) return n.integer("is_test", 0) == 0 && outputs > 1;
    if (!c.has(2)) return false;
    auto mode = c.known_values(2);
    if (!mode || mode->size() != 1 || !(*mode)[0].constant()) return std::nullopt;
    return *(*mode)[0].constant() != 0;
}

bool is_one_element(Shape const& shape) { return element_count(shape) == DimExpr(1); }

Status infer_dropout(InferContext& c, NodeView const& n) {
    for (size_t i = 1; i < 3; ++i)
        if (c.has(i) && !is_one_element(c.shape(i)))
            return invalid("\"", c.input(i).name, "\" has the shape ", c.text(c.shape(i)), ", expected a scalar");
    auto const& x = c.input(0);
    if (c.has(1) && c.input(1).constant) {
        RG_TRY_STATUS(ratio, c.floats(1, "the ratio"));
        if (!(ratio[0] >= 0 && ratio[0] < 1))
            return invalid("the ratio is ", ratio[0], ", expected at least 0, below 1");
    }
    RG_CHECK_STATUS(c.set(0, x.dtype, *x.shape));
    if (is_training(c, n, c.output_count()) == false) {
        if (x.values) c.set_values(0, *x.values);
        if (x.constant) c.set_constant(0, x.constant);
    }
    return c.set(1, n.opset >= 10 ? DataType::Bool : x.dtype, *x.shape);
}

/// Kept where a uniform number reaches the ratio, or everywhere if the mode, data, is not training; kept elements are
/// scaled by 1 / (1 - ratio).
void lower_training(LowerContext& c, NodeView const& n, bool always) {
    auto dtype = c.dtype(0);
    auto* random = uniform(c, n, dtype, c.shape(0));
    auto wide = random->value.dtype;
    auto* ratio = c.has(1) ? c.cast(c.reshape(c.edge(1), {}), wide)
                           : c.scalar(wide, static_cast<double>(n.number("ratio", 0.5f)));
    std::vector<Edge> edges{random, ratio};
    Expression mask;
    auto kept = mask.binary(ExprOp::GreaterEqual, mask.input(0, wide), mask.input(1, wide));
    if (!always) {
        auto idle = mask.unary(ExprOp::Not, mask.input(2, DataType::Bool));
        kept = mask.binary(ExprOp::Or, kept, idle);
        edges.push_back(c.reshape(c.edge(2), {}));
    }
    auto* keep = c.emit(computation::make_operator(mask.finish(kept)), edges, DataType::Bool, c.shape(0));
    Expression e;
    auto one = e.constant(wide, 1);
    auto scale = e.binary(ExprOp::Div, one, e.binary(ExprOp::Sub, one, e.input(2, wide)));
    std::vector<Edge> operands{c.edge(0), keep, ratio};
    if (!always) {
        scale = e.select(e.input(3, DataType::Bool), scale, one);
        operands.push_back(edges[2]);
    }
    auto scaled = e.cast(e.binary(ExprOp::Mul, e.cast(e.input(0, dtype), wide), scale), dtype);
    c.emit_output(
        computation::make_operator(e.finish(e.select(e.input(1, DataType::Bool), scaled, e.constant(dtype, 0)))),
        operands);
    if (c.output_count() > 1) c.set_output(1, c.cast(keep, c.output(1).dtype));
}

Status lower_dropout(LowerContext& c, NodeView const& n) {
    auto training = is_training(c.view(), n, c.output_count());
    if (training != false) {
        lower_training(c, n, training == true);
        return std::nullopt;
    }
    c.set_output(0, c.edge(0));
    if (c.output_count() < 2) return std::nullopt;
    auto dtype = c.output(1).dtype;
    c.set_output(1, c.emit(computation::make_operator(kernel::ExpandInfo{}), {c.scalar(dtype, 1)}, dtype, c.shape(0)));
    return std::nullopt;
}

void define_dropout(Definitions& all) {
    using K = AttributeKind;
    OperatorDef def{.name = "Dropout",
                    .outputs = {1, 2},
                    .types = {{kFloats}},
                    .attributes = {{"ratio", K::Float}, {"is_test", K::Int}},
                    .infer = infer_dropout,
                    .lower = lower_dropout};
    all.push_back(def);
    def.since = 7, def.attributes.pop_back();
    all.push_back(def);
    def.since = 12, def.inputs = {1, 3}, def.types = {{kFloats}, {kFloats}, {kBool}};
    def.attributes = {{"seed", K::Int}};
    all.push_back(std::move(def));
}

}  // namespace

void define_random(Definitions& all) {
    using K = AttributeKind;
    for (auto name : {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}) {
        bool normal = std::string_view(name).starts_with("RandomNormal"),
             like = std::string_view(name).ends_with("Like");
        OperatorDef def{.name = name,
                        .inputs = {like, like},
                        .attributes = {{"dtype", K::Int},
                                       {"seed", K::Float},
                                       {normal ? "mean" : "low", K::Float},
                                       {normal ? "scale" : "high", K::Float}},
                        .infer = infer_random,
                        .lower = lower_random};
        if (!like) def.attributes.push_back({"shape", K::Ints, true});
        all.push_back(std::move(def));
    }
    all.push_back({.name = "Bernoulli",
                   .since = 15,
                   .types = {{kFloats}},
                   .attributes = {{"dtype", K::Int}, {"seed", K::Float}},
                   .infer = infer_bernoulli,
                   .lower = lower_bernoulli});
    all.push_back({.name = "Multinomial",
                   .since = 7,
                   .types = {{kFloats}},
                   .attributes = {{"dtype", K::Int}, {"sample_size", K::Int}, {"seed", K::Float}},
                   .infer = infer_multinomial,
                   .lower = lower_multinomial});
    define_dropout(all);
}

}  // namespace refactor::onnx
