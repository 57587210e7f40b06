#include "frontend/recorded.h"
#include "frontend/shape_rules.h"
#include "operator_def.h"

// StringConcat, StringNormalizer, StringSplit.

namespace refactor::onnx {

namespace {

using frontend::ProcedureContext;
using frontend::ProcedurePtr;

constexpr TypeSet kText = types(DataType::String);

std::vector<std::string> texts(NodeView const& n, std::string_view name) {
    auto* list = n.get<std::vector<std::string>>(name);
    return list ? *list : std::vector<std::string>{};
}

Status infer_concat(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(shape, frontend::broadcast_shapes({c.shape(0), c.shape(1)}, c.symbols()));
    return c.set(0, DataType::String, shape);
}

Inferred<ProcedurePtr> concat_procedure(ProcedureContext const&, NodeView const&) {
    return frontend::record<kernel::make_text_concat>();
}

Status infer_split(InferContext& c, NodeView const&) {
    auto shape = c.shape(0);
    RG_CHECK_STATUS(c.set(1, DataType::I64, shape));
    shape.push_back(c.fresh(0));
    return c.set(0, DataType::String, std::move(shape));
}

Inferred<ProcedurePtr> split_procedure(ProcedureContext const&, NodeView const& n) {
    return frontend::record<kernel::make_text_split>(
        kernel::TextSplitInfo{std::string(n.text("delimiter", "")), n.integer("maxsplit", -1)});
}

Inferred<kernel::TextNormalizerInfo::Case> case_of(NodeView const& n) {
    using Case = kernel::TextNormalizerInfo::Case;
    auto action = n.text("case_change_action", "NONE");
    if (action == "NONE") return Case::None;
    if (action == "LOWER") return Case::Lower;
    if (action == "UPPER") return Case::Upper;
    return Err{invalid("case_change_action is \"", action, "\", expected \"LOWER\", \"UPPER\" or \"NONE\"")};
}

/// The languages whose letters change case by rules of their own.
Status check_locale(NodeView const& n) {
    auto locale = n.text("locale", "");
    auto language = locale.substr(0, locale.find_first_of("_-.@"));
    for (std::string_view special : {"az", "lt", "tr"})
        if (language == special) return unsupported("the case rules of locale \"", locale, "\"");
    return std::nullopt;
}

Status infer_normalizer(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(change, case_of(n));
    RG_CHECK_STATUS(check_locale(n));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 1, 2));
    auto shape = c.shape(0);
    if (shape.size() == 2 && shape[0].constant().value_or(1) != 1)
        return invalid("the input has the shape ", c.text(shape), ", expected [C] or [1, C]");
    if (shape.size() == 2) shape[0] = 1;
    shape.back() = c.fresh(0);
    return c.set(0, DataType::String, std::move(shape));
}

Inferred<ProcedurePtr> normalizer_procedure(ProcedureContext const&, NodeView const& n) {
    RG_TRY(change, case_of(n));
    return frontend::record<kernel::make_text_normalizer>(
        kernel::TextNormalizerInfo{change, n.integer("is_case_sensitive", 0) != 0, texts(n, "stopwords")});
}

}  // namespace

void define_text_strings(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "StringConcat",
                   .since = 20,
                   .inputs = {2, 2},
                   .types = {{kText}},
                   .infer = infer_concat,
                   .procedure = concat_procedure});
    all.push_back({.name = "StringNormalizer",
                   .since = 10,
                   .types = {{kText}},
                   .attributes = {{"case_change_action", K::String},
                                  {"is_case_sensitive", K::Int},
                                  {"locale", K::String},
                                  {"stopwords", K::Strings}},
                   .infer = infer_normalizer,
                   .procedure = normalizer_procedure});
    all.push_back({.name = "StringSplit",
                   .since = 20,
                   .outputs = {1, 2},
                   .types = {{kText}},
                   .attributes = {{"delimiter", K::String}, {"maxsplit", K::Int}},
                   .infer = infer_split,
                   .procedure = split_procedure});
}

}  // namespace refactor::onnx
