#include "passes/estimates.h"

#include <algorithm>

namespace refactor::computation {

namespace {

constexpr int64_t kAssumed = 256;

}  // namespace

Dims known_dims(EdgePtr edge) {
    Dims dims;
    for (auto const& size : edge->value.shape) dims.push_back(size.constant().value_or(-1));
    return dims;
}

AssumedSizes::AssumedSizes(Model const& model) : bindings_(model.symbols.size(), kAssumed) {
    std::vector<SymbolId> batches, others;
    for (auto* input : model.graph.inputs()) {
        auto const& shape = input->value.shape;
        for (size_t axis = 0; axis < shape.size(); ++axis)
            for (auto symbol : shape[axis].symbols())
                (axis == 0 && shape.size() > 1 ? batches : others).push_back(symbol);
    }
    for (auto symbol : batches)
        if (std::find(others.begin(), others.end(), symbol) == others.end()) bindings_[symbol] = 1;
}

int64_t AssumedSizes::of(DimExpr const& size) const {
    // Sizes that only some inputs have may come out as none.
    auto value = size.evaluate(bindings_).value_or(kAssumed);
    return value < 1 && !size.is_constant() ? kAssumed : value;
}

Dims AssumedSizes::dims_of(EdgePtr edge) const {
    Dims dims;
    for (auto const& size : edge->value.shape) dims.push_back(of(size));
    return dims;
}

double AssumedSizes::bytes_of(EdgePtr edge) const {
    double bytes = static_cast<double>(storage_bytes(edge->value.dtype, 1));
    for (auto const& size : edge->value.shape) bytes *= static_cast<double>(of(size));
    return bytes;
}

kernel::Operand operand_of(EdgePtr edge, Dims dims) {
    kernel::Operand operand;
    operand.dtype = edge->value.dtype, operand.layout = edge->value.layout, operand.dims = std::move(dims);
    operand.constant = edge->value.constant;
    return operand;
}

std::optional<double> fastest(kernel::Candidates const& found, std::span<kernel::Operand const> inputs,
                              kernel::Operand const& output, int threads) {
    kernel::PackCache packs;
    std::vector<kernel::TensorDesc const*> descs;
    for (auto const& input : inputs) descs.push_back(&input);
    kernel::TensorDesc const* outputs[] = {&output};
    std::optional<double> best;
    for (auto const& kernel : found.kernels) {
        auto time = kernel->estimate({descs, outputs, {}, packs, threads});
        if (time && (!best || *time < *best)) best = *time;
    }
    return best;
}

}  // namespace refactor::computation
