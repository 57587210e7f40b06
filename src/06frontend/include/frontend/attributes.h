#pragma once
#include "common/data_type.h"
#include "common/small_vector.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace refactor::mem_manager {
class Blob;
}

namespace refactor::frontend {

struct Graph;
struct Tensor;

/// A tensor whose content is part of the model: row-major host data of exactly `storage_bytes(dtype, count)` bytes;
/// null for strings.
struct TensorValue {
    DataType dtype = DataType::Undefined;
    Dims dims;
    std::shared_ptr<mem_manager::Blob const> blob;
    std::vector<std::string> strings = {};
};

/// A value fixed in the model: numbers, text, lists of them, a tensor, a sub-graph, or a type.
using Attribute =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
                 TensorValue, std::shared_ptr<Graph const>, std::shared_ptr<Tensor const>>;
/// "int", "floats", "tensor", "graph", …
std::string_view kind_of(Attribute const& attribute);

/// In the order of the model; importers have checked that no name occurs twice.
using Attributes = std::vector<std::pair<std::string, Attribute>>;
/// The attribute called `name`, or null.
Attribute const* find(Attributes const& attributes, std::string_view name);

}  // namespace refactor::frontend
