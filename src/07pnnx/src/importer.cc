#include "importer.h"

#include <algorithm>

namespace refactor::pnnx {

using frontend::concat;
using frontend::Tensor;

namespace {

std::string describe(ParamNode const& node) {
    return concat("line ", node.line, ": node ", quoted(node.name), " (", node.type, ")");
}

}  // namespace

size_t Importer::Inputs::position(std::string const& name) {
    auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) it = names.insert(names.end(), name);
    return static_cast<size_t>(it - names.begin());
}

Importer::Importer(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin, InputShapes const& shapes,
                   frontend::CustomOperators const& customs)
    : shapes_(shapes), customs_(customs), nodes_(parse_param(param, problems_)) {
    if (!bin) return;
    auto archive = ZipArchive::open(std::move(bin));
    if (archive)
        archive_ = std::move(*archive);
    else
        problems_.invalid.push_back(concat("the bin file is no zip archive: ", archive.error()));
}

void Importer::invalid(ParamNode const& node, std::string const& what) {
    problems_.invalid.push_back(concat(describe(node), ": ", what));
}

void Importer::unsupported(ParamNode const& node, std::string const& what) {
    problems_.unsupported.push_back(concat(describe(node), ": ", what));
}

frontend::Model Importer::run() {
    for (auto const& node : nodes_) read_.insert(node.inputs.begin(), node.inputs.end());
    for (auto const& node : nodes_) import(node);
    if (maker_.global_outputs.empty()) problems_.invalid.push_back("the model has no outputs");
    check_inputs(shapes_, maker_.global_inputs);
    return build_model(std::move(maker_), std::move(symbols_), std::move(problems_));
}

void Importer::import(ParamNode const& node) {
    if (node.type == "pnnx.Input") return add_input(node);
    if (node.type == "pnnx.Attribute") return add_attribute(node);
    if (node.type == "pnnx.Expression") return add_expression(node);
    if (node.type == "pnnx.Output") {
        for (auto const& operand : node.inputs) add_output(operand);
    } else if (node.type == "prim::TupleConstruct" || node.type == "prim::ListConstruct" ||
               node.type == "pnnx.SliceIndexes") {
        bind_list(node);
    } else if (node.type == "prim::TupleUnpack" || node.type == "prim::ListUnpack") {
        unpack(node);
    } else {
        add_operator(node);
    }
}

void Importer::add_input(ParamNode const& node) {
    for (auto const& operand : node.outputs) {
        auto name = concat("in", inputs_seen_++);
        Tensor tensor;
        tensor.name = name, tensor.dtype = DataType::F32;
        for (auto const& [of, type] : node.operands) {
            if (of != operand) continue;
            tensor.dtype = type.dtype, tensor.shape = shape_of(name, type.dims, symbols_);
            if (type.dtype == DataType::Undefined) unsupported(node, "the element type of this input");
        }
        for (auto const& [of, dims] : shapes_) {
            if (of != name) continue;
            tensor.shape = given_shape(name, dims, symbols_);
        }
        maker_.global_inputs.push_back(name);
        maker_.edges[name] = std::move(tensor);
        // In the file it is called otherwise: an alias, as a list of one is.
        Inputs inputs;
        auto position = inputs.position(name);
        bind_term(node, operand, Term::of_operand(position), std::move(inputs));
    }
}

void Importer::add_output(std::string const& operand) {
    Inputs inputs;
    auto term = term_of(operand, inputs);
    auto add = [&](Term const& leaf, auto& self) -> void {
        if (leaf.is(Term::Kind::List)) {
            for (auto const& item : leaf.items) self(item, self);
            return;
        }
        // Outputs have names and edges of their own, so that one tensor may be given twice.
        auto name = concat("out", maker_.global_outputs.size());
        maker_.global_outputs.push_back(name);
        Arguments arguments;
        arguments.named.emplace_back("input", leaf);
        auto op = make_operator(find_operator("pnnx.Output"), "pnnx.Output", std::move(arguments));
        maker_.add(name, {name, std::move(op)}, inputs.names, {name});
    };
    add(term, add);
}

Arguments Importer::arguments_of(ParamNode const& node, Inputs& inputs) {
    Arguments arguments, weights;
    for (auto const& [key, type] : node.attributes)
        if (auto name = add_weight(node, key, type))
            weights.named.emplace_back(key, Term::of_operand(inputs.position(*name)));
    auto operands = node.inputs;
    std::erase_if(operands, [&](std::string const& operand) {
        auto named = [&](auto const& entry) { return entry.second == operand; };
        return std::any_of(node.named_inputs.begin(), node.named_inputs.end(), named);
    });
    drop_tied_inputs(operands, weights, inputs.names);
    for (auto const& operand : operands) arguments.positional.push_back(term_of(operand, inputs));
    for (auto const& [key, operand] : node.named_inputs) {
        if (std::find(node.inputs.begin(), node.inputs.end(), operand) == node.inputs.end())
            invalid(node, concat("$", key, " names ", quoted(operand), ", which is no input of the node"));
        else
            arguments.named.emplace_back(key, term_of(operand, inputs));
    }
    // Weights before parameters: `bias=True` of a module only says that there is one.
    for (auto& weight : weights.named) arguments.named.push_back(std::move(weight));
    for (auto const& [key, value] : node.parameters)
        if (!arguments.find(key)) arguments.named.emplace_back(key, with_operands(parse_literal(value)));
    return arguments;
}

void Importer::add_operator(ParamNode const& node) {
    if (!find_operator(node.type))
        if (auto custom = find_custom(customs_, node.type)) return add_custom(node, std::move(custom));
    Inputs inputs;
    auto arguments = arguments_of(node, inputs);
    auto* def = find_operator(node.type);
    if (!def || node.type == "pnnx.Output") {
        def = nullptr;
        unsupported(node, "this operator is not supported");
    } else {
        auto found = bind(*def, arguments);
        for (auto const& problem : found) unsupported(node, problem);
        if (!found.empty()) def = nullptr;
    }
    for (auto const& output : node.outputs) {
        if (bound_.contains(output)) invalid(node, concat("operand ", quoted(output), " is produced more than once"));
        producers_[output] = maker_.nodes.size();
    }
    // What a list is unpacked to is not known yet, so that a list wants all.
    if (node.outputs.size() > 1)
        for (auto const& output : node.outputs) arguments.wanted.push_back(read_.contains(output));
    auto op = make_operator(def, node.type, std::move(arguments));
    maker_.add(node.name, {node.name, std::move(op)}, std::move(inputs.names), node.outputs);
}

frontend::Model load_pnnx(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin,
                          InputShapes const& shapes, frontend::CustomOperators const& customs) {
    return Importer(param, std::move(bin), shapes, customs).run();
}

}  // namespace refactor::pnnx
