#include "computation/operator.h"
#include "frontend/recorded.h"
#include "kernel/ops/lookup.h"
#include "ops/ml_attributes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

// LabelEncoder, CategoryMapper: tables that elements are looked up in.

namespace refactor::onnx {

namespace {

using frontend::TensorValue;

TensorValue tensor_of(DataType dtype, void const* data, size_t count) {
    return {dtype, {static_cast<int64_t>(count)}, mem_manager::Blob::copy_of(data, storage_bytes(dtype, 1) * count)};
}

std::optional<TensorValue> attribute_of(NodeView const& n, std::string_view name) {
    if (auto* tensor = n.get<TensorValue>(name)) return *tensor;
    if (auto* texts = n.get<std::vector<std::string>>(name); texts && !texts->empty())
        return TensorValue{DataType::String, {static_cast<int64_t>(texts->size())}, nullptr, *texts};
    if (auto* list = n.get<std::vector<int64_t>>(name); list && !list->empty())
        return tensor_of(DataType::I64, list->data(), list->size());
    if (auto* list = n.get<std::vector<float>>(name); list && !list->empty())
        return tensor_of(DataType::F32, list->data(), list->size());
    return std::nullopt;
}

/// The one of `prefix` + "_strings", "_int64s", "_floats" and "_tensor" that is given.
Inferred<TensorValue> one_list_of(NodeView const& n, std::string const& prefix) {
    std::optional<TensorValue> found;
    int given = 0;
    for (auto suffix : {"_strings", "_int64s", "_floats", "_tensor"})
        if (auto list = attribute_of(n, prefix + suffix)) found = std::move(list), ++given;
    if (given != 1) return Err{invalid(given, " lists ", prefix, "_* are given, expected one")};
    return std::move(*found);
}

runtime::Value value_of(TensorValue const& tensor) {
    if (tensor.dtype == DataType::String) return runtime::Value::strings(tensor.dims, tensor.strings);
    runtime::Value value;
    auto bytes = storage_bytes(tensor.dtype, element_count(tensor.dims));
    std::memcpy(value.resize(tensor.dtype, tensor.dims), tensor.blob->data(), bytes);
    return value;
}

/// `fallback` has one element.
struct Table {
    TensorValue keys, values, fallback;
    bool last_counts = false, matches_nan = false;

    int64_t count() const { return element_count(keys.dims); }
};

/// Number or text that stands for anything else, by the type of the values.
Inferred<TensorValue> fallback_of(NodeView const& n, DataType dtype) {
    if (auto* tensor = n.get<TensorValue>("default_tensor")) {
        if (tensor->dtype != dtype || element_count(tensor->dims) != 1)
            return Err{invalid("default_tensor has ", element_count(tensor->dims), " elements of ",
                               name_of(tensor->dtype), ", expected one ", name_of(dtype))};
        return *tensor;
    }
    if (dtype == DataType::String)
        return TensorValue{dtype, {1}, nullptr, {std::string(n.text("default_string", "_Unused"))}};
    if (dtype == DataType::I64) {
        auto number = n.integer("default_int64", -1);
        return tensor_of(dtype, &number, 1);
    }
    double number = is_float(dtype) ? static_cast<double>(n.number("default_float", -0.f))
                                    : static_cast<double>(n.integer("default_int64", -1));
    auto blob = mem_manager::Blob::copy_of(&number, sizeof(number));
    if (dtype != DataType::F64) convert(DataType::F64, &number, dtype, blob->data(), 1);
    return TensorValue{dtype, {1}, blob};
}

/// Numbers from 0 on.
TensorValue positions(size_t count) {
    std::vector<int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return tensor_of(DataType::I64, numbers.data(), count);
}

Inferred<Table> encoder_table(NodeView const& n, DataType) {
    RG_TRY(keys, one_list_of(n, "keys"));
    RG_TRY(values, one_list_of(n, "values"));
    RG_TRY(fallback, fallback_of(n, values.dtype));
    return Table{keys, values, fallback, n.opset >= 4, n.opset >= 4};
}

/// Opset 1: text to its position, or the other way round.
Inferred<Table> classes_table(NodeView const& n, DataType x) {
    auto classes = attribute_of(n, "classes_strings");
    if (!classes) return Err{invalid("classes_strings is empty, expected at least one class")};
    auto numbers = positions(classes->strings.size());
    bool from_text = x == DataType::String;
    RG_TRY(fallback, fallback_of(n, from_text ? DataType::I64 : DataType::String));
    return from_text ? Table{*classes, numbers, fallback} : Table{numbers, *classes, fallback};
}

Inferred<Table> category_table(NodeView const& n, DataType x) {
    auto texts = attribute_of(n, "cats_strings"), numbers = attribute_of(n, "cats_int64s");
    if (!texts || !numbers) return Err{invalid("cats_strings or cats_int64s is empty, expected pairs of both")};
    bool from_text = x == DataType::String;
    RG_TRY(fallback, fallback_of(n, from_text ? DataType::I64 : DataType::String));
    return from_text ? Table{*texts, *numbers, fallback, true} : Table{*numbers, *texts, fallback, true};
}

Inferred<Table> table_of(NodeView const& n, DataType x) {
    RG_TRY(table, n.op_type == "CategoryMapper" ? category_table(n, x)
                  : n.opset == 1                ? classes_table(n, x)
                                                : encoder_table(n, x));
    auto keys = table.count(), values = element_count(table.values.dims);
    if (keys != values) return Err{invalid(values, " values, expected ", keys, " as keys")};
    if (table.keys.dtype != x) return Err{invalid("X is ", name_of(x), ", the keys are ", name_of(table.keys.dtype))};
    return std::move(table);
}

template <class T>
void append_codes(Table const& table, std::vector<uint64_t>& codes) {
    auto const* data = static_cast<T const*>(table.keys.blob->data());
    for (int64_t i = 0; i < table.count(); ++i) codes.push_back(kernel::lookup_code(data[i]));
}

/// Codes of keys that are numbers.
std::vector<uint64_t> codes_of(Table const& table) {
    std::vector<uint64_t> codes;
    switch (table.keys.dtype) {
        case DataType::F32:
            append_codes<float>(table, codes);
            break;
        case DataType::F64:
            append_codes<double>(table, codes);
            break;
        case DataType::I16:
            append_codes<int16_t>(table, codes);
            break;
        case DataType::I32:
            append_codes<int32_t>(table, codes);
            break;
        default:
            append_codes<int64_t>(table, codes);
    }
    return codes;
}

/// Numbers of the keys, each key once: the one that counts.
template <class Key>
std::vector<size_t> winners(std::vector<Key> const& keys, bool last_counts, Key const* ignored) {
    std::vector<size_t> order;
    std::set<Key> seen;
    for (size_t i = 0; i < keys.size(); ++i) {
        auto at = last_counts ? keys.size() - 1 - i : i;
        if (!(ignored && keys[at] == *ignored) && seen.insert(keys[at]).second) order.push_back(at);
    }
    return order;
}

std::vector<size_t> winners(Table const& table) {
    static constexpr uint64_t kNan = UINT64_MAX;
    if (table.keys.dtype == DataType::String)
        return winners<std::string>(table.keys.strings, table.last_counts, nullptr);
    bool hides_nan = is_float(table.keys.dtype) && !table.matches_nan;
    return winners(codes_of(table), table.last_counts, hides_nan ? &kNan : nullptr);
}

/// The elements `order` of a list.
TensorValue picked(TensorValue const& list, std::vector<size_t> const& order) {
    TensorValue out{list.dtype, {static_cast<int64_t>(order.size())}, nullptr};
    if (list.dtype == DataType::String) {
        for (auto i : order) out.strings.push_back(list.strings[i]);
        return out;
    }
    auto bytes = storage_bytes(list.dtype, 1);
    std::vector<std::byte> data;
    auto const* from = static_cast<std::byte const*>(list.blob->data());
    for (auto i : order) data.insert(data.end(), from + i * bytes, from + (i + 1) * bytes);
    out.blob = mem_manager::Blob::copy_of(data.data(), data.size());
    return out;
}

Status infer_lookup(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(table, table_of(n, c.dtype(0)));
    return c.set(0, table.values.dtype, c.shape(0));
}

Status lower_lookup(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(table, table_of(n, c.dtype(0)));
    auto codes = codes_of(table);
    auto order = winners(table);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return codes[a] < codes[b]; });
    std::vector<uint64_t> sorted;
    for (auto i : order) sorted.push_back(codes[i]);
    auto values = picked(table.values, order);
    auto list = tensor_of(DataType::U64, sorted.data(), sorted.size());
    c.emit_output(
        computation::make_operator(kernel::LookupInfo{}),
        {c.edge(0), c.constant(list.dtype, list.dims, list.blob), c.constant(values.dtype, values.dims, values.blob),
         c.constant(table.fallback.dtype, {1}, table.fallback.blob)});
    return std::nullopt;
}

bool is_text_lookup(frontend::ProcedureContext const& p, NodeView const&) {
    return p.dtype(0) == DataType::String || p.outputs[0].dtype == DataType::String;
}

Inferred<frontend::ProcedurePtr> lookup_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    RG_TRY(table, table_of(n, p.dtype(0)));
    auto order = winners(table);
    kernel::TextLookupInfo info;
    if (table.keys.dtype == DataType::String)
        info.keys.texts = picked(table.keys, order).strings;
    else
        for (auto codes = codes_of(table); auto i : order) info.keys.codes.push_back(codes[i]);
    info.values = value_of(picked(table.values, order)), info.fallback = value_of(table.fallback);
    return frontend::record<kernel::make_text_lookup>(std::move(info));
}

}  // namespace

void define_ml_labels(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kTextOrNumber = types(DataType::I64, DataType::String);
    OperatorDef encoder{
        .name = "LabelEncoder",
        .types = {{kTextOrNumber}},
        .attributes = {{"classes_strings", K::Strings}, {"default_int64", K::Int}, {"default_string", K::String}},
        .infer = infer_lookup,
        .lower = lower_lookup,
        .domain = kMlDomain,
        .procedure = lookup_procedure,
        .is_procedure = is_text_lookup};
    all.push_back(encoder);
    auto mapper = encoder;
    mapper.name = "CategoryMapper", mapper.attributes[0].name = "cats_strings";
    mapper.attributes.push_back({"cats_int64s", K::Ints});
    all.push_back(std::move(mapper));
    encoder.since = 2, encoder.types = {{kTextOrNumber | types(DataType::F32)}};
    encoder.attributes[0] = {"default_float", K::Float};
    encoder.attributes.insert(encoder.attributes.end(), {{"keys_floats", K::Floats},
                                                         {"keys_int64s", K::Ints},
                                                         {"keys_strings", K::Strings},
                                                         {"values_floats", K::Floats},
                                                         {"values_int64s", K::Ints},
                                                         {"values_strings", K::Strings}});
    all.push_back(encoder);
    encoder.since = 4, encoder.types = {{kMlNumbers | types(DataType::I16, DataType::String)}};
    for (auto name : {"default_tensor", "keys_tensor", "values_tensor"})
        encoder.attributes.push_back({name, K::Tensor});
    all.push_back(std::move(encoder));
}

}  // namespace refactor::onnx
