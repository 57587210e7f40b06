#include "computation/operator.h"
#include "frontend/text_labels.h"
#include "ops/ml_attributes.h"
#include "ops/ml_tree_attributes.h"

// TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor.

namespace refactor::onnx {

namespace {

bool is_classifier(NodeView const& n) { return n.op_type == "TreeEnsembleClassifier"; }

Status infer(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(e, read_ensemble(n));
    RG_TRY_STATUS(flat, flatten<uint32_t>(e.trees, e.info.targets));
    auto columns = c.shape(0).back().constant();
    if (columns && *columns < flat.columns)
        return invalid("X has ", *columns, " columns, the trees need ", flat.columns);
    auto rows = rows_of(c.shape(0));
    auto scores = n.op_type == "TreeEnsemble" ? c.dtype(0) : DataType::F32;
    if (!is_classifier(n)) return c.set(0, scores, {rows, DimExpr(e.info.targets)});
    RG_CHECK_STATUS(c.set(0, e.labels.texts.empty() ? DataType::I64 : DataType::String, {rows}));
    return c.set(1, scores, {rows, DimExpr(e.info.targets)});
}

template <class T>
LowerContext::Edge list(LowerContext& c, DataType dtype, std::vector<T> const& values, int64_t width = 1) {
    auto bytes = values.size() * sizeof(T);
    Dims dims{static_cast<int64_t>(bytes / (storage_bytes(dtype, 1) * static_cast<size_t>(width)))};
    if (width > 1) dims.push_back(width);
    return c.constant(dtype, dims, mem_manager::Blob::copy_of(values.data(), bytes));
}

LowerContext::Edge numbers(LowerContext& c, DataType dtype, std::vector<double> values) {
    if (values.empty()) values.push_back(0);
    if (dtype == DataType::F64) return list(c, dtype, values);
    return list(c, dtype, std::vector<float>(values.begin(), values.end()));
}

template <class Key>
Status lower_as(LowerContext& c, TreeAttributes& e) {
    constexpr bool kWide = sizeof(Key) == 8;
    auto number = kWide ? DataType::F64 : DataType::F32;
    RG_TRY_STATUS(flat, flatten<Key>(e.trees, e.info.targets));
    e.info.columns = flat.columns, e.info.dense = flat.dense, e.info.base_values = static_cast<int64_t>(e.base.size());
    auto labels = e.labels.numbers;
    for (size_t i = 0; i < e.labels.texts.size(); ++i) labels.push_back(static_cast<int64_t>(i));
    if (labels.empty()) labels.push_back(0);
    if (flat.weights.empty()) flat.targets.push_back(0);
    std::vector<LowerContext::Edge> edges{c.edge(0),
                                          list(c, kWide ? DataType::U64 : DataType::U32, flat.nodes, kWide ? 3 : 4),
                                          list(c, DataType::I32, flat.features),
                                          list(c, DataType::U32, flat.roots),
                                          list(c, DataType::U32, flat.first),
                                          numbers(c, number, flat.weights),
                                          list(c, DataType::U32, flat.targets),
                                          numbers(c, number, e.base),
                                          list(c, DataType::I64, labels)};
    bool classify = e.info.classify;
    auto op = computation::make_operator(e.info);
    if (!classify) {
        c.emit_output(std::move(op), edges);
        return std::nullopt;
    }
    auto const& scores = *c.output(1).shape;
    auto results = c.emit_all(std::move(op), edges, {{c.output(1).dtype, scores}, {DataType::I64, {scores[0]}}});
    c.set_output(0, results[1]), c.set_output(1, results[0]);
    return std::nullopt;
}

Status lower(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(e, read_ensemble(n));
    return e.wide || c.dtype(0) == DataType::F64 ? lower_as<uint64_t>(c, e) : lower_as<uint32_t>(c, e);
}

Inferred<frontend::ProcedurePtr> procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    RG_TRY(labels, class_labels_of(n, "classlabels_int64s"));
    return frontend::make_text_labels(with_positions(n, infer, lower), labels.texts, p);
}

/// Version 5, which replaces both.
OperatorDef tree_ensemble() {
    using K = AttributeKind;
    return {.name = "TreeEnsemble",
            .since = 5,
            .types = {{types(DataType::F32, DataType::F64, DataType::F16)}},
            .attributes = {{"aggregate_function", K::Int},
                           {"leaf_targetids", K::Ints, true},
                           {"leaf_weights", K::Tensor, true},
                           {"membership_values", K::Tensor},
                           {"n_targets", K::Int},
                           {"nodes_falseleafs", K::Ints, true},
                           {"nodes_falsenodeids", K::Ints, true},
                           {"nodes_featureids", K::Ints, true},
                           {"nodes_hitrates", K::Tensor},
                           {"nodes_missing_value_tracks_true", K::Ints},
                           {"nodes_modes", K::Tensor, true},
                           {"nodes_splits", K::Tensor, true},
                           {"nodes_trueleafs", K::Ints, true},
                           {"nodes_truenodeids", K::Ints, true},
                           {"post_transform", K::Int},
                           {"tree_roots", K::Ints, true}},
            .infer = infer,
            .lower = lower,
            .domain = kMlDomain};
}

}  // namespace

void define_ml_tree_ensemble(Definitions& all) {
    using K = AttributeKind;
    OperatorDef def{.name = "TreeEnsembleRegressor",
                    .types = {{kMlNumbers}},
                    .attributes = {{"aggregate_function", K::String},
                                   {"base_values", K::Floats},
                                   {"n_targets", K::Int},
                                   {"nodes_falsenodeids", K::Ints},
                                   {"nodes_featureids", K::Ints},
                                   {"nodes_hitrates", K::Floats},
                                   {"nodes_missing_value_tracks_true", K::Ints},
                                   {"nodes_modes", K::Strings},
                                   {"nodes_nodeids", K::Ints},
                                   {"nodes_treeids", K::Ints},
                                   {"nodes_truenodeids", K::Ints},
                                   {"nodes_values", K::Floats},
                                   {"post_transform", K::String},
                                   {"target_ids", K::Ints},
                                   {"target_nodeids", K::Ints},
                                   {"target_treeids", K::Ints},
                                   {"target_weights", K::Floats}},
                    .infer = infer,
                    .lower = lower,
                    .domain = kMlDomain};
    auto classifier = def;
    classifier.name = "TreeEnsembleClassifier", classifier.outputs = {2, 2};
    classifier.procedure = procedure, classifier.is_procedure = has_text_labels;
    std::erase_if(classifier.attributes, [](AttributeDef const& a) {
        return a.name == "aggregate_function" || a.name == "n_targets" || a.name.starts_with("target_");
    });
    classifier.attributes.insert(classifier.attributes.end(), {{"class_ids", K::Ints},
                                                               {"class_nodeids", K::Ints},
                                                               {"class_treeids", K::Ints},
                                                               {"class_weights", K::Floats},
                                                               {"classlabels_int64s", K::Ints},
                                                               {"classlabels_strings", K::Strings}});
    for (auto* d : {&def, &classifier}) {
        all.push_back(*d);
        d->since = 3;
        for (auto name : {"base_values_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor"})
            d->attributes.push_back({name, K::Tensor});
        d->attributes.push_back({d == &def ? "target_weights_as_tensor" : "class_weights_as_tensor", K::Tensor});
        all.push_back(*d);
    }
    all.push_back(tree_ensemble());
}

}  // namespace refactor::onnx
