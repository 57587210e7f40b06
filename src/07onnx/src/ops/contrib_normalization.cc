#include "computation/operator.h"
#include "contrib_parts.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "statistics.h"

#include <algorithm>

// Normalisations of com.microsoft with what is added before them. Source: onnxruntime, docs/ContribOperators.md.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

Status infer_simplified(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), x.size()));
    RG_CHECK_STATUS(expect_rank(c.input(1), x.size() - axis, x.size() - axis));
    for (size_t i = axis; i < x.size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(c.shape(1)[i - axis], x[i], "a size of the scale"));
    auto statistics = x;
    for (size_t i = axis; i < x.size(); ++i) statistics[i] = 1;
    RG_CHECK_STATUS(c.set(1, DataType::F32, std::move(statistics)));
    return c.set(0, c.dtype(0), x);
}

Status lower_simplified(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    kernel::LayerNormInfo info;
    info.axis = static_cast<int64_t>(axis), info.epsilon = n.number("epsilon", 1e-5f), info.rms = true;
    if (c.output_count() > 1) c.set_output(1, emit_statistics(c, c.edge(0), axis, info.epsilon, true).inverse);
    c.emit_output(computation::make_operator(info), {c.edge(0), c.cast(c.edge(1), c.dtype(0))});
    return std::nullopt;
}

bool is_rms(NodeView const& n) { return n.op_type == "SkipSimplifiedLayerNormalization"; }
/// Input numbers of beta (-1: none) and bias.
int beta_of(InferContext const& c, NodeView const& n) { return !is_rms(n) && c.has(3) ? 3 : -1; }
size_t bias_of(NodeView const& n) { return is_rms(n) ? 3 : 4; }

Status infer_skip_norm(InferContext& c, NodeView const&) {
    auto const& x = c.shape(0);
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 3));
    RG_TRY_STATUS(joined, frontend::broadcast_shapes({x, c.shape(1)}, c.symbols()));
    if (joined.size() != x.size()) return invalid("skip of shape ", c.text(c.shape(1)), " for input ", c.text(x));
    for (size_t i = 0; i < x.size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(joined[i], x[i], frontend::concat("size ", i, " of skip")));
    for (size_t i = 2; i < c.input_count(); ++i) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], x.back(), frontend::concat("the size of input ", i)));
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), x));
    auto statistics = x;
    statistics.back() = 1;
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(c.set(i, DataType::F32, statistics));
    return c.set(3, c.dtype(0), x);
}

Status lower_skip_norm(LowerContext& c, NodeView const& n) {
    kernel::LayerNormInfo info;
    auto const& x = c.shape(0);
    auto beta = beta_of(c.view(), n);
    info.axis = static_cast<int64_t>(x.size()) - 1, info.epsilon = n.number("epsilon", 1e-12f);
    info.rms = is_rms(n), info.has_bias = beta >= 0;
    auto* input = c.edge(0);
    if (auto bias = bias_of(n); c.has(bias)) input = add_edges(c, input, c.edge(bias));
    info.residual = c.shape(1) == x;
    if (!info.residual) input = add_edges(c, input, c.edge(1));
    std::vector<Edge> edges{input, c.edge(2)};
    if (beta >= 0) edges.push_back(c.edge(static_cast<size_t>(beta)));
    if (info.residual) edges.push_back(c.edge(1));
    bool wants_statistics = asks_for(c, 1) || asks_for(c, 2), wants_sum = c.output_count() > 3 || wants_statistics;
    std::vector<LowerContext::Spec> specs{{c.dtype(0), x}};
    if (wants_sum && info.residual) specs.push_back({c.dtype(0), x});
    auto results = c.emit_all(computation::make_operator(info), edges, std::move(specs));
    c.set_output(0, results[0]);
    auto* sum = info.residual && wants_sum ? results[1] : input;
    if (wants_statistics) {
        auto statistics = emit_statistics(c, sum, x.size() - 1, info.epsilon, info.rms);
        c.set_output(1, statistics.mean);
        if (c.output_count() > 2) c.set_output(2, statistics.inverse);
    }
    if (c.output_count() > 3) c.set_output(3, sum);
    return std::nullopt;
}

Status infer_embed(InferContext& c, NodeView const&) {
    for (size_t i : {2, 3, 5, 6})
        if (!c.has(i)) return invalid("the required input ", i, " is omitted");
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 2));
    for (size_t i : {2, 3}) RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
    auto const &ids = c.shape(0), &words = c.shape(2);
    if (c.has(1) != c.has(4)) return invalid("one of segment_ids and segment_embedding is omitted");
    for (size_t i : {3, 4})
        if (c.has(i)) RG_CHECK_STATUS(c.expect_equal(c.shape(i).back(), words[1], "the width of an embedding"));
    for (size_t i : {5, 6}) {
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], words[1], "the size of gamma or beta"));
    }
    for (size_t i : {1, 7, 8}) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[1], ids[1], frontend::concat("the length of input ", i)));
        if (i < 8) RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], ids[0], "a batch"));
    }
    Shape y{ids[0], ids[1], words[1]};
    RG_CHECK_STATUS(c.set(0, c.dtype(2), y));
    RG_CHECK_STATUS(c.set(1, DataType::I32, {ids[0]}));
    return c.set(2, c.dtype(2), y);
}

Status lower_embed(LowerContext& c, NodeView const& n) {
    auto dtype = c.dtype(2);
    auto const &ids = c.shape(0), &y = *c.output().shape;
    auto gather = [&](size_t table, Edge rows) {
        auto shape = rows->value.shape;
        shape.push_back(y[2]);
        return c.emit(computation::make_operator(kernel::GatherInfo{0}), {c.edge(table), rows}, dtype, shape);
    };
    auto* positions = c.has(8) ? c.edge(8) : emit_range(c, 0, ids[1]);
    auto* sum = add_edges(c, gather(2, c.edge(0)), gather(3, positions));
    if (c.has(1)) sum = add_edges(c, sum, gather(4, c.edge(1)));
    kernel::LayerNormInfo info;
    info.axis = 2, info.epsilon = n.number("epsilon", 1e-12f), info.has_bias = true;
    c.emit_output(computation::make_operator(info), {sum, c.edge(5), c.edge(6)});
    if (c.output_count() > 1) {
        auto* zero = c.scalar(DataType::I32, 0);
        c.set_output(
            1, c.has(7) ? c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Sum, {1}}),
                                 {c.edge(7)}, DataType::I32, {ids[0]})
                        : c.emit(computation::make_operator(kernel::ExpandInfo{}), {zero}, DataType::I32, {ids[0]}));
    }
    if (c.output_count() > 2) c.set_output(2, sum);
    return std::nullopt;
}

}  // namespace

void define_contrib_normalization(Definitions& all) {
    using K = AttributeKind;
    // Exporters write SimplifiedLayerNormalization into the domain of ONNX, where it does not exist.
    for (auto domain : {std::string_view{}, kContribDomain})
        all.push_back({.name = "SimplifiedLayerNormalization",
                       .inputs = {2, 2},
                       .outputs = {1, 2},
                       .types = {{kFloats}},
                       .attributes = {{"axis", K::Int}, {"epsilon", K::Float}, {"stash_type", K::Int}},
                       .infer = infer_simplified,
                       .lower = lower_simplified,
                       .domain = domain});
    OperatorDef skip{.name = "SkipLayerNormalization",
                     .inputs = {3, 5},
                     .outputs = {1, 4},
                     .types = {{kFloats, 'T'}},
                     .attributes = {{"epsilon", K::Float}},
                     .infer = infer_skip_norm,
                     .lower = lower_skip_norm,
                     .domain = kContribDomain};
    all.push_back(skip);
    skip.name = "SkipSimplifiedLayerNormalization", skip.inputs = {3, 4};
    all.push_back(std::move(skip));
    all.push_back({.name = "EmbedLayerNormalization",
                   .inputs = {1, 9},
                   .outputs = {1, 3},
                   .types = {{kIndices, 'I'},
                             {kIndices, 'I'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {types(DataType::I32)},
                             {kIndices, 'I'}},
                   .attributes = {{"epsilon", K::Float}, {"mask_index_type", K::Int}},
                   .infer = infer_embed,
                   .lower = lower_embed,
                   .domain = kContribDomain});
}

}  // namespace refactor::onnx
