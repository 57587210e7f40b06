#include "importer.h"

#include <algorithm>

namespace refactor::pnnx {

using frontend::concat;

namespace {

// A list of lists of lists could grow without bound; real ones have a few entries.
constexpr size_t kMaxTerms = 4096;

size_t count_terms(Term const& term) {
    size_t count = 1;
    for (auto const& item : term.items) count += count_terms(item);
    return count;
}

}  // namespace

Term with_operands(Term term) {
    for (auto& item : term.items) {
        if (!item.is(Term::Kind::Text) || !item.text.starts_with('@')) continue;
        if (auto parsed = parse_expression(item.text); parsed.ok()) item = std::move(*parsed);
    }
    return term;
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

}  // namespace refactor::pnnx
