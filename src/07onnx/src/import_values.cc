#include "frontend/operator.h"
#include "importer.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::onnx {

using frontend::concat;
using frontend::InferContext;
using frontend::Tensor;
using frontend::TensorValue;

namespace {

constexpr size_t kMaxRank = InferContext::kMaxRank;

}  // namespace

std::optional<Shape> Importer::declared_shape(std::string const& name, DeclaredType const& type) {
    if (!type.shape) return std::nullopt;
    if (type.shape->size() > kMaxRank) {
        problems_.unsupported.push_back(concat("\"", shortened(name), "\" has ", type.shape->size(), " axes, at most ",
                                               kMaxRank, " are supported"));
        return std::nullopt;
    }
    Shape shape;
    int64_t count = 1;
    for (size_t i = 0; i < type.shape->size(); ++i) {
        auto const& dim = (*type.shape)[i];
        auto* number = std::get_if<int64_t>(&dim);
        auto* symbol = std::get_if<std::string>(&dim);
        if (number && *number >= 0) {
            shape.emplace_back(*number);
            bool huge = __builtin_mul_overflow(count, std::max<int64_t>(*number, 1), &count);
            if (huge || count > InferContext::kMaxBytes) {
                add_invalid(concat("the sizes of \"", shortened(name), "\" are absurd: more than 2^40 elements"));
                return std::nullopt;
            }
        } else if (symbol && !symbol->empty() && *symbol != "?") {
            shape.push_back(DimExpr::symbol(symbols_.intern(*symbol)));
        } else {
            // Negative sizes and nameless symbols stand for "unknown" in models of some exporters.
            shape.push_back(DimExpr::symbol(symbols_.intern(concat(name, ".", i))));
        }
    }
    return shape;
}

Tensor Importer::declared_type(std::string const& name, DeclaredType const& type, bool is_optional) {
    Tensor tensor;
    tensor.name = name, tensor.kind = type.kind;
    if (type.element) {
        // Types within types need neither a name nor a shape of their own.
        auto element = declared_type(name, *type.element, true);
        if (element.is_tensor() && type.kind != frontend::ValueKind::Optional) element.shape.reset();
        tensor.element = std::make_shared<Tensor const>(std::move(element));
    }
    auto dtype = data_type_from_onnx(type.dtype);
    if (dtype)
        tensor.dtype = *dtype;
    else if (type.dtype != 0 || (!is_optional && tensor.is_tensor()))
        add_invalid(concat("\"", shortened(name), "\" has the unknown element type ", type.dtype));
    tensor.shape = declared_shape(name, type);
    return tensor;
}

Tensor Importer::input_tensor(GraphBuilder::Value const& value) {
    // The inputs of a sub-graph may leave their types to inference.
    return declared_type(value.name, value.type, depth_ > 1);
}

std::optional<TensorValue> Importer::tensor_value(RawTensor& raw, std::string const& what) {
    if (raw.refused) return ++refused_, std::nullopt;
    auto dtype = data_type_from_onnx(raw.dtype);
    if (!dtype) {
        add_invalid(concat(what, " has the unknown element type ", raw.dtype));
        return std::nullopt;
    }
    if (raw.dims.size() > kMaxRank) {
        problems_.unsupported.push_back(
            concat(what, " has ", raw.dims.size(), " axes, at most ", kMaxRank, " are supported"));
        return std::nullopt;
    }
    int64_t count = 1;
    bool empty = std::find(raw.dims.begin(), raw.dims.end(), 0) != raw.dims.end();
    for (auto size : raw.dims) {
        bool huge = !empty && (__builtin_mul_overflow(count, size, &count) || count > InferContext::kMaxBytes);
        if (size >= 0 && !huge) continue;
        add_invalid(
            concat(what, " has the size ", size, size < 0 ? ", which is negative" : ": more than 2^40 elements"));
        return std::nullopt;
    }
    if (empty) count = 0;
    auto expected = storage_bytes(*dtype, count), actual = raw.blob ? raw.blob->bytes() : 0;
    if (*dtype != DataType::String && actual != expected) {
        add_invalid(concat(what, " (", name_of(*dtype), ", ", count, " elements) has ", actual,
                           " bytes of data, expected ", expected));
        return std::nullopt;
    }
    if (*dtype == DataType::String && raw.strings.size() != static_cast<size_t>(count)) {
        add_invalid(concat(what, " (string, ", count, " elements) has ", raw.strings.size(), " texts"));
        return std::nullopt;
    }
    return TensorValue{*dtype, Dims(raw.dims.begin(), raw.dims.end()), std::move(raw.blob), std::move(raw.strings)};
}

}  // namespace refactor::onnx
