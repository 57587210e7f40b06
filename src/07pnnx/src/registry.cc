#include "registry.h"

#include "param_file.h"
#include "pnnx/model_reader.h"

#include <algorithm>
#include <map>

namespace refactor::pnnx {

using frontend::concat;
using frontend::InferContext;
using frontend::Status;
using frontend::Tensor;

#define RG_PNNX_OPERATORS(family) void define_##family(Definitions&);
#include "operator_list.inc"
#undef RG_PNNX_OPERATORS

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        auto end = std::min(text.find(' '), text.size());
        if (end) words.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::map<std::string_view, OperatorDef> make_registry() {
    Definitions all;
#define RG_PNNX_OPERATORS(family) define_##family(all);
#include "operator_list.inc"
#undef RG_PNNX_OPERATORS
    std::map<std::string_view, OperatorDef> registry;
    for (auto const& def : all)
        for (auto name : words_of(def.names)) registry.emplace(name, def);
    return registry;
}

std::map<std::string_view, OperatorDef> const& registry() {
    static auto const kRegistry = make_registry();
    return kRegistry;
}

/// What a build function tells besides types and shapes.
struct Knowledge {
    std::vector<std::optional<std::vector<DimExpr>>> values;  ///< of each output, if they are known
    std::vector<kernel::SizeCondition> conditions;
};

class PnnxOperator final : public frontend::Operator {
    OperatorDef const* def_;
    std::string type_, label_;
    Arguments arguments_;

    /// Runs the build function.
    Status build(LowerContext& context, Knowledge& knowledge) const {
        try {
            Call call(context, arguments_, type_);
            def_->build(call);
            for (size_t i = 0; i < context.output_count(); ++i) {
                if (!context.results()[i] && call.wants(i)) refuse_unsupported("output ", i, " of this operator");
                knowledge.values.push_back(std::move(call.values(i)));
            }
            knowledge.conditions = call.conditions();
            return std::nullopt;
        } catch (Refusal& refusal) {
            return std::move(refusal.reason);
        }
    }

public:
    PnnxOperator(OperatorDef const* def, std::string type, Arguments arguments, std::string label)
        : def_(def), type_(std::move(type)), label_(std::move(label)), arguments_(std::move(arguments)) {}
    std::string_view type() const override { return type_; }
    std::string describe() const override { return label_.empty() ? type_ : label_; }

    Status infer(InferContext& c) const override {
        if (!def_) return frontend::unknown_variable(type_);
        computation::Graph graph;
        std::vector<Tensor const*> inputs;
        std::vector<Edge> edges;
        for (size_t i = 0; i < c.input_count(); ++i) {
            auto const& input = c.input(i);
            inputs.push_back(&input);
            edges.push_back(graph.add_source({input.name, input.dtype, *input.shape, {}, input.constant}));
        }
        std::vector<Tensor> outputs(c.output_count());
        std::string name;
        LowerContext scratch(graph, c.symbols(), name, inputs, edges, outputs);
        Knowledge knowledge;
        RG_CHECK_STATUS(build(scratch, knowledge));
        for (auto& condition : knowledge.conditions) c.expect(std::move(condition));
        for (size_t i = 0; i < outputs.size(); ++i) {
            auto* edge = scratch.results()[i];
            if (!edge) continue;
            RG_CHECK_STATUS(c.set(i, edge->value.dtype, edge->value.shape));
            if (auto& values = knowledge.values[i]) c.set_values(i, std::move(*values));
        }
        return std::nullopt;
    }

    Status lower(LowerContext& context) const override {
        Knowledge knowledge;
        return build(context, knowledge);
    }
};

}  // namespace

OperatorDef const* find_operator(std::string_view type) {
    auto it = registry().find(type);
    return it == registry().end() ? nullptr : &it->second;
}

bool is_supported(std::string_view type) { return find_operator(type); }

std::vector<std::string> supported_operators() {
    std::vector<std::string> names;
    for (auto const& [name, def] : registry()) names.emplace_back(name);
    return names;
}

namespace {

/// Whether a signature names an argument, or has the beginning of its name before an asterisk.
bool is_listed(std::vector<std::string_view> const& words, std::string_view name) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
        if (word == "|" || word == "*") return false;
        return word == name || (word.ends_with('*') && name.starts_with(word.substr(0, word.size() - 1)));
    });
}

}  // namespace

std::vector<std::string> bind(OperatorDef const& def, Arguments& arguments) {
    std::vector<std::string> problems;
    auto words = words_of(def.signature);
    auto bar = std::find(words.begin(), words.end(), "|");
    std::vector<std::string_view> names(words.begin(), bar);
    bool variadic = !names.empty() && names[0] == "*";
    for (auto const& [name, term] : arguments.named)
        if (!is_listed(words, name))
            problems.push_back(concat("the argument ", quoted(name), " = ", to_string(term), " is not known"));
    std::vector<Term> tensors;
    if (variadic) {
        // Literals behind the tensors are the arguments behind "*".
        auto& all = arguments.positional;
        auto literal = std::find_if(all.begin(), all.end(), [](Term const& term) { return term.is_literal(); });
        tensors.assign(std::make_move_iterator(all.begin()), std::make_move_iterator(literal));
        all.erase(all.begin(), literal);
        names.erase(names.begin());
    }
    if (arguments.positional.size() > names.size())
        problems.push_back(concat(arguments.positional.size(), " inputs, expected at most ", names.size()));
    size_t next = 0;
    for (auto& term : arguments.positional) {
        // Inputs without a name fill what has none yet: pnnx names some of them only.
        while (next < names.size() && arguments.find(names[next])) ++next;
        if (next == names.size()) {
            problems.push_back("there are more inputs than arguments without a value");
            break;
        }
        arguments.named.emplace_back(names[next++], std::move(term));
    }
    arguments.positional = std::move(tensors);
    return problems;
}

std::shared_ptr<frontend::Operator const> make_operator(OperatorDef const* def, std::string type, Arguments arguments,
                                                        std::string label) {
    return std::make_shared<PnnxOperator>(def, std::move(type), std::move(arguments), std::move(label));
}

}  // namespace refactor::pnnx
