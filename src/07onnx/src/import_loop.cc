#include "importer.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::onnx {

namespace {

/// Where the states of Loop or Scan begin: among the inputs of the node, the inputs and the outputs of its body.
struct StateSlots {
    size_t input = 0, formal = 0, result = 0;
};

void erase_at(auto& list, size_t i) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); }

}  // namespace

/// Of states that a body of Loop or Scan hands on as it got them: exporters of TensorFlow carry weights that way.
class Importer::UnchangedStates {
    GraphBuilder::Node& node_;
    GraphBuilder& body_;
    StateSlots first_;
    size_t states_ = 0;
    std::unordered_map<std::string, std::string> copies_;  ///< results of Identity and what they are

    bool is_initializer(std::string const& name) const {
        return std::any_of(body_.initializers_.begin(), body_.initializers_.end(),
                           [&](auto const& initializer) { return initializer.name == name; });
    }

    /// Whether state `i` is a tensor that comes out as it went in; malformed nodes are left for `import` to refuse.
    bool is_unchanged(size_t i) const {
        auto const& [name, type] = body_.inputs_[first_.formal + i];
        if (type.kind != frontend::ValueKind::Tensor || name.empty() || node_.inputs[first_.input + i].empty())
            return false;
        auto same = [&](auto const& input) { return input.name == name; };
        if (std::count_if(body_.inputs_.begin(), body_.inputs_.end(), same) != 1 || is_initializer(name)) return false;
        auto result = body_.outputs_[first_.result + i].name;
        for (size_t steps = 0; result != name; ++steps) {
            auto copy = copies_.find(result);
            if (copy == copies_.end() || steps == copies_.size()) return false;
            result = copy->second;
        }
        return true;
    }

    static GraphBuilder::Node identity(std::string name, std::string from, std::string to) {
        return {std::move(name), "", "Identity", {std::move(from)}, {std::move(to)}, {}};
    }

public:
    UnchangedStates(GraphBuilder::Node& node, GraphBuilder& body, StateSlots first, size_t states)
        : node_(node), body_(body), first_(first), states_(states) {
        for (auto const& inner : body.nodes_)
            if (inner.op_type == "Identity" && inner.inputs.size() == 1 && inner.outputs.size() == 1)
                copies_.emplace(inner.outputs[0], inner.inputs[0]);
    }

    bool fits() const {
        return node_.inputs.size() >= first_.input + states_ && body_.outputs_.size() >= first_.result + states_;
    }

    /// Turns them into values that the body reads from outside; returns the nodes that then make the node's results.
    std::vector<GraphBuilder::Node> capture(std::string const& label) {
        std::vector<GraphBuilder::Node> results;
        for (auto i = states_; i-- > 0;) {
            bool only_result = node_.outputs.size() == 1 && i == 0;
            if (only_result || !is_unchanged(i)) continue;
            auto outer = node_.inputs[first_.input + i], inner = body_.inputs_[first_.formal + i].name;
            if (i < node_.outputs.size()) {
                if (!node_.outputs[i].empty())
                    results.push_back(identity(frontend::concat(label, "/state_", i), outer, node_.outputs[i]));
                erase_at(node_.outputs, i);
            }
            erase_at(node_.inputs, first_.input + i);
            erase_at(body_.inputs_, first_.formal + i);
            erase_at(body_.outputs_, first_.result + i);
            body_.nodes_.push_back(identity(inner, std::move(outer), inner));
        }
        return results;
    }
};

std::vector<GraphBuilder::Node> Importer::capture_unchanged_states(GraphBuilder::Node& node, std::string const& label) {
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
    UnchangedStates states(node, *body, first, body->inputs_.size() - static_cast<size_t>(other));
    return states.fits() ? states.capture(label) : std::vector<GraphBuilder::Node>{};
}

}  // namespace refactor::onnx
