#pragma once
#include "computation/graph.h"
#include "made_constants.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refactor::computation {

/// The elements of a constant of any numeric type.
std::optional<std::vector<double>> numbers_of(EdgePtr edge);

/// Adds a constant.
EdgePtr add_constant(Graph& graph, std::string name, DataType dtype, Shape shape,
                     std::shared_ptr<mem_manager::Blob const> blob);
/// Adds a constant of f32.
EdgePtr add_constant(Graph& graph, std::string name, Shape shape, std::span<float const> elements);
/// Adds one that `make` writes when it is read.
EdgePtr add_made(Graph& graph, std::string name, DataType dtype, Dims const& dims, std::vector<SharedBlob> from,
                 Maker make);
/// Adds a vector.
EdgePtr add_numbers(Graph& graph, std::string name, std::vector<float> const& values);
EdgePtr add_numbers(Graph& graph, std::string name, std::vector<int32_t> const& values);
/// Adds a vector of bytes, or a scalar if it is just one.
EdgePtr add_bytes(Graph& graph, std::string name, DataType byte, std::vector<double> const& values);
EdgePtr add_scalar(Graph& graph, std::string name, DataType byte, int32_t value);

}  // namespace refactor::computation
