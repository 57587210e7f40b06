#include "passes/constants.h"

#include "common/half.h"
#include "mem_manager/blob.h"

namespace refactor::computation {

namespace {

template <class T>
EdgePtr add_copy(Graph& graph, std::string name, DataType dtype, Shape shape, std::span<T> elements) {
    auto blob = mem_manager::Blob::copy_of(elements.data(), elements.size_bytes());
    return add_constant(graph, std::move(name), dtype, std::move(shape), std::move(blob));
}

Shape vector_of(size_t count) { return {DimExpr(static_cast<int64_t>(count))}; }

}  // namespace

std::optional<std::vector<double>> numbers_of(EdgePtr edge) {
    auto count = element_count(edge->value.shape).constant();
    auto dtype = edge->value.dtype;
    if (!edge->value.constant || !count || (!is_float(dtype) && !is_integer(dtype))) return std::nullopt;
    std::vector<double> values(static_cast<size_t>(*count));
    mem_manager::Blob::Reader reader(*edge->value.constant);
    if (!convert(dtype, reader.data(), DataType::F64, values.data(), *count)) return std::nullopt;
    return values;
}

EdgePtr add_constant(Graph& graph, std::string name, DataType dtype, Shape shape,
                     std::shared_ptr<mem_manager::Blob const> blob) {
    return graph.add_source({std::move(name), dtype, std::move(shape), {}, std::move(blob), false});
}

EdgePtr add_constant(Graph& graph, std::string name, Shape shape, std::span<float const> elements) {
    return add_copy(graph, std::move(name), DataType::F32, std::move(shape), elements);
}

EdgePtr add_made(Graph& graph, std::string name, DataType dtype, Dims const& dims, std::vector<SharedBlob> from,
                 Maker make) {
    auto bytes = storage_bytes(dtype, element_count(dims));
    return add_constant(graph, std::move(name), dtype, Shape(dims.begin(), dims.end()),
                        mem_manager::Blob::lazy(bytes, made_of(std::move(from), std::move(make))));
}

EdgePtr add_numbers(Graph& graph, std::string name, std::vector<float> const& values) {
    return add_copy(graph, std::move(name), DataType::F32, vector_of(values.size()), std::span(values));
}

EdgePtr add_numbers(Graph& graph, std::string name, std::vector<int32_t> const& values) {
    return add_copy(graph, std::move(name), DataType::I32, vector_of(values.size()), std::span(values));
}

EdgePtr add_bytes(Graph& graph, std::string name, DataType byte, std::vector<double> const& values) {
    std::vector<uint8_t> bytes;
    for (auto value : values) bytes.push_back(static_cast<uint8_t>(static_cast<int32_t>(value)));
    auto shape = bytes.size() > 1 ? vector_of(bytes.size()) : Shape{};
    return add_copy(graph, std::move(name), byte, std::move(shape), std::span<uint8_t const>(bytes));
}

EdgePtr add_scalar(Graph& graph, std::string name, DataType byte, int32_t value) {
    return add_bytes(graph, std::move(name), byte, {static_cast<double>(value)});
}

}  // namespace refactor::computation
