#include "runtime/value.h"

#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/pinned.h"

#include <algorithm>

namespace refactor::runtime {

namespace {

bool is_on_host(Value const& value) {
    if (value.blob && &value.blob->device() != &mem_manager::cpu_device()) return false;
    return !value.contents || std::ranges::all_of(value.contents->elements, is_on_host);
}

}  // namespace

std::string_view name_of(ValueKind kind) {
    constexpr std::string_view kNames[] = {"tensor", "sequence", "optional", "map"};
    return kNames[static_cast<size_t>(kind)];
}

Value Value::strings(Dims dims, std::vector<std::string> elements) {
    return {DataType::String, std::move(dims), nullptr, ValueKind::Tensor,
            std::make_shared<Contents const>(Contents{std::move(elements), {}})};
}

Value Value::sequence(std::vector<Value> elements) {
    return {DataType::Undefined,
            {},
            nullptr,
            ValueKind::Sequence,
            std::make_shared<Contents>(Contents{{}, std::move(elements)})};
}

Value Value::nothing() {
    return {DataType::Undefined, {}, nullptr, ValueKind::Optional, std::make_shared<Contents const>()};
}

Value Value::map(Value keys, Value values) {
    std::vector<Value> both;
    both.reserve(2);
    both.push_back(std::move(keys)), both.push_back(std::move(values));
    return {
        DataType::Undefined, {}, nullptr, ValueKind::Map, std::make_shared<Contents>(Contents{{}, std::move(both)})};
}

void* Value::resize(DataType type, Dims const& sizes) {
    auto bytes = storage_bytes(type, element_count(sizes));
    if (!blob || blob.use_count() > 1 || blob->bytes() != bytes)
        blob = mem_manager::Blob::make(mem_manager::cpu_device(), bytes);
    dtype = type, kind = ValueKind::Tensor, contents = nullptr;
    if (!(dims == sizes)) dims = sizes;
    return blob->data();
}

Value on_host(Value const& value) {
    auto result = value;
    if (is_on_host(value)) return result;
    if (value.blob && &value.blob->device() != &mem_manager::cpu_device()) {
        result.blob = mem_manager::make_pinned(value.blob->device(), value.blob->bytes());
        value.blob->device().copy_to_host(result.blob->data(), value.blob->data(), value.blob->bytes());
    }
    if (value.contents && !value.contents->elements.empty()) {
        auto contents = std::make_shared<Contents>();
        contents->strings = value.contents->strings;
        for (auto const& element : value.contents->elements) contents->elements.push_back(on_host(element));
        result.contents = std::move(contents);
    }
    return result;
}

void const* Value::raw() const { return blob ? blob->data() : nullptr; }

std::string describe(DataType dtype, std::span<int64_t const> dims) {
    std::string text(name_of(dtype));
    text += '[';
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i) text += ", ";
        text += std::to_string(dims[i]);
    }
    return text += ']';
}

std::string describe(Value const& value) {
    switch (value.kind) {
        case ValueKind::Tensor:
            return describe(value.dtype, value.dims);
        case ValueKind::Sequence:
            return "sequence of " + std::to_string(value.contents->elements.size());
        case ValueKind::Map:
            return "map of " + std::to_string(value.contents->elements[0].count());
        case ValueKind::Optional:
            return "nothing";
    }
    return {};
}

}  // namespace refactor::runtime
