#include "importer.h"

#include <algorithm>

// Operators of users, which are looked for behind the built-in ones.

namespace refactor::pnnx {

using frontend::concat;

std::shared_ptr<frontend::CustomOperator const> find_custom(frontend::CustomOperators const& all,
                                                            std::string_view type) {
    auto found = std::find_if(all.rbegin(), all.rend(), [&](auto const& op) {
        if (op->domain.empty()) return type == op->name;
        return type == concat(op->domain, ".", op->name) || type == concat(op->domain, "::", op->name);
    });
    return found == all.rend() ? nullptr : *found;
}

std::shared_ptr<frontend::Operator const> make_custom(std::shared_ptr<frontend::CustomOperator const> definition,
                                                      frontend::Attributes attributes) {
    auto version = definition->last.value_or(definition->first);
    return frontend::make_custom(std::move(definition), version, std::move(attributes));
}

std::optional<frontend::Attribute> attribute_of(Term const& term) {
    using enum Term::Kind;
    auto is_whole = [](Term const& item) { return item.is(Int) || item.is(Bool); };
    auto is_number = [&](Term const& item) { return is_whole(item) || item.is(Float); };
    auto is_text = [](Term const& item) { return item.is(Text); };
    auto number = [&](Term const& item) {
        return static_cast<float>(item.is(Float) ? item.number : static_cast<double>(item.integer));
    };
    if (is_whole(term)) return term.integer;
    if (term.is(Float)) return number(term);
    if (term.is(Text)) return term.text;
    if (!term.is(List)) return std::nullopt;
    auto const& items = term.items;
    if (std::all_of(items.begin(), items.end(), is_whole)) {
        std::vector<int64_t> values;
        for (auto const& item : items) values.push_back(item.integer);
        return values;
    }
    if (std::all_of(items.begin(), items.end(), is_number)) {
        std::vector<float> values;
        for (auto const& item : items) values.push_back(number(item));
        return values;
    }
    if (!std::all_of(items.begin(), items.end(), is_text)) return std::nullopt;
    std::vector<std::string> values;
    for (auto const& item : items) values.push_back(item.text);
    return values;
}

void Importer::add_custom(ParamNode const& node, std::shared_ptr<frontend::CustomOperator const> definition) {
    frontend::Attributes attributes;
    std::vector<std::string> names;
    auto add_attribute = [&](std::string const& key, Term const& term) {
        if (term.is(Term::Kind::None)) return;
        if (auto value = attribute_of(term))
            attributes.emplace_back(key, std::move(*value));
        else
            unsupported(node, concat("the argument ", quoted(key), " = ", to_string(term), " of a custom operator"));
    };
    for (auto const& operand : node.inputs) {
        Inputs inputs;
        auto term = term_of(operand, inputs);
        if (term.is(Term::Kind::Operand)) {
            names.push_back(inputs.names[static_cast<size_t>(term.integer)]);
            continue;
        }
        auto named = std::find_if(node.named_inputs.begin(), node.named_inputs.end(),
                                  [&](auto const& entry) { return entry.second == operand; });
        add_attribute(named == node.named_inputs.end() ? concat("arg", &operand - node.inputs.data()) : named->first,
                      term);
    }
    for (auto const& [key, type] : node.attributes)
        if (auto name = add_weight(node, key, type)) names.push_back(*name);
    for (auto const& [key, value] : node.parameters) add_attribute(key, parse_literal(value));
    for (auto const& output : node.outputs) producers_[output] = maker_.nodes.size();
    maker_.add(node.name, {node.name, make_custom(std::move(definition), std::move(attributes))}, std::move(names),
               node.outputs);
}

}  // namespace refactor::pnnx
