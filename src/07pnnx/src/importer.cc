#include "importer.h"

#include "common/error.h"

#include <algorithm>
#include <cstring>

namespace refactor::pnnx {

using frontend::concat;
using frontend::InferContext;
using frontend::Tensor;

namespace {

// A list of lists of lists could grow without bound; real ones have a few entries.
constexpr size_t kMaxTerms = 4096;

size_t count_terms(Term const& term) {
    size_t count = 1;
    for (auto const& item : term.items) count += count_terms(item);
    return count;
}

std::string describe(ParamNode const& node) {
    return concat("line ", node.line, ": node ", quoted(node.name), " (", node.type, ")");
}

Shape shape_of(std::string const& name, std::vector<WrittenDim> const& dims, SymbolTable& symbols) {
    Shape shape;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (auto* number = std::get_if<int64_t>(&dims[i]))
            shape.emplace_back(*number);
        else if (auto* symbol = std::get_if<std::string>(&dims[i]); symbol && !symbol->empty())
            shape.push_back(DimExpr::symbol(symbols.intern(*symbol)));
        else
            shape.push_back(DimExpr::symbol(symbols.intern(concat(name, ".", i))));
    }
    return shape;
}

void report(graph_topo::BuildError<std::string, std::string> const& error, frontend::Problems& problems) {
    auto text = error.to_string();
    for (std::string_view rest = text; !rest.empty();) {
        auto end = std::min(rest.find('\n'), rest.size());
        // A cycle names all its nodes.
        constexpr size_t kLongest = 400;
        if (end) problems.invalid.push_back(concat(rest.substr(0, std::min(end, kLongest)), end > kLongest ? "…" : ""));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

/// Entries such as "@0" of a list of words are operands.
Term with_operands(Term term) {
    for (auto& item : term.items) {
        if (!item.is(Term::Kind::Text) || !item.text.starts_with('@')) continue;
        if (auto parsed = parse_expression(item.text); parsed.ok()) item = std::move(*parsed);
    }
    return term;
}

}  // namespace

frontend::Model build_model(GraphMaker maker, SymbolTable symbols, frontend::Problems problems) {
    auto built = std::move(maker).build();
    if (!built) report(built.error(), problems);
    if (!problems.invalid.empty()) problems.raise();
    frontend::Graph graph;
    graph.topo = std::move(built->graph.topo);
    graph.nodes = std::move(built->graph.nodes);
    graph.tensors = std::move(built->graph.edges);
    for (size_t i = 0; i < graph.tensors.size(); ++i) graph.tensors[i].name = std::move(built->edge_keys[i]);
    graph.formal_inputs = graph.topo.global_inputs().size();
    return frontend::Model(std::move(graph), std::move(symbols), std::move(problems));
}

Shape given_shape(std::string const& name, std::vector<InputDim> const& dims, SymbolTable& symbols) {
    if (dims.size() > InferContext::kMaxRank)
        throw InvalidInput(concat("the shape of ", quoted(name), " has ", dims.size(), " axes"));
    for (auto const& dim : dims)
        if (auto* number = std::get_if<int64_t>(&dim); number && *number < 0)
            throw InvalidInput(concat("the shape of ", quoted(name), " has the size ", *number));
    return shape_of(name, dims, symbols);
}

void check_inputs(InputShapes const& shapes, std::vector<std::string> const& inputs) {
    for (auto const& [name, dims] : shapes)
        if (std::find(inputs.begin(), inputs.end(), name) == inputs.end())
            throw InvalidInput(concat("the model has no input ", quoted(name)));
}

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

std::optional<std::string> Importer::add_weight(ParamNode const& node, std::string const& key,
                                                WrittenType const& type) {
    auto name = concat(node.name, ".", key);
    if (type.dtype == DataType::Undefined) {
        unsupported(node, concat("the element type of the weight ", quoted(key)));
        return std::nullopt;
    }
    Tensor tensor;
    tensor.dtype = type.dtype;
    int64_t count = 1;
    Shape shape;
    for (auto const& dim : type.dims) {
        auto* size = std::get_if<int64_t>(&dim);
        if (!size || __builtin_mul_overflow(count, *size, &count) || count > InferContext::kMaxBytes / 16) {
            invalid(node, concat("the weight ", quoted(key), " has a size that is unknown or absurd"));
            return std::nullopt;
        }
        shape.emplace_back(*size);
    }
    tensor.shape = std::move(shape);
    if (!archive_) {
        invalid(node, concat("the weight ", quoted(key), " needs a bin file"));
        return std::nullopt;
    }
    auto bits = bits_of(type.dtype);
    auto data = archive_->read(name, static_cast<size_t>(std::clamp(bits / 8, 1, 8)));
    if (!data) {
        invalid(node, concat("the weight ", quoted(name), " cannot be read from the bin file: ", data.error()));
        return std::nullopt;
    }
    if (auto expected = storage_bytes(type.dtype, count); (*data)->bytes() != expected) {
        invalid(node, concat("the weight ", quoted(name), " has ", (*data)->bytes(),
                             " bytes in the bin file, expected ", expected));
        return std::nullopt;
    }
    tensor.constant = std::move(*data);
    // A weight that two nodes share is in the file twice, under their names.
    if (!maker_.edges.contains(name)) maker_.sources.push_back(name);
    maker_.edges[name] = std::move(tensor);
    return name;
}

void Importer::add_attribute(ParamNode const& node) {
    if (node.attributes.size() != 1 || node.outputs.size() != 1)
        return invalid(node, concat(node.attributes.size(), " weights and ", node.outputs.size(), " outputs"));
    auto name = add_weight(node, node.attributes[0].first, node.attributes[0].second);
    if (!name) return;
    Inputs inputs;
    auto position = inputs.position(*name);
    bind_term(node, node.outputs[0], Term::of_operand(position), std::move(inputs));
}

void Importer::bind_term(ParamNode const& node, std::string const& operand, Term term, Inputs inputs) {
    auto size = count_terms(term);
    if (size > kMaxTerms) return unsupported(node, concat("a list of ", size, " entries"));
    auto twice = bound_.contains(operand) || producers_.contains(operand);
    if (twice) return invalid(node, concat("operand ", quoted(operand), " is produced more than once"));
    bound_.emplace(operand, Bound{std::move(term), std::move(inputs.names), size});
}

Term Importer::resolve(Term const& term, std::vector<std::string> const& operands, Inputs& inputs) {
    if (term.is(Term::Kind::Operand)) return term_of(operands[static_cast<size_t>(term.integer)], inputs);
    Term result = term;
    for (auto& item : result.items) item = resolve(item, operands, inputs);
    return result;
}

Term Importer::term_of(std::string const& operand, Inputs& inputs) {
    auto found = bound_.find(operand);
    if (found == bound_.end()) return Term::of_operand(inputs.position(operand));
    auto renumber = [&](Term const& term, auto& self) -> Term {
        if (term.is(Term::Kind::Operand))
            return Term::of_operand(inputs.position(found->second.operands[static_cast<size_t>(term.integer)]));
        Term result = term;
        for (auto& item : result.items) item = self(item, self);
        return result;
    };
    return renumber(found->second.term, renumber);
}

void Importer::add_expression(ParamNode const& node) {
    auto text = std::find_if(node.parameters.begin(), node.parameters.end(),
                             [](auto const& parameter) { return parameter.first == "expr"; });
    if (text == node.parameters.end() || node.outputs.size() != 1)
        return invalid(node, concat("expected the parameter expr and one output, got ", node.outputs.size()));
    auto parsed = parse_expression(text->second);
    if (!parsed) return invalid(node, concat("expr ", quoted(text->second), ": ", parsed.error()));
    auto unknown = [&](Term const& term, auto& self) -> bool {
        if (term.is(Term::Kind::Operand)) return static_cast<size_t>(term.integer) >= node.inputs.size();
        return std::any_of(term.items.begin(), term.items.end(), [&](Term const& item) { return self(item, self); });
    };
    if (unknown(*parsed, unknown))
        return invalid(node, concat("expr ", quoted(text->second), " reads an input that the node does not have"));
    Inputs inputs;
    auto term = resolve(*parsed, node.inputs, inputs);
    if (count_terms(term) > kMaxTerms) return unsupported(node, "an expression of more than 4096 terms");
    if (!term.is(Term::Kind::Function)) return bind_term(node, node.outputs[0], std::move(term), std::move(inputs));
    Arguments arguments;
    arguments.named.emplace_back("expr", std::move(term));
    auto op = make_operator(find_operator("pnnx.Expression"), node.type, std::move(arguments));
    producers_[node.outputs[0]] = maker_.nodes.size();
    maker_.add(node.name, {node.name, std::move(op)}, std::move(inputs.names), node.outputs);
}

void Importer::bind_list(ParamNode const& node) {
    if (node.outputs.size() != 1) return invalid(node, concat(node.outputs.size(), " outputs, expected 1"));
    std::vector<Term> items;
    Inputs inputs;
    auto indexes = std::find_if(node.parameters.begin(), node.parameters.end(),
                                [](auto const& parameter) { return parameter.first == "indexes"; });
    if (indexes == node.parameters.end()) {
        for (auto const& operand : node.inputs) items.push_back(term_of(operand, inputs));
        return bind_term(node, node.outputs[0], Term::of_list(std::move(items)), std::move(inputs));
    }
    auto list = with_operands(parse_literal(indexes->second));
    for (auto const& item : list.items)
        if (item.is(Term::Kind::Operand) && static_cast<size_t>(item.integer) >= node.inputs.size())
            return invalid(node, concat("indexes ", quoted(indexes->second), " reads an input that is not there"));
    auto term = resolve(list, node.inputs, inputs);
    bind_term(node, node.outputs[0], std::move(term), std::move(inputs));
}

void Importer::unpack(ParamNode const& node) {
    if (node.inputs.size() != 1) return invalid(node, concat(node.inputs.size(), " inputs, expected 1"));
    auto const& operand = node.inputs[0];
    if (auto found = bound_.find(operand); found != bound_.end()) {
        auto const bound = found->second;
        if (!bound.term.is(Term::Kind::List) || bound.term.items.size() != node.outputs.size())
            return invalid(node, concat(to_string(bound.term), " has not ", node.outputs.size(), " parts"));
        for (size_t i = 0; i < node.outputs.size(); ++i)
            bind_term(node, node.outputs[i], bound.term.items[i], Inputs{bound.operands});
        return;
    }
    // An operator that yields a list has the parts as outputs.
    auto producer = producers_.find(operand);
    if (producer == producers_.end())
        return invalid(node, concat(quoted(operand), " is produced by nothing before this node"));
    auto& item = maker_.nodes[producer->second];
    if (item.outputs != std::vector<std::string>{operand}) return unsupported(node, "a list that is used twice");
    item.outputs = node.outputs;
    for (auto const& output : node.outputs) producers_[output] = producer->second;
}

std::string const* Importer::weight_behind(std::string const& operand) const {
    auto found = bound_.find(operand);
    if (found == bound_.end() || !found->second.term.is(Term::Kind::Operand)) return nullptr;
    auto const& name = found->second.operands[static_cast<size_t>(found->second.term.integer)];
    auto edge = maker_.edges.find(name);
    return edge != maker_.edges.end() && edge->second.constant ? &name : nullptr;
}

void Importer::drop_tied_inputs(std::vector<std::string>& operands, Arguments const& weights,
                                std::vector<std::string> const& names) const {
    for (auto const& [key, term] : weights.named) {
        auto const& own = maker_.edges.at(names[static_cast<size_t>(term.integer)]);
        auto is_own = [&](std::string const& operand) {
            auto* name = weight_behind(operand);
            if (!name) return false;
            auto const& other = maker_.edges.at(*name);
            return other.dtype == own.dtype && other.shape == own.shape &&
                   std::memcmp(other.constant->data(), own.constant->data(), own.constant->bytes()) == 0;
        };
        auto found = std::find_if(operands.begin(), operands.end(), is_own);
        if (found != operands.end() && operands.size() > 1) operands.erase(found);
    }
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
