#include "importer.h"

#include "common/error.h"
#include "graph_topo/builder.h"
#include "mem_manager/blob.h"
#include "registry.h"

#include <algorithm>

namespace refactor::onnx {

using frontend::concat;
using frontend::Tensor;
using frontend::TensorValue;

namespace {

// Ranges of what is understood. IR 3 (2017) is the first that ONNX 1.0 wrote.
constexpr int64_t kOldestIr = 3, kNewestIr = 14, kOldestOpset = 1;
// Sub-graphs in sub-graphs; protobuf itself stops at 100 messages, three of them for each level.
constexpr int kMaxDepth = 48;
constexpr size_t kMaxRank = InferContext::kMaxRank;

/// Names come from the model and may be of any length.
std::string shortened(std::string const& name) { return name.size() > 200 ? name.substr(0, 200) + "…" : name; }

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

Importer::Importer(ModelBuilder& source) : source_(source) {
    problems_.invalid = std::move(source.invalid_), problems_.unsupported = std::move(source.unsupported_);
}

frontend::Model Importer::run() {
    check_versions();
    if (source_.graph_.outputs_.empty()) add_invalid("the graph has no outputs");
    auto imported = import(source_.graph_, nullptr);
    if (!imported) problems_.raise();
    ensure(imported.has_value(), "an import failed without a problem");
    return frontend::Model(std::move(imported->graph), std::move(symbols_), std::move(problems_));
}

void Importer::check_versions() {
    auto ir = source_.ir_version_;
    if (!ir)
        add_invalid("the model has no ir_version");
    else if (*ir < kOldestIr || *ir > kNewestIr)
        add_invalid(concat("ir_version ", *ir, " is not understood, expected ", kOldestIr, " to ", kNewestIr));
    if (source_.opsets_.empty()) add_invalid("the model imports no opset");
    for (auto const& [name, version] : source_.opsets_) {
        auto domain = name == "ai.onnx" ? std::string() : name;
        auto [it, fresh] = opsets_.emplace(domain, version);
        if (!fresh && it->second != version)
            add_invalid(concat("domain \"", domain, "\" is imported in versions ", it->second, " and ", version));
        if (version < 1) add_invalid(concat("opset ", version, " of domain \"", domain, "\" does not exist"));
        if (domain.empty() && version >= 1 && (version < kOldestOpset || version > newest_opset()))
            problems_.unsupported.push_back(
                concat("opset ", version, " is not supported, expected ", kOldestOpset, " to ", newest_opset()));
    }
}

std::optional<Shape> Importer::declared_shape(std::string const& name, DeclaredType const& type) {
    if (!type.shape) return std::nullopt;
    if (type.shape->size() > kMaxRank) {
        problems_.unsupported.push_back(concat("\"", shortened(name), "\" has ", type.shape->size(), " axes, at most ",
                                               kMaxRank, " are supported"));
        return std::nullopt;
    }
    Shape shape;
    int64_t count = 1;
    for (size_t i = 0; i < type.shape->size(); ++i) {
        auto const& dim = (*type.shape)[i];
        auto* number = std::get_if<int64_t>(&dim);
        auto* symbol = std::get_if<std::string>(&dim);
        if (number && *number >= 0) {
            shape.emplace_back(*number);
            bool huge = __builtin_mul_overflow(count, std::max<int64_t>(*number, 1), &count);
            if (huge || count > InferContext::kMaxBytes) {
                add_invalid(concat("the sizes of \"", shortened(name), "\" are absurd: more than 2^40 elements"));
                return std::nullopt;
            }
        } else if (symbol && !symbol->empty() && *symbol != "?") {
            shape.push_back(DimExpr::symbol(symbols_.intern(*symbol)));
        } else {
            // Negative sizes and nameless symbols stand for "unknown" in models of some exporters.
            shape.push_back(DimExpr::symbol(symbols_.intern(concat(name, ".", i))));
        }
    }
    return shape;
}

Tensor Importer::declared_type(std::string const& name, DeclaredType const& type, bool is_optional) {
    Tensor tensor;
    tensor.name = name, tensor.kind = type.kind;
    if (type.element) {
        // Types within types need neither a name nor a shape of their own.
        auto element = declared_type(name, *type.element, true);
        if (element.is_tensor() && type.kind != frontend::ValueKind::Optional) element.shape.reset();
        tensor.element = std::make_shared<Tensor const>(std::move(element));
    }
    auto dtype = data_type_from_onnx(type.dtype);
    if (dtype)
        tensor.dtype = *dtype;
    else if (type.dtype != 0 || (!is_optional && tensor.is_tensor()))
        add_invalid(concat("\"", shortened(name), "\" has the unknown element type ", type.dtype));
    tensor.shape = declared_shape(name, type);
    return tensor;
}

Tensor Importer::input_tensor(GraphBuilder::Value const& value) {
    // The inputs of a sub-graph may leave their types to inference.
    return declared_type(value.name, value.type, depth_ > 1);
}

std::optional<TensorValue> Importer::tensor_value(RawTensor& raw, std::string const& what) {
    auto dtype = data_type_from_onnx(raw.dtype);
    if (!dtype) {
        add_invalid(concat(what, " has the unknown element type ", raw.dtype));
        return std::nullopt;
    }
    if (raw.dims.size() > kMaxRank) {
        problems_.unsupported.push_back(
            concat(what, " has ", raw.dims.size(), " axes, at most ", kMaxRank, " are supported"));
        return std::nullopt;
    }
    int64_t count = 1;
    bool empty = std::find(raw.dims.begin(), raw.dims.end(), 0) != raw.dims.end();
    for (auto size : raw.dims) {
        bool huge = !empty && (__builtin_mul_overflow(count, size, &count) || count > InferContext::kMaxBytes);
        if (size >= 0 && !huge) continue;
        add_invalid(
            concat(what, " has the size ", size, size < 0 ? ", which is negative" : ": more than 2^40 elements"));
        return std::nullopt;
    }
    if (empty) count = 0;
    auto expected = storage_bytes(*dtype, count), actual = raw.blob ? raw.blob->bytes() : 0;
    if (*dtype != DataType::String && actual != expected) {
        add_invalid(concat(what, " (", name_of(*dtype), ", ", count, " elements) has ", actual,
                           " bytes of data, expected ", expected));
        return std::nullopt;
    }
    if (*dtype == DataType::String && raw.strings.size() != static_cast<size_t>(count)) {
        add_invalid(concat(what, " (string, ", count, " elements) has ", raw.strings.size(), " texts"));
        return std::nullopt;
    }
    return TensorValue{*dtype, Dims(raw.dims.begin(), raw.dims.end()), std::move(raw.blob), std::move(raw.strings)};
}

frontend::Attributes Importer::attributes(GraphBuilder::Node& node, std::string const& label, Names const& visible,
                                          std::vector<std::string>& captures) {
    frontend::Attributes result;
    for (auto& [name, raw] : node.attributes) {
        if (name.empty()) add_invalid(concat("node ", label, ": an attribute has no name"));
        auto convert = [&](auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, RawTensor>) {
                auto tensor = tensor_value(value, concat("node ", label, ": the tensor of attribute \"", name, "\""));
                if (tensor) result.emplace_back(name, std::move(*tensor));
            } else if constexpr (std::is_same_v<T, std::shared_ptr<GraphBuilder>>) {
                auto imported = value ? import(*value, &visible) : std::nullopt;
                if (!imported) return;
                for (auto& capture : imported->captures)
                    if (std::find(captures.begin(), captures.end(), capture) == captures.end())
                        captures.push_back(std::move(capture));
                result.emplace_back(name, std::make_shared<frontend::Graph const>(std::move(imported->graph)));
            } else if constexpr (std::is_same_v<T, DeclaredType>) {
                result.emplace_back(name, std::make_shared<Tensor const>(declared_type(name, value, true)));
            } else {
                result.emplace_back(name, std::move(value));
            }
        };
        std::visit(convert, raw);
    }
    return result;
}

std::shared_ptr<frontend::Operator const> Importer::node_operator(GraphBuilder::Node& node, std::string const& label,
                                                                  Names const& visible) {
    auto problems_before = problems_.invalid.size() + problems_.unsupported.size();
    std::vector<std::string> captures;
    auto converted = attributes(node, label, visible, captures);
    if (problems_.invalid.size() + problems_.unsupported.size() > problems_before) return nullptr;
    auto domain = node.domain == "ai.onnx" ? std::string() : node.domain;
    auto type = shortened(node.op_type);
    auto opset = opsets_.find(domain);
    if (opset == opsets_.end()) {
        add_invalid(concat("node ", label, " (", type, "): domain \"", shortened(domain), "\" is not imported"));
        return nullptr;
    }
    auto* def = find_operator(domain, node.op_type, opset->second);
    if (!def) return custom_operator(node, label, opset->second, std::move(converted));
    // A hint for memory reuse that operators had before opset 6; it never changed results.
    if (domain.empty() && opset->second < 6)
        std::erase_if(converted, [](auto const& attribute) { return attribute.first == "consumed_inputs"; });
    auto found = check_signature(*def, node.inputs, node.outputs, converted);
    for (auto const& problem : found)
        add_invalid(concat("node ", label, " (", type, ", opset ", opset->second, "): ", problem));
    if (!found.empty()) return nullptr;
    if (node.inputs.size() < def->padded_inputs) node.inputs.resize(def->padded_inputs);
    node.inputs.insert(node.inputs.end(), captures.begin(), captures.end());
    return make_operator(*def, opset->second, std::move(converted));
}

std::shared_ptr<frontend::Operator const> Importer::custom_operator(GraphBuilder::Node const& node,
                                                                    std::string const& label, int64_t version,
                                                                    frontend::Attributes attributes) {
    auto domain = node.domain == "ai.onnx" ? std::string() : node.domain;
    if (auto custom = frontend::find_custom(source_.customs_, domain, node.op_type, version))
        return frontend::make_custom(std::move(custom), version, std::move(attributes));
    bool known = is_known(domain, node.op_type);
    for (auto const& custom : source_.customs_) known |= custom->domain == domain && custom->name == node.op_type;
    problems_.unsupported.push_back(concat("node ", label, ": operator ", domain, domain.empty() ? "" : ".",
                                           shortened(node.op_type),
                                           known ? " does not exist in" : " is not supported in", " opset ", version));
    return nullptr;
}

std::optional<Importer::Imported> Importer::import(GraphBuilder& source, Names const* outer) {
    if (++depth_ > kMaxDepth) {
        problems_.unsupported.push_back(concat("sub-graphs are nested more than ", kMaxDepth, " deep"));
        --depth_;
        return std::nullopt;
    }
    auto result = GraphImport(*this, source, outer).run();
    --depth_;
    return result;
}

std::optional<Importer::Imported> Importer::GraphImport::run() {
    auto before = importer_.problems_.invalid.size() + importer_.problems_.unsupported.size();
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
    if (!built || importer_.problems_.invalid.size() + importer_.problems_.unsupported.size() > before)
        return std::nullopt;
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
    for (auto const* values : {&source_.value_infos_, &source_.outputs_})
        for (auto const& value : *values) declare(value);
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
    for (size_t i = 0; i < source_.nodes_.size(); ++i) {
        auto& node = source_.nodes_[i];
        auto name = node.name.empty() ? concat(shortened(node.op_type), "_", i) : node.name;
        auto op = importer_.node_operator(node, concat("\"", shortened(name), "\""), visible);
        for (auto const& input : node.inputs) use(input);
        maker_.add(name, {name, std::move(op)}, std::move(node.inputs), std::move(node.outputs));
    }
}

}  // namespace refactor::onnx
