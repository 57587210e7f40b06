#include "importer.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace refactor::onnx {

namespace {

/// Where the states of Loop or Scan begin: among the inputs of the node, the inputs and the outputs of its body.
struct StateSlots {
    size_t input = 0, formal = 0, result = 0;
};

void erase_at(auto& list, size_t i) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); }

}  // namespace

Importer::Copies::Copies(std::vector<GraphBuilder::Node> const& nodes) {
    for (auto const& node : nodes)
        if (node.op_type == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1)
            originals_.emplace(node.outputs[0], node.inputs[0]);
}

std::string const& Importer::Copies::original(std::string const& name) const {
    auto const* found = &name;
    // As many steps as there are copies, since names of a malformed graph may go round.
    for (size_t steps = 0; steps < originals_.size(); ++steps) {
        auto copy = originals_.find(*found);
        if (copy == originals_.end()) break;
        found = &copy->second;
    }
    return *found;
}

/// A Loop or Scan whose body is made to read from outside what does not depend on the iteration.
class Importer::LoopRewrite {
    GraphBuilder::Node& node_;
    GraphBuilder& body_;
    StateSlots first_;
    size_t states_ = 0;
    std::string const& label_;
    Copies copies_;
    OuterNodes outer_;

    static bool is(GraphBuilder::Node const& node, char const* type, size_t inputs) {
        return node.op_type == type && (node.domain.empty() || node.domain == "ai.onnx") &&
               node.inputs.size() == inputs && node.outputs.size() == 1;
    }
    bool is_initializer(std::string const& name) const {
        return std::any_of(body_.initializers_.begin(), body_.initializers_.end(),
                           [&](auto const& initializer) { return initializer.name == name; });
    }
    static void add_identity(std::vector<GraphBuilder::Node>& nodes, std::string name, std::string from,
                             std::string to) {
        nodes.push_back({std::move(name), "", "Identity", {std::move(from)}, {std::move(to)}, {}});
    }

    /// Whether state `i` is a tensor that comes out as it went in; malformed nodes are left for `import` to refuse.
    bool is_unchanged(size_t i) const {
        auto const& [name, type] = body_.inputs_[first_.formal + i];
        if (type.kind != frontend::ValueKind::Tensor || name.empty() || node_.inputs[first_.input + i].empty())
            return false;
        auto same = [&](auto const& input) { return input.name == name; };
        if (std::count_if(body_.inputs_.begin(), body_.inputs_.end(), same) != 1 || is_initializer(name)) return false;
        return copies_.original(body_.outputs_[first_.result + i].name) == name;
    }

    /// Values that count iterations: the first input of a Loop, and sums of a state and something that it becomes.
    std::unordered_set<std::string> counters() const {
        std::unordered_set<std::string> found;
        if (first_.formal > 0) found.insert(body_.inputs_[0].name);
        for (size_t i = 0; i < states_; ++i) {
            auto const& state = body_.inputs_[first_.formal + i].name;
            auto next = copies_.original(body_.outputs_[first_.result + i].name);
            for (auto const& inner : body_.nodes_)
                if (is(inner, "Add", 2) && inner.outputs[0] == next &&
                    (copies_.original(inner.inputs[0]) == state || copies_.original(inner.inputs[1]) == state))
                    found.insert(state);
        }
        return found;
    }
    std::unordered_set<std::string> inner_names() const {
        std::unordered_set<std::string> names;
        for (auto const& input : body_.inputs_) names.insert(input.name);
        for (auto const& initializer : body_.initializers_) names.insert(initializer.name);
        for (auto const& inner : body_.nodes_) names.insert(inner.outputs.begin(), inner.outputs.end());
        return names;
    }
    static bool gathers_elements(GraphBuilder::Node const& node) {
        return is(node, "Gather", 2) && std::all_of(node.attributes.begin(), node.attributes.end(), [](auto const& a) {
                   auto* axis = std::get_if<int64_t>(&a.second);
                   return a.first == "axis" && axis && *axis == 0;
               });
    }

public:
    LoopRewrite(GraphBuilder::Node& node, GraphBuilder& body, StateSlots first, size_t states, std::string const& label)
        : node_(node), body_(body), first_(first), states_(states), label_(label), copies_(body.nodes_) {}

    bool fits() const {
        return node_.inputs.size() >= first_.input + states_ && body_.outputs_.size() >= first_.result + states_;
    }
    OuterNodes take() { return std::move(outer_); }

    void capture_unchanged_states() {
        for (auto i = states_; i-- > 0;) {
            bool only_result = node_.outputs.size() == 1 && i == 0;
            if (only_result || !is_unchanged(i)) continue;
            auto outer = node_.inputs[first_.input + i], inner = body_.inputs_[first_.formal + i].name;
            if (i < node_.outputs.size()) {
                if (!node_.outputs[i].empty())
                    add_identity(outer_, frontend::concat(label_, "/state_", i), outer, node_.outputs[i]);
                erase_at(node_.outputs, i);
            }
            erase_at(node_.inputs, first_.input + i);
            erase_at(body_.inputs_, first_.formal + i);
            erase_at(body_.outputs_, first_.result + i);
            --states_;
            copies_.add(inner, outer);
            add_identity(body_.nodes_, inner, std::move(outer), inner);
        }
    }

    /// Products of one element of a sequence with a matrix become elements of the sequence's product: all at once, they
    /// read the matrix once. Only where iterations count the elements: a table of words would be multiplied whole.
    void multiply_whole_sequences(IsMatrix const& is_matrix, Names const& taken) {
        auto const counters = this->counters(), inner = inner_names();
        std::unordered_map<std::string, size_t> gathers;
        for (size_t i = 0; i < body_.nodes_.size(); ++i)
            if (gathers_elements(body_.nodes_[i])) gathers.emplace(body_.nodes_[i].outputs[0], i);
        for (auto& product : body_.nodes_) {
            if (!is(product, "MatMul", 2)) continue;
            auto gather = gathers.find(copies_.original(product.inputs[0]));
            if (gather == gathers.end()) continue;
            auto const& element = body_.nodes_[gather->second];
            auto sequence = copies_.original(element.inputs[0]), matrix = copies_.original(product.inputs[1]),
                 index = element.inputs[1];
            bool outside = !inner.contains(sequence) && !inner.contains(matrix);
            if (!outside || sequence.empty() || !is_matrix(matrix) || !counters.contains(copies_.original(index)))
                continue;
            auto whole = frontend::concat(label_, "/", product.outputs[0]);
            if (taken.contains(whole) || inner.contains(whole)) continue;
            outer_.push_back({whole, "", "MatMul", {std::move(sequence), std::move(matrix)}, {whole}, {}});
            product.op_type = "Gather", product.inputs = {std::move(whole), std::move(index)};
        }
    }
};

Importer::OuterNodes Importer::take_out_of_loop(GraphBuilder::Node& node, std::string const& label,
                                                IsMatrix const& is_matrix, Names const& taken) {
    bool is_loop = node.op_type == "Loop", is_scan = node.op_type == "Scan";
    if ((!is_loop && !is_scan) || !(node.domain.empty() || node.domain == "ai.onnx")) return {};
    GraphBuilder* body = nullptr;
    int64_t sequences = 0;
    for (auto& [name, value] : node.attributes) {
        auto* graph = std::get_if<std::shared_ptr<GraphBuilder>>(&value);
        auto* number = std::get_if<int64_t>(&value);
        if (name == "body" && graph) body = graph->get();
        if (name == "num_scan_inputs" && number) sequences = *number;
    }
    auto opset = opsets_.find("");
    // Scan-8 has batches, and the outer value is not what the body gets.
    if (!body || opset == opsets_.end() || (is_scan && opset->second < 9)) return {};
    auto other = is_loop ? 2 : sequences;
    if (other < 1 || static_cast<size_t>(other) > body->inputs_.size()) return {};
    auto first = is_loop ? StateSlots{2, 2, 1} : StateSlots{};
    LoopRewrite rewrite(node, *body, first, body->inputs_.size() - static_cast<size_t>(other), label);
    if (!rewrite.fits()) return {};
    rewrite.capture_unchanged_states();
    rewrite.multiply_whole_sequences(is_matrix, taken);
    return rewrite.take();
}

}  // namespace refactor::onnx
