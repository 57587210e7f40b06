#pragma once
#include "common/half.h"
#include "kernel/ops/trees.h"
#include "mem_manager/blob.h"
#include "operator_def.h"

#include <string>
#include <vector>

/// Attributes that operators of `ai.onnx.ml` share.
namespace refactor::onnx {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";
/// What most of them take.
inline constexpr TypeSet kMlNumbers = types(DataType::F32, DataType::F64, DataType::I32, DataType::I64);

template <class T>
std::vector<T> list_of(NodeView const& n, std::string_view name) {
    auto* list = n.get<std::vector<T>>(name);
    return list ? *list : std::vector<T>{};
}

/// The numbers of a tensor attribute, or of the list `name` if there is no tensor `name` + "_as_tensor".
inline std::vector<double> numbers_of(NodeView const& n, std::string const& name) {
    auto* tensor = n.get<frontend::TensorValue>(name + "_as_tensor");
    if (!tensor) tensor = n.get<frontend::TensorValue>(name);
    if (!tensor) {
        auto floats = list_of<float>(n, name);
        return {floats.begin(), floats.end()};
    }
    std::vector<double> values(static_cast<size_t>(element_count(tensor->dims)));
    if (tensor->dtype == DataType::F64)
        std::copy_n(static_cast<double const*>(tensor->blob->data()), values.size(), values.begin());
    else
        convert(tensor->dtype, tensor->blob->data(), DataType::F64, values.data(), static_cast<int64_t>(values.size()));
    return values;
}

inline Inferred<kernel::PostTransform> post_transform_of(NodeView const& n) {
    auto name = n.text("post_transform", "NONE");
    for (int i = 0; i <= static_cast<int>(kernel::PostTransform::Probit); ++i)
        if (name == kernel::name_of(static_cast<kernel::PostTransform>(i)))
            return static_cast<kernel::PostTransform>(i);
    return Err{invalid("post_transform is \"", name, "\", expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT")};
}

/// A classifier with text as labels, as one whose labels are their positions; lives no longer than `node`.
std::shared_ptr<frontend::Operator const> with_positions(NodeView const& node, InferFunction infer,
                                                         LowerFunction lower);
/// Whether labels are text, and then the node as a procedure.
inline bool has_text_labels(frontend::ProcedureContext const& p, NodeView const&) {
    return p.outputs[0].dtype == DataType::String;
}

/// Labels of classes: the numbers, or if they are text their positions.
struct ClassLabels {
    std::vector<int64_t> numbers;
    std::vector<std::string> texts;

    size_t count() const { return texts.empty() ? numbers.size() : texts.size(); }
};
/// `integers`: name of the attribute that holds numbers. Exactly one list must be given.
inline Inferred<ClassLabels> class_labels_of(NodeView const& n, std::string_view integers) {
    ClassLabels labels{list_of<int64_t>(n, integers), list_of<std::string>(n, "classlabels_strings")};
    if (labels.numbers.empty() == labels.texts.empty())
        return Err{invalid(labels.texts.size(), " classlabels_strings and ", labels.numbers.size(), " ", integers,
                           ", expected one of the lists")};
    return labels;
}

/// [N, F] of a table, whose one-dimensional form is one row.
inline Status expect_table(InferContext& c) { return frontend::expect_rank(c.input(0), 1, 2); }
inline DimExpr rows_of(Shape const& x) { return x.size() == 1 ? DimExpr(1) : x[0]; }
/// Refuses a number of columns that is known not to be `expected`.
inline Status expect_columns(InferContext& c, int64_t expected) {
    return c.expect_equal(c.shape(0).back(), DimExpr(expected), "the number of columns");
}

/// Scores [N, C] after the transform; C is at least 2, or the transform is PROBIT.
LowerContext::Edge emit_post_transform(LowerContext& c, LowerContext::Edge scores, kernel::PostTransform transform);
/// Scores of two classes from that of the second one, [N, 1]. `complement`: they add up to 1 if they are not
/// transformed.
LowerContext::Edge emit_binary_scores(LowerContext& c, LowerContext::Edge score, kernel::PostTransform transform,
                                      bool complement);
/// The labels at positions `index` (i64); text stays positions.
LowerContext::Edge emit_labels(LowerContext& c, LowerContext::Edge index, ClassLabels const& labels);
/// Input 0 as f32 [N, F].
LowerContext::Edge emit_table(LowerContext& c);

}  // namespace refactor::onnx
