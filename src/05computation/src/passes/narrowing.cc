#include "passes/narrowing.h"

#include "ask_kernels.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::ExprInstruction;
using kernel::ExprOp;
using kernel::Layout;

/// The program with inputs of bf16 widened, and, if `store`, results rounded.
template <class IsNarrow>
kernel::ElementwiseInfo with_casts(kernel::ElementwiseInfo const& program, IsNarrow&& is_narrow, bool store) {
    kernel::ElementwiseInfo result;
    std::vector<uint16_t> numbers;
    auto append = [&](ExprInstruction instruction) {
        result.code.push_back(instruction);
        return static_cast<uint16_t>(result.code.size() - 1);
    };
    for (auto instruction : program.code) {
        bool input = instruction.op == ExprOp::Input;
        for (int k = 0; !input && k < kernel::arity_of(instruction.op); ++k)
            instruction.operands[k] = numbers[instruction.operands[k]];
        bool widen = input && is_narrow(instruction.operands[0]);
        if (widen) instruction.dtype = DataType::BF16;
        auto number = append(instruction);
        numbers.push_back(widen ? append({ExprOp::Cast, DataType::F32, {number}}) : number);
    }
    for (auto number : program.outputs)
        result.outputs.push_back(store ? append({ExprOp::Cast, DataType::BF16, {numbers[number]}}) : numbers[number]);
    return result;
}

}  // namespace

std::vector<EdgePtr> edges_of(NodePtr node) {
    std::vector<EdgePtr> edges(node->inputs().begin(), node->inputs().end());
    edges.insert(edges.end(), node->outputs().begin(), node->outputs().end());
    return edges;
}

Narrowing::Narrowing(Model& model, PassContext const& context, Layout wide, Layout narrow)
    : context_(context), wide_layout_(wide), narrow_layout_(narrow) {
    for (auto* node : model.graph.topological()) {
        nodes_.push_back(node);
        for (auto* edge : node->outputs()) {
            if (!edge || edge->value.layout != wide || edge->value.dtype != DataType::F32) continue;
            if (edge->value.keep || edge->is_output()) continue;
            edges_.push_back(edge), number_[edge] = parent_.size();
            parent_.push_back(parent_.size()), wide_.push_back(false);
        }
    }
}

size_t Narrowing::root_of(EdgePtr edge) {
    auto i = number_.at(edge);
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
}

void Narrowing::join(std::span<EdgePtr const> edges) {
    EdgePtr first = nullptr;
    for (auto* edge : edges) {
        if (!number_.contains(edge)) continue;
        if (!first) first = edge;
        auto a = root_of(first), b = root_of(edge);
        parent_[b] = a, wide_[a] = wide_[a] || wide_[b];
    }
}

void Narrowing::keep_wide(EdgePtr edge) {
    if (number_.contains(edge)) wide_[root_of(edge)] = true;
}

void Narrowing::keep_wide(std::span<EdgePtr const> edges) {
    for (auto* edge : edges) keep_wide(edge);
}

bool Narrowing::is_narrow(EdgePtr edge) { return number_.contains(edge) && !wide_[root_of(edge)]; }

void Narrowing::set_types(DataType type, Layout layout) {
    for (auto* edge : edges_)
        if (is_narrow(edge)) edge->value.dtype = type, edge->value.layout = layout;
}

/// Returns what was changed.
std::vector<Narrowing::Change> Narrowing::apply() {
    std::vector<Change> changes;
    set_types(DataType::BF16, narrow_layout_);
    for (auto* node : nodes_) {
        auto const all = edges_of(node);
        if (std::none_of(all.begin(), all.end(), [&](EdgePtr edge) { return is_narrow(edge); })) continue;
        changes.push_back({node, node->value.op});
        if (auto const* program = info_of<kernel::ElementwiseInfo>(*node->value.op))
            node->value.op = make_operator(
                with_casts(*program, [&](size_t i) { return is_narrow(node->input(i)); }, is_narrow(node->output())));
    }
    return changes;
}

void Narrowing::undo(std::span<Change const> changes) {
    set_types(DataType::F32, wide_layout_);
    for (auto const& [node, before] : changes) node->value.op = before;
}

/// Whether a kernel other than a reference takes the node as it is, or it needs none.
bool Narrowing::has_kernel(NodePtr node) const {
    if (node->value.op->is_alias()) return true;
    auto found = ask_kernels(node, context_, "cpu", nullptr);
    return std::any_of(found.kernels.begin(), found.kernels.end(),
                       [](auto const& kernel) { return kernel->id().find(":reference") == std::string::npos; });
}

int Narrowing::run() {
    for (;;) {
        auto changes = apply();
        std::vector<NodePtr> refused;
        for (auto const& change : changes)
            if (!has_kernel(change.node)) refused.push_back(change.node);
        if (refused.empty()) break;
        std::vector<bool> writes_narrow;
        for (auto* node : refused) writes_narrow.push_back(is_narrow(node->output()));
        undo(changes);
        // Without narrow results there may be a kernel for narrow operands.
        for (size_t i = 0; i < refused.size(); ++i)
            if (writes_narrow[i])
                keep_wide(refused[i]->outputs());
            else
                keep_wide(edges_of(refused[i]));
    }
    return static_cast<int>(std::count_if(edges_.begin(), edges_.end(), [&](EdgePtr edge) { return is_narrow(edge); }));
}

}  // namespace refactor::computation
