#include "passes/sink_concats.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "passes/constants.h"
#include "passes/edges.h"

#include <algorithm>
#include <optional>

namespace refactor::computation {

namespace {

/// The concatenation of channels of convolutions that `edge` is, if nothing else reads any of them.
NodePtr concat_of(EdgePtr edge) {
    auto* node = edge->producer();
    auto const* info = node ? info_of<kernel::ConcatInfo>(*node->value.op) : nullptr;
    if (!info || info->axis != 1 || node->outputs().size() != 1 || !is_private(edge)) return nullptr;
    auto const pieces = node->inputs();
    bool all = std::all_of(pieces.begin(), pieces.end(), [](EdgePtr piece) {
        return piece->value.shape.size() > 2 && piece->value.shape[1].constant() && is_private(piece) &&
               is_behind_convolution(piece);
    });
    return all ? node : nullptr;
}

/// How many elements an operand has for the channels of a tensor of so many axes: all, one, or nothing if it is no
/// constant of that kind.
std::optional<int64_t> channels_of(EdgePtr edge, size_t rank, int64_t channels) {
    auto const& shape = edge->value.shape;
    auto count = element_count(shape).constant();
    if (!edge->value.constant || !count || shape.size() > rank) return std::nullopt;
    if (*count == 1) return 1;
    bool along = shape.size() + 1 >= rank && shape[shape.size() + 1 - rank] == DimExpr(channels);
    return along && *count == channels ? std::optional(channels) : std::nullopt;
}

/// The channels [first, first + count) of a constant.
EdgePtr part_of(Graph& graph, EdgePtr constant, size_t rank, int64_t first, int64_t count) {
    auto const& value = constant->value;
    auto bytes = static_cast<int64_t>(bits_of(value.dtype) / 8);
    auto shape = value.shape;
    shape[shape.size() + 1 - rank] = DimExpr(count);
    mem_manager::Blob::Reader reader(*value.constant);
    auto const* data = static_cast<std::byte const*>(reader.data()) + first * bytes;
    auto blob = mem_manager::Blob::copy_of(data, static_cast<size_t>(count * bytes));
    return add_constant(graph, value.name + "." + std::to_string(first), value.dtype, std::move(shape), blob);
}

bool sink_below(Graph& graph, NodePtr node) {
    NodePtr concat = nullptr;
    EdgePtr whole = nullptr;
    for (auto* input : node->inputs())
        if (!concat && (concat = concat_of(input))) whole = input;
    auto* y = node->output();
    if (!concat || whole->value.shape != y->value.shape) return false;
    auto const rank = whole->value.shape.size();
    auto const channels = whole->value.shape[1].constant();
    if (!channels) return false;
    for (auto* input : node->inputs())
        if (input != whole && (!channels_of(input, rank, *channels) || bits_of(input->value.dtype) % 8)) return false;
    std::vector<EdgePtr> pieces;
    int64_t first = 0;
    for (auto* piece : concat->inputs()) {
        auto const count = *piece->value.shape[1].constant();
        std::vector<EdgePtr> inputs;
        for (auto* input : node->inputs()) {
            bool one = input != whole && *channels_of(input, rank, *channels) == 1;
            inputs.push_back(input == whole ? piece : one ? input : part_of(graph, input, rank, first, count));
        }
        auto* part = graph.insert({node->value.name, node->value.op}, inputs);
        part->output()->value = {
            y->value.name + "." + std::to_string(first), y->value.dtype, piece->value.shape, {}, nullptr, false};
        pieces.push_back(part->output());
        first += count;
    }
    auto* joined = graph.insert({concat->value.name, concat->value.op}, pieces);
    joined->output()->value = y->value;
    graph.replace_all_uses(y, joined->output());
    graph.erase(node);
    graph.erase(concat);
    return true;
}

}  // namespace

int sink_concats(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive() && node->outputs().size() == 1 && !node->output()->value.keep &&
            info_of<kernel::ElementwiseInfo>(*node->value.op))
            changes += sink_below(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
