#include "importer.h"

#include "common/error.h"
#include "registry.h"

#include <algorithm>

namespace refactor::onnx {

using frontend::concat;
using frontend::Tensor;

namespace {

// Ranges of what is understood. IR 3 (2017) is the first that ONNX 1.0 wrote.
constexpr int64_t kOldestIr = 3, kNewestIr = 14, kOldestOpset = 1;
// Sub-graphs in sub-graphs; protobuf itself stops at 100 messages, three of them for each level.
constexpr int kMaxDepth = 48;

}  // namespace

std::string shortened(std::string const& name) { return name.size() > 200 ? name.substr(0, 200) + "…" : name; }

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
    if (node.refused) return ++refused_, nullptr;
    auto before = failures();
    std::vector<std::string> captures;
    auto converted = attributes(node, label, visible, captures);
    if (failures() > before) return nullptr;
    auto domain = node.domain == "ai.onnx" ? std::string() : node.domain;
    auto type = shortened(node.op_type);
    auto imported = opsets_.find(domain);
    if (!node.version && imported == opsets_.end()) {
        add_invalid(concat("node ", label, " (", type, "): domain \"", shortened(domain), "\" is not imported"));
        return nullptr;
    }
    auto version = node.version ? node.version : imported->second;
    if (node.version && domain.empty() && (version < kOldestOpset || version > newest_opset())) {
        problems_.unsupported.push_back(concat("node ", label, " (", type, "): its function imports opset ", version,
                                               ", expected ", kOldestOpset, " to ", newest_opset()));
        return nullptr;
    }
    auto* def = find_operator(domain, node.op_type, version);
    if (!def) return custom_operator(node, label, version, std::move(converted));
    // A hint for memory reuse that operators had before opset 6; it never changed results.
    if (domain.empty() && version < 6)
        std::erase_if(converted, [](auto const& attribute) { return attribute.first == "consumed_inputs"; });
    auto found = check_signature(*def, node.inputs, node.outputs, converted);
    for (auto const& problem : found)
        add_invalid(concat("node ", label, " (", type, ", opset ", version, "): ", problem));
    if (!found.empty()) return nullptr;
    if (node.inputs.size() < def->padded_inputs) node.inputs.resize(def->padded_inputs);
    node.inputs.insert(node.inputs.end(), captures.begin(), captures.end());
    return make_operator(*def, version, std::move(converted));
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

}  // namespace refactor::onnx
