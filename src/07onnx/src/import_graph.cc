#include "importer.h"

namespace refactor::onnx {

using frontend::concat;
using frontend::Tensor;

namespace {

using GraphMaker = graph_topo::Builder<std::string, std::string, frontend::Node, Tensor>;

void report(GraphMaker::Error const& error, frontend::Problems& problems) {
    auto add = [&](auto const&... parts) { problems.invalid.push_back(concat(parts...)); };
    for (auto const& cycle : error.cycles) {
        std::string text;
        for (size_t i = 0; i < cycle.size() && i < 8; ++i) text += shortened(cycle[i]) + " -> ";
        add("the graph has a cycle of ", cycle.size(), " nodes: ", text, cycle.size() > 8 ? "… -> " : "",
            shortened(cycle[0]));
    }
    for (auto const& missing : error.missing_edges)
        add("node ", shortened(missing.node), ": input ", missing.slot, " is \"", shortened(missing.edge),
            "\", which nothing produces");
    for (auto const& twice : error.double_edges) {
        std::string text = twice.global ? "as a graph input or initializer" : "";
        for (auto const& node : twice.nodes) text += concat(text.empty() ? "" : ", ", "by node ", shortened(node));
        add("\"", shortened(twice.edge), "\" is produced more than once: ", text);
    }
    for (auto const& output : error.missing_outputs)
        add("graph output \"", shortened(output), "\" is not produced by anything");
}

}  // namespace

std::optional<Importer::Imported> Importer::GraphImport::run() {
    auto before = importer_.failures();
    add_values();
    add_nodes();
    for (auto const& output : source_.outputs_) {
        use(output.name);
        maker_.global_outputs.push_back(output.name);
    }
    Imported imported;
    imported.graph.formal_inputs = maker_.global_inputs.size();
    maker_.global_inputs.insert(maker_.global_inputs.end(), captures_.begin(), captures_.end());
    auto built = std::move(maker_).build();
    if (!built) report(built.error(), importer_.problems_);
    if (!built || importer_.failures() > before) return std::nullopt;
    imported.graph.topo = std::move(built->graph.topo);
    imported.graph.nodes = std::move(built->graph.nodes);
    imported.graph.tensors = std::move(built->graph.edges);
    for (size_t i = 0; i < imported.graph.tensors.size(); ++i)
        imported.graph.tensors[i].name = std::move(built->edge_keys[i]);
    imported.captures = std::move(captures_);
    return imported;
}

void Importer::GraphImport::add_values() {
    for (auto& [name, raw] : source_.initializers_) {
        if (name.empty()) importer_.add_invalid("an initializer has no name");
        define(name);
        maker_.sources.push_back(name);
        auto value = importer_.tensor_value(raw, concat("initializer \"", shortened(name), "\""));
        if (!value) continue;
        Tensor tensor;
        tensor.dtype = value->dtype, tensor.constant = std::move(value->blob);
        tensor.shape.emplace(value->dims.begin(), value->dims.end());
        if (value->dtype == DataType::String)
            tensor.literal =
                std::make_shared<runtime::Value const>(runtime::Value::strings(value->dims, std::move(value->strings)));
        maker_.edges[name] = std::move(tensor);
    }
    for (auto const& input : source_.inputs_) {
        if (input.name.empty()) importer_.add_invalid("a graph input has no name");
        // An initializer that is also an input is a default that could be overridden: here it is a constant.
        if (maker_.edges.contains(input.name) && !inputs_.contains(input.name)) continue;
        define(input.name);
        inputs_.insert(input.name);
        maker_.global_inputs.push_back(input.name);
        maker_.edges[input.name] = importer_.input_tensor(input);
    }
    for (auto const& node : source_.nodes_)
        for (auto const& output : node.outputs) define(output);
    for (auto const& value : source_.value_infos_) {
        // Tools that convert a model leave the old types of its initializers behind.
        auto found = maker_.edges.find(value.name);
        if (found == maker_.edges.end() || !(found->second.constant || found->second.literal)) declare(value);
    }
    for (auto const& value : source_.outputs_) declare(value);
}

void Importer::GraphImport::declare(GraphBuilder::Value const& value) {
    if (value.type.kind != frontend::ValueKind::Tensor) return;
    auto dtype = data_type_from_onnx(value.type.dtype);
    if (!dtype && value.type.dtype != 0) {
        importer_.add_invalid(
            concat("\"", shortened(value.name), "\" is declared with the unknown element type ", value.type.dtype));
        return;
    }
    if (!dtype) return;
    auto& tensor = maker_.edges[value.name];
    if (tensor.is_tensor() && tensor.dtype != DataType::Undefined && tensor.dtype != *dtype)
        importer_.add_invalid(concat("\"", shortened(value.name), "\" is declared as ", name_of(*dtype), ", but is ",
                                     name_of(tensor.dtype)));
    tensor.declared = *dtype;
    if (!value.type.shape) return;
    auto& dims = tensor.declared_dims.emplace();
    for (auto const& dim : *value.type.shape) {
        auto* size = std::get_if<int64_t>(&dim);
        dims.push_back(size ? *size : -1);
    }
}

void Importer::GraphImport::define(std::string const& name) {
    if (name.empty()) return;
    local_.insert(name);
    if (outer_ && outer_->contains(name))
        importer_.add_invalid(
            concat("\"", shortened(name), "\" in a sub-graph hides a value of the same name outside"));
}

void Importer::GraphImport::use(std::string const& name) {
    if (name.empty() || local_.contains(name) || !outer_ || !outer_->contains(name)) return;
    if (captured_.insert(name).second) captures_.push_back(name);
}

void Importer::GraphImport::add_nodes() {
    bool has_graphs = false;
    for (auto const& node : source_.nodes_)
        for (auto const& [name, value] : node.attributes)
            has_graphs |= std::holds_alternative<std::shared_ptr<GraphBuilder>>(value);
    Names visible;
    if (has_graphs) {
        visible = local_;
        if (outer_) visible.insert(outer_->begin(), outer_->end());
    }
    static std::vector<GraphBuilder::Node> const kNone;
    Copies const copies(has_graphs ? source_.nodes_ : kNone);
    auto is_matrix = [&](std::string const& name) {
        auto edge = maker_.edges.find(copies.original(name));
        if (edge == maker_.edges.end() || !edge->second.constant || !edge->second.shape) return false;
        return edge->second.shape->size() == 2;
    };
    auto add = [&](GraphBuilder::Node& node, std::string const& name) {
        auto op = importer_.node_operator(node, concat("\"", shortened(name), "\""), visible);
        for (auto const& input : node.inputs) use(input);
        maker_.add(name, {name, std::move(op)}, std::move(node.inputs), std::move(node.outputs));
    };
    for (size_t i = 0; i < source_.nodes_.size(); ++i) {
        auto& node = source_.nodes_[i];
        auto name = node.name.empty() ? concat(shortened(node.op_type), "_", i) : node.name;
        for (auto& outer : importer_.take_out_of_loop(node, name, is_matrix, visible)) {
            for (auto const& output : outer.outputs) local_.insert(output), visible.insert(output);
            add(outer, outer.name);
        }
        add(node, name);
    }
}

}  // namespace refactor::onnx
