#include "kernel/ops/recurrent.h"

#include "computation/operator.h"
#include "operator_def.h"

#include <algorithm>

// LSTM, GRU, RNN, DynamicQuantizeLSTM. Since opset 7 only the outputs decide what is computed (before:
// output_sequence), since 14 `layout`.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using kernel::CellActivation;
using kernel::CellFunction;
using kernel::RecurrentCell;
using kernel::RecurrentInfo;

/// alpha and beta: default values; whether the function takes them.
struct NamedFunction {
    std::string_view name;
    CellFunction function;
    float alpha = 0, beta = 0;
    bool has_alpha = false, has_beta = false;
};
constexpr NamedFunction kFunctions[]{
    {"sigmoid", CellFunction::Sigmoid},
    {"tanh", CellFunction::Tanh},
    {"relu", CellFunction::Relu},
    {"affine", CellFunction::Affine, 1, 0, true, true},
    {"leakyrelu", CellFunction::LeakyRelu, 0.01f, 0, true},
    {"thresholdedrelu", CellFunction::ThresholdedRelu, 1, 0, true},
    {"scaledtanh", CellFunction::ScaledTanh, 1, 1, true, true},
    {"hardsigmoid", CellFunction::HardSigmoid, 0.2f, 0.5f, true, true},
    {"elu", CellFunction::Elu, 1, 0, true},
    {"softsign", CellFunction::Softsign},
    {"softplus", CellFunction::Softplus},
};

bool is_quantized(NodeView const& n) { return n.op_type == "DynamicQuantizeLSTM"; }

RecurrentCell cell_of(NodeView const& n) {
    return n.op_type == "LSTM" || is_quantized(n) ? RecurrentCell::Lstm
           : n.op_type == "GRU"                   ? RecurrentCell::Gru
                                                  : RecurrentCell::Rnn;
}

std::string lower_case(std::string text) {
    for (auto& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

std::vector<float> floats_of(NodeView const& n, std::string_view name) {
    auto* list = n.get<std::vector<float>>(name);
    return list ? *list : std::vector<float>{};
}

/// The functions of all directions; alpha and beta lists are consumed by those that take one.
Inferred<std::vector<CellActivation>> activations_of(NodeView const& n, RecurrentCell cell, size_t directions) {
    std::vector<std::string> names;
    if (auto* given = n.get<std::vector<std::string>>("activations")) names = *given;
    size_t each = cell == RecurrentCell::Lstm ? 3 : cell == RecurrentCell::Gru ? 2 : 1;
    if (names.empty())
        for (size_t d = 0; d < directions; ++d) {
            if (cell != RecurrentCell::Rnn) names.emplace_back("sigmoid");
            for (size_t i = cell != RecurrentCell::Rnn; i < each; ++i) names.emplace_back("tanh");
        }
    if (names.size() != each * directions)
        return Err{invalid(names.size(), " activations, expected ", each * directions)};
    auto alphas = floats_of(n, "activation_alpha"), betas = floats_of(n, "activation_beta");
    size_t alpha = 0, beta = 0;
    std::vector<CellActivation> result;
    for (auto const& name : names) {
        auto* known = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [lower = lower_case(name)](auto const& f) { return f.name == lower; });
        if (known == std::end(kFunctions)) return Err{invalid("the activation \"", name, "\" does not exist")};
        CellActivation a{known->function, known->alpha, known->beta};
        if (known->has_alpha && alpha < alphas.size()) a.alpha = alphas[alpha++];
        if (known->has_beta && beta < betas.size()) a.beta = betas[beta++];
        result.push_back(a);
    }
    return result;
}

/// Everything of the node but its sizes.
Inferred<RecurrentInfo> info_of(InferContext const& c, NodeView const& n) {
    RecurrentInfo info;
    info.cell = cell_of(n);
    auto direction = n.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
        return Err{invalid("direction is \"", direction, "\", expected forward, reverse or bidirectional")};
    info.reverse = direction == "reverse", info.bidirectional = direction == "bidirectional";
    RG_TRY(activations, activations_of(n, info.cell, info.bidirectional ? 2 : 1));
    info.activations = std::move(activations);
    auto layout = n.integer("layout", 0);
    if (layout != 0 && layout != 1) return Err{invalid("layout is ", layout, ", expected 0 or 1")};
    info.batch_first = layout == 1, info.clip = n.number("clip", 0);
    if (info.clip < 0) return Err{invalid("clip is ", info.clip, ", expected at least 0")};
    info.input_forget = n.integer("input_forget", 0) != 0;
    info.linear_before_reset = n.integer("linear_before_reset", 0) != 0;
    info.quantized = is_quantized(n);
    auto hidden = c.shape(2)[info.quantized ? 1 : 2].constant();
    if (!hidden && !n.has("hidden_size"))
        return Err{unsupported("R has the shape ", c.text(c.shape(2)), ": the hidden size must be known")};
    info.hidden = hidden ? *hidden : n.integer("hidden_size", 0);
    if (info.hidden < 1) return Err{invalid("the hidden size is ", info.hidden, ", expected at least 1")};
    if (n.integer("hidden_size", info.hidden) != info.hidden)
        return Err{invalid("hidden_size is ", n.integer("hidden_size", 0), ", R has the shape ", c.text(c.shape(2)))};
    info.bias = c.has(3), info.lengths = c.has(4), info.initial_h = c.has(5);
    info.initial_c = c.has(6), info.peepholes = c.has(7);
    return info;
}

Status expect_shape(InferContext& c, size_t i, std::string_view role, Shape const& expected) {
    if (!c.has(i)) return std::nullopt;
    RG_CHECK_STATUS(expect_rank(c.input(i), expected.size(), expected.size()));
    for (size_t k = 0; k < expected.size(); ++k)
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[k], expected[k], frontend::concat("size ", k, " of ", role)));
    return std::nullopt;
}

/// Whose scale or zero point an input of a quantised layer is.
constexpr size_t matrix_of(size_t input) { return input < 10 ? 1 : 2; }
constexpr std::string_view kTerms[]{"scale of W", "zero point of W", "scale of R", "zero point of R"};

/// Scales and zero points of quantised weights.
Status check_terms(InferContext& c, DimExpr const& directions, DimExpr const& rows) {
    for (size_t i = 8; i < 12; ++i) {
        auto role = kTerms[i - 8];
        bool zero = i % 2;
        if (auto type = c.dtype(matrix_of(i)); zero && c.has(i) && c.dtype(i) != type)
            return invalid("the ", role, " is ", name_of(c.dtype(i)), ", expected ", name_of(type));
        if (!c.has(i)) {
            if (zero) continue;
            return invalid("the ", role, " is missing");
        }
        if (c.shape(i).size() > 2) return invalid("the ", role, " has the shape ", c.text(c.shape(i)));
        if (element_count(c.shape(i)) == DimExpr(1)) continue;
        RG_CHECK_STATUS(expect_shape(c, i, role, c.shape(i).size() == 1 ? Shape{directions} : Shape{directions, rows}));
    }
    return std::nullopt;
}

struct OutputShapes {
    Shape y, state;
};

OutputShapes output_shapes(RecurrentInfo const& info, Shape const& x) {
    DimExpr directions(info.bidirectional ? 2 : 1), hidden(info.hidden);
    auto const &steps = x[info.batch_first], &batch = x[!info.batch_first];
    if (info.batch_first) return {{batch, steps, directions, hidden}, {batch, directions, hidden}};
    return {{steps, directions, batch, hidden}, {directions, batch, hidden}};
}

Status infer_recurrent(InferContext& c, NodeView const& n) {
    for (size_t i = 0; i < 3; ++i) RG_CHECK_STATUS(expect_rank(c.input(i), 3, 3));
    RG_TRY_STATUS(info, info_of(c, n));
    auto shapes = output_shapes(info, c.shape(0));
    DimExpr directions(info.bidirectional ? 2 : 1), rows(kernel::gates_of(info.cell) * info.hidden);
    if (info.quantized) {
        RG_CHECK_STATUS(expect_shape(c, 1, "W", {directions, c.shape(0)[2], rows}));
        RG_CHECK_STATUS(expect_shape(c, 2, "R", {directions, DimExpr(info.hidden), rows}));
        RG_CHECK_STATUS(check_terms(c, directions, rows));
    } else {
        RG_CHECK_STATUS(expect_shape(c, 1, "W", {directions, rows, c.shape(0)[2]}));
        RG_CHECK_STATUS(expect_shape(c, 2, "R", {directions, rows, DimExpr(info.hidden)}));
    }
    RG_CHECK_STATUS(expect_shape(c, 3, "B", {directions, rows + rows}));
    RG_CHECK_STATUS(expect_shape(c, 4, "sequence_lens", {c.shape(0)[!info.batch_first]}));
    RG_CHECK_STATUS(expect_shape(c, 5, "initial_h", shapes.state));
    RG_CHECK_STATUS(expect_shape(c, 6, "initial_c", shapes.state));
    RG_CHECK_STATUS(expect_shape(c, 7, "P", {directions, DimExpr(3 * info.hidden)}));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), shapes.y));
    RG_CHECK_STATUS(c.set(1, c.dtype(0), shapes.state));
    return c.set(2, c.dtype(0), shapes.state);
}

Status lower_recurrent(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, info_of(c.view(), n));
    auto shapes = output_shapes(info, c.shape(0));
    bool* flags[]{&info.y, &info.y_h, &info.y_c};
    std::vector<LowerContext::Spec> specs;
    for (size_t i = 0; i < 3; ++i) {
        *flags[i] = i < c.output_count() && !c.output(i).name.empty();
        if (*flags[i]) specs.push_back({c.dtype(0), i ? shapes.state : shapes.y});
    }
    std::vector<LowerContext::Edge> edges;
    for (size_t i = 0; i < c.input_count(); ++i)
        if (c.has(i))
            edges.push_back(c.edge(i));
        else if (i == 9 || i == 11)  // zero points of quantised weights
            edges.push_back(c.scalar(c.dtype(matrix_of(i)), 0));
    auto results = c.emit_all(computation::make_operator(info), edges, std::move(specs));
    for (size_t i = 0, next = 0; i < 3; ++i)
        if (*flags[i]) c.set_output(i, results[next++]);
    return std::nullopt;
}

void define(Definitions& all, std::string_view name, int inputs, std::vector<AttributeDef> own) {
    using K = AttributeKind;
    OperatorDef def{
        .name = name,
        .inputs = {3, inputs},
        .outputs = {0, name == "LSTM" ? 3 : 2},
        .types =
            {{kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'T'}, {types(DataType::I32)}, {kFloats, 'T'}},
        .attributes = {{"activation_alpha", K::Floats},
                       {"activation_beta", K::Floats},
                       {"activations", K::Strings},
                       {"clip", K::Float},
                       {"direction", K::String},
                       {"hidden_size", K::Int}},
        .infer = infer_recurrent,
        .lower = lower_recurrent};
    auto common = def.attributes;
    def.attributes.insert(def.attributes.end(), own.begin(), own.end());
    def.attributes.push_back({"output_sequence", K::Int});
    // GRU got linear_before_reset with opset 3.
    auto first = def;
    if (name == "GRU") first.attributes = common, first.attributes.push_back({"output_sequence", K::Int});
    all.push_back(std::move(first));
    if (name == "GRU") def.since = 3, all.push_back(def);
    def.since = 7, def.attributes.pop_back();
    all.push_back(def);
    def.since = 14, def.attributes.push_back({"layout", K::Int});
    all.push_back(std::move(def));
}

void define_quantized(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kBytes = types(DataType::U8, DataType::I8);
    constexpr auto kF32 = types(DataType::F32);
    all.push_back({.name = "DynamicQuantizeLSTM",
                   .inputs = {3, 12},
                   .outputs = {0, 3},
                   .types = {{kF32},
                             {kBytes},
                             {kBytes},
                             {kF32},
                             {types(DataType::I32)},
                             {kF32},
                             {kF32},
                             {kF32},
                             {kF32},
                             {kBytes},
                             {kF32},
                             {kBytes}},
                   .attributes = {{"activation_alpha", K::Floats},
                                  {"activation_beta", K::Floats},
                                  {"activations", K::Strings},
                                  {"clip", K::Float},
                                  {"direction", K::String},
                                  {"hidden_size", K::Int},
                                  {"input_forget", K::Int}},
                   .infer = infer_recurrent,
                   .lower = lower_recurrent,
                   .domain = "com.microsoft"});
}

}  // namespace

void define_recurrent(Definitions& all) {
    define(all, "GRU", 6, {{"linear_before_reset", AttributeKind::Int}});
    define(all, "LSTM", 8, {{"input_forget", AttributeKind::Int}});
    define(all, "RNN", 6, {});
    define_quantized(all);
}

}  // namespace refactor::onnx
