#include "importer.h"

#include <algorithm>
#include <cstring>

namespace refactor::pnnx {

using frontend::concat;
using frontend::InferContext;
using frontend::Tensor;

std::optional<std::string> Importer::add_weight(ParamNode const& node, std::string const& key,
                                                WrittenType const& type) {
    auto name = concat(node.name, ".", key);
    if (type.dtype == DataType::Undefined) {
        unsupported(node, concat("the element type of the weight ", quoted(key)));
        return std::nullopt;
    }
    Tensor tensor;
    tensor.dtype = type.dtype;
    int64_t count = 1;
    Shape shape;
    for (auto const& dim : type.dims) {
        auto* size = std::get_if<int64_t>(&dim);
        if (!size || __builtin_mul_overflow(count, *size, &count) || count > InferContext::kMaxBytes / 16) {
            invalid(node, concat("the weight ", quoted(key), " has a size that is unknown or absurd"));
            return std::nullopt;
        }
        shape.emplace_back(*size);
    }
    tensor.shape = std::move(shape);
    if (!archive_) {
        invalid(node, concat("the weight ", quoted(key), " needs a bin file"));
        return std::nullopt;
    }
    auto bits = bits_of(type.dtype);
    auto data = archive_->read(name, static_cast<size_t>(std::clamp(bits / 8, 1, 8)));
    if (!data) {
        invalid(node, concat("the weight ", quoted(name), " cannot be read from the bin file: ", data.error()));
        return std::nullopt;
    }
    if (auto expected = storage_bytes(type.dtype, count); (*data)->bytes() != expected) {
        invalid(node, concat("the weight ", quoted(name), " has ", (*data)->bytes(),
                             " bytes in the bin file, expected ", expected));
        return std::nullopt;
    }
    tensor.constant = std::move(*data);
    // A weight that two nodes share is in the file twice, under their names.
    if (!maker_.edges.contains(name)) maker_.sources.push_back(name);
    maker_.edges[name] = std::move(tensor);
    return name;
}

void Importer::add_attribute(ParamNode const& node) {
    if (node.attributes.size() != 1 || node.outputs.size() != 1)
        return invalid(node, concat(node.attributes.size(), " weights and ", node.outputs.size(), " outputs"));
    auto name = add_weight(node, node.attributes[0].first, node.attributes[0].second);
    if (!name) return;
    Inputs inputs;
    auto position = inputs.position(*name);
    bind_term(node, node.outputs[0], Term::of_operand(position), std::move(inputs));
}

std::string const* Importer::weight_behind(std::string const& operand) const {
    auto found = bound_.find(operand);
    if (found == bound_.end() || !found->second.term.is(Term::Kind::Operand)) return nullptr;
    auto const& name = found->second.operands[static_cast<size_t>(found->second.term.integer)];
    auto edge = maker_.edges.find(name);
    return edge != maker_.edges.end() && edge->second.constant ? &name : nullptr;
}

void Importer::drop_tied_inputs(std::vector<std::string>& operands, Arguments const& weights,
                                std::vector<std::string> const& names) const {
    for (auto const& [key, term] : weights.named) {
        auto const& own = maker_.edges.at(names[static_cast<size_t>(term.integer)]);
        auto is_own = [&](std::string const& operand) {
            auto* name = weight_behind(operand);
            if (!name) return false;
            auto const& other = maker_.edges.at(*name);
            return other.dtype == own.dtype && other.shape == own.shape &&
                   std::memcmp(other.constant->data(), own.constant->data(), own.constant->bytes()) == 0;
        };
        auto found = std::find_if(operands.begin(), operands.end(), is_own);
        if (found != operands.end() && operands.size() > 1) operands.erase(found);
    }
}

}  // namespace refactor::pnnx
