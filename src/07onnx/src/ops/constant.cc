#include "common/half.h"
#include "computation/operator.h"
#include "frontend/recorded.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

using frontend::TensorValue;

TensorValue make_tensor(DataType dtype, Dims dims, void const* data) {
    auto bytes = storage_bytes(dtype, element_count(dims));
    return {dtype, std::move(dims), mem_manager::Blob::copy_of(data, bytes)};
}

Inferred<TensorValue> value_of(NodeView const& n) {
    static constexpr std::string_view kNames[]{"sparse_value", "value",      "value_float",  "value_floats",
                                               "value_int",    "value_ints", "value_string", "value_strings"};
    int given = 0;
    for (auto name : kNames) given += n.has(name);
    if (given != 1) return Err{invalid(given, " values are given, expected one attribute value*")};
    for (auto name : {"value", "sparse_value"})
        if (auto* tensor = n.get<TensorValue>(name)) return *tensor;
    if (auto* x = n.get<float>("value_float")) return make_tensor(DataType::F32, {}, x);
    if (auto* x = n.get<int64_t>("value_int")) return make_tensor(DataType::I64, {}, x);
    if (auto* list = n.get<std::vector<float>>("value_floats"))
        return make_tensor(DataType::F32, {static_cast<int64_t>(list->size())}, list->data());
    if (auto* list = n.get<std::vector<int64_t>>("value_ints"))
        return make_tensor(DataType::I64, {static_cast<int64_t>(list->size())}, list->data());
    if (auto* text = n.get<std::string>("value_string")) return TensorValue{DataType::String, {}, nullptr, {*text}};
    auto const& list = *n.get<std::vector<std::string>>("value_strings");
    return TensorValue{DataType::String, {static_cast<int64_t>(list.size())}, nullptr, list};
}

Status infer_constant(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(value, value_of(n));
    RG_CHECK_STATUS(c.set(0, value.dtype, Shape(value.dims.begin(), value.dims.end())));
    if (value.dtype == DataType::String)
        c.set_literal(0, runtime::Value::strings(value.dims, value.strings));
    else
        c.set_constant(0, value.blob);
    return std::nullopt;
}

/// Constants never reach lowering: their edges are known.
Status lower_nothing(LowerContext&, NodeView const&) { return unsupported("a constant that is not known"); }

Status infer_identity(InferContext& c, NodeView const&) {
    c.copy(0, c.input(0));
    return std::nullopt;
}

bool identity_is_procedure(frontend::ProcedureContext const& p, NodeView const&) {
    return !p.inputs[0]->is_tensor() || p.dtype(0) == DataType::String;
}

Inferred<frontend::ProcedurePtr> identity_procedure(frontend::ProcedureContext const&, NodeView const&) {
    return frontend::record<kernel::make_identity>();
}

Status lower_identity(LowerContext& c, NodeView const&) {
    c.set_output(0, c.edge(0));
    return std::nullopt;
}

TensorValue const* fill_of(NodeView const& n) { return n.get<TensorValue>("value"); }

Status infer_constant_of_shape(InferContext& c, NodeView const& n) {
    auto* fill = fill_of(n);
    if (fill && fill->dtype == DataType::String) return unsupported("strings");
    if (fill && element_count(fill->dims) != 1)
        return invalid("value has ", element_count(fill->dims), " elements, expected 1");
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 1, 1));
    RG_TRY_STATUS(sizes, c.sizes(0, "the shape"));
    auto dtype = fill ? fill->dtype : DataType::F32;
    RG_CHECK_STATUS(c.set(0, dtype, sizes));
    auto count = element_count(sizes).constant();
    if (!count || *count > static_cast<int64_t>(InferContext::kMaxValues) ||
        !(is_integer(dtype) || dtype == DataType::Bool))
        return std::nullopt;
    int64_t value = 0;
    if (fill && !convert(dtype, fill->blob->data(), DataType::I64, &value, 1)) return std::nullopt;
    c.set_values(0, std::vector<DimExpr>(static_cast<size_t>(*count), DimExpr(value)));
    return std::nullopt;
}

Status lower_constant_of_shape(LowerContext& c, NodeView const& n) {
    auto* fill = fill_of(n);
    auto one = fill ? c.constant(fill->dtype, {}, fill->blob) : c.scalar(DataType::F32, 0);
    c.emit_output(computation::make_operator(kernel::ExpandInfo{}), {one});
    return std::nullopt;
}

}  // namespace

void define_constant(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Constant",
                   .inputs = {0, 0},
                   .attributes = {{"sparse_value", K::Tensor},
                                  {"value", K::Tensor},
                                  {"value_float", K::Float},
                                  {"value_floats", K::Floats},
                                  {"value_int", K::Int},
                                  {"value_ints", K::Ints},
                                  {"value_string", K::String},
                                  {"value_strings", K::Strings}},
                   .infer = infer_constant,
                   .lower = lower_nothing});
    all.push_back({.name = "Identity",
                   .types = {{kAny, 0, kAnyKind}},
                   .infer = infer_identity,
                   .lower = lower_identity,
                   .procedure = identity_procedure,
                   .is_procedure = identity_is_procedure});
    all.push_back({.name = "ConstantOfShape",
                   .since = 9,
                   .types = {{kI64}},
                   .attributes = {{"value", K::Tensor}},
                   .infer = infer_constant_of_shape,
                   .lower = lower_constant_of_shape});
}

}  // namespace refactor::onnx
