#include "passes/estimates.h"

namespace refactor::computation {

namespace {

/// Stands for sizes that are not known: where it matters which kernel is chosen, they are large.
constexpr int64_t kLarge = 128;

}  // namespace

Dims known_dims(EdgePtr edge) {
    Dims dims;
    for (auto const& size : edge->value.shape) dims.push_back(size.constant().value_or(-1));
    return dims;
}

Dims large_dims(EdgePtr edge) {
    auto dims = known_dims(edge);
    for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] < 0) dims[i] = i == 0 ? 1 : kLarge;
    return dims;
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
