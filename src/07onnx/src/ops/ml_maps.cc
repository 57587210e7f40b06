#include "frontend/recorded.h"
#include "ops/ml_attributes.h"

#include <cstring>

// CastMap, DictVectorizer, ZipMap.

namespace refactor::onnx {

namespace {

using frontend::Tensor;
using frontend::ValueKind;

/// [1, count] of a map's values; unknown if there is no count.
Status set_row(InferContext& c, DataType dtype, std::optional<int64_t> count) {
    return c.set(0, dtype, {DimExpr(1), count ? DimExpr(*count) : c.fresh(0)});
}

// ---------------------------------------------------------------------- CastMap
Inferred<kernel::CastMapInfo> cast_of(NodeView const& n) {
    kernel::CastMapInfo info;
    auto to = n.text("cast_to", "TO_FLOAT"), form = n.text("map_form", "DENSE");
    if (to != "TO_FLOAT" && to != "TO_STRING" && to != "TO_INT64")
        return Err{invalid("cast_to is \"", to, "\", expected TO_FLOAT, TO_STRING or TO_INT64")};
    if (form != "DENSE" && form != "SPARSE")
        return Err{invalid("map_form is \"", form, "\", expected DENSE or SPARSE")};
    info.to = to == "TO_FLOAT" ? DataType::F32 : to == "TO_STRING" ? DataType::String : DataType::I64;
    if (form == "SPARSE") {
        info.size = n.integer("max_map", 1);
        if (info.size < 1) return Err{invalid("max_map is ", info.size, ", expected at least 1")};
    }
    return info;
}

Status infer_cast_map(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, cast_of(n));
    auto const& map = c.input(0);
    auto values = map.element->dtype;
    if (map.dtype != DataType::I64 || (values != DataType::F32 && values != DataType::String))
        return invalid("X is a map from ", name_of(map.dtype), " to ", name_of(values),
                       ", expected i64 to f32 or text");
    return set_row(c, info.to, info.size < 0 ? std::nullopt : std::optional(info.size));
}

Inferred<frontend::ProcedurePtr> cast_map_procedure(frontend::ProcedureContext const&, NodeView const& n) {
    RG_TRY(info, cast_of(n));
    return frontend::record<kernel::make_cast_map>(info);
}

// ---------------------------------------------------------------------- DictVectorizer
Status infer_vectorizer(InferContext& c, NodeView const& n) {
    auto texts = list_of<std::string>(n, "string_vocabulary").size(), numbers = n.integers("int64_vocabulary").size();
    if ((texts == 0) == (numbers == 0))
        return invalid("string_vocabulary has ", texts, " and int64_vocabulary ", numbers,
                       " elements, expected one of the lists");
    auto const& map = c.input(0);
    auto expected = texts ? DataType::String : DataType::I64;
    if (map.dtype != expected)
        return invalid("X is a map from ", name_of(map.dtype), ", the vocabulary is of ", name_of(expected));
    return set_row(c, map.element->dtype, static_cast<int64_t>(texts + numbers));
}

Inferred<frontend::ProcedurePtr> vectorizer_procedure(frontend::ProcedureContext const&, NodeView const& n) {
    return frontend::record<kernel::make_dict_vectorizer>(
        kernel::VocabularyInfo{list_of<std::string>(n, "string_vocabulary"), n.integers("int64_vocabulary")});
}

// ---------------------------------------------------------------------- ZipMap
Status infer_zip_map(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(labels, class_labels_of(n, "classlabels_int64s"));
    RG_CHECK_STATUS(expect_columns(c, static_cast<int64_t>(labels.count())));
    Tensor number, map;
    number.dtype = DataType::F32, number.shape = Shape{DimExpr(static_cast<int64_t>(labels.count()))};
    map.kind = ValueKind::Map, map.dtype = labels.texts.empty() ? DataType::I64 : DataType::String;
    map.element = std::make_shared<Tensor const>(std::move(number));
    c.set_kind(0, ValueKind::Sequence, std::move(map));
    return std::nullopt;
}

Inferred<frontend::ProcedurePtr> zip_map_procedure(frontend::ProcedureContext const&, NodeView const& n) {
    RG_TRY(labels, class_labels_of(n, "classlabels_int64s"));
    Dims dims{static_cast<int64_t>(labels.count())};
    if (!labels.texts.empty())
        return frontend::record<kernel::make_zip_map>(runtime::Value::strings(dims, labels.texts));
    runtime::Value keys;
    std::memcpy(keys.resize(DataType::I64, dims), labels.numbers.data(), labels.numbers.size() * sizeof(int64_t));
    return frontend::record<kernel::make_zip_map>(std::move(keys));
}

}  // namespace

void define_ml_maps(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "CastMap",
                   .types = {{kAny, 0, kMaps}},
                   .attributes = {{"cast_to", K::String}, {"map_form", K::String}, {"max_map", K::Int}},
                   .infer = infer_cast_map,
                   .domain = kMlDomain,
                   .procedure = cast_map_procedure});
    all.push_back({.name = "DictVectorizer",
                   .types = {{kAny, 0, kMaps}},
                   .attributes = {{"int64_vocabulary", K::Ints}, {"string_vocabulary", K::Strings}},
                   .infer = infer_vectorizer,
                   .domain = kMlDomain,
                   .procedure = vectorizer_procedure});
    all.push_back({.name = "ZipMap",
                   .types = {{types(DataType::F32)}},
                   .attributes = {{"classlabels_int64s", K::Ints}, {"classlabels_strings", K::Strings}},
                   .infer = infer_zip_map,
                   .domain = kMlDomain,
                   .procedure = zip_map_procedure});
}

}  // namespace refactor::onnx
