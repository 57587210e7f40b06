#include "frontend/text.h"
#include "registry.h"

#include <algorithm>

namespace refactor::onnx {

using frontend::concat;

namespace {

constexpr std::string_view kKindNames[]{"int",     "float",  "string", "ints", "floats",
                                        "strings", "tensor", "graph",  "type"};

std::string text_of(TypeSet set) {
    std::string text;
    for (int i = 1; i < kDataTypeCount; ++i)
        if (set >> i & 1) text += concat(text.empty() ? "" : ", ", name_of(static_cast<DataType>(i)));
    return text;
}

std::string text_of_kinds(KindSet set) {
    std::string text;
    for (int i = 0; i < 4; ++i)
        if (set >> i & 1)
            text += concat(text.empty() ? "a " : " or a ", runtime::name_of(static_cast<frontend::ValueKind>(i)));
    return text;
}

/// Checks the types of the inputs against the definition.
Status check_types(OperatorDef const& def, InferContext const& context) {
    static InputDef const kAnyTensor;
    for (size_t i = 0; i < context.input_count(); ++i) {
        if (!context.has(i)) continue;
        auto const& rule = def.types.empty() ? kAnyTensor : def.types[std::min(i, def.types.size() - 1)];
        auto const& input = context.input(i);
        if (!(rule.kinds >> static_cast<int>(input.kind) & 1))
            return invalid("input ", i, " (\"", input.name, "\") is a ", runtime::name_of(input.kind), ", expected ",
                           text_of_kinds(rule.kinds));
        if (!input.is_tensor()) continue;
        if (!(rule.types >> static_cast<int>(input.dtype) & 1))
            return invalid("input ", i, " (\"", input.name, "\") is ", name_of(input.dtype), ", expected ",
                           text_of(rule.types));
        if (!rule.group) continue;
        for (size_t k = 0; k < i; ++k) {
            auto same_group = def.types[std::min(k, def.types.size() - 1)].group == rule.group;
            if (same_group && context.has(k) && context.input(k).is_tensor() && context.dtype(k) != input.dtype)
                return invalid("input ", i, " (\"", input.name, "\") is ", name_of(input.dtype), ", expected ",
                               name_of(context.dtype(k)), " as input ", k);
        }
    }
    return std::nullopt;
}

/// Integers of which casts may make weights, as many as the pass `keep_weights_quantized` keeps.
bool is_narrow_matrix(frontend::Tensor const& x) {
    constexpr int64_t kWorthwhile = 1 << 14;
    bool narrow = is_integer(x.dtype) && bits_of(x.dtype) <= 8;
    return narrow && x.shape->size() == 2 && element_count(*x.shape).constant().value_or(0) >= kWorthwhile;
}

class OnnxOperator final : public frontend::Operator, public std::enable_shared_from_this<OnnxOperator> {
    OperatorDef const& def_;
    int64_t opset_;
    frontend::Attributes attributes_;

    NodeView view() const { return {attributes_, def_.name, opset_}; }

public:
    OnnxOperator(OperatorDef const& def, int64_t opset, frontend::Attributes attributes)
        : def_(def), opset_(opset), attributes_(std::move(attributes)) {}
    std::string_view type() const override { return def_.name; }
    std::string describe() const override {
        return concat(def_.name, ", ", def_.domain, def_.domain.empty() ? "" : " ", "opset ", opset_);
    }
    Status infer(InferContext& context) const override {
        RG_CHECK_STATUS(check_types(def_, context));
        return def_.infer(context, view());
    }
    bool is_procedure(frontend::ProcedureContext const& context) const override {
        if (def_.is_procedure) return def_.is_procedure(context, view());
        return (def_.procedure && !def_.lower) || frontend::has_text(context);
    }
    frontend::Inferred<frontend::ProcedurePtr> procedure(frontend::ProcedureContext const& context) const override {
        if (def_.procedure) return def_.procedure(context, view());
        return frontend::make_text_mover(shared_from_this(), context);
    }
    Status lower(LowerContext& context) const override { return def_.lower(context, view()); }
    bool goes_with_readers() const override {
        constexpr std::string_view kNames[]{"Cast",    "DequantizeLinear", "Flatten",   "Identity",
                                            "Reshape", "Squeeze",          "Transpose", "Unsqueeze"};
        return std::find(std::begin(kNames), std::end(kNames), def_.name) != std::end(kNames);
    }
    std::vector<frontend::Graph const*> graphs() const override {
        std::vector<frontend::Graph const*> found;
        for (auto const& [name, value] : attributes_)
            if (auto const* graph = std::get_if<std::shared_ptr<frontend::Graph const>>(&value))
                found.push_back(graph->get());
        return found;
    }
    bool can_fold(std::span<frontend::Tensor const* const> inputs) const override {
        // Passes look for weights as they were quantised.
        if (def_.name == "DequantizeLinear" && inputs[0]->shape->size() > 1) return false;
        if (def_.name == "Cast" && is_narrow_matrix(*inputs[0])) return false;
        return std::none_of(def_.attributes.begin(), def_.attributes.end(),
                            [](auto const& attribute) { return attribute.kind == AttributeKind::Graph; });
    }
};

std::string range_text(Arity arity) {
    if (arity.least == arity.most) return std::to_string(arity.least);
    if (arity.most == kVariadic) return concat("at least ", arity.least);
    return concat(arity.least, " to ", arity.most);
}

std::string unknown_text(OperatorDef const& def, std::string_view name) {
    std::string known;
    for (auto const& attribute : def.attributes) known += (known.empty() ? "" : ", ") + std::string(attribute.name);
    return concat("unknown attribute \"", name, "\", ", known.empty() ? "it has none" : "it has: " + known);
}

void check_attributes(OperatorDef const& def, frontend::Attributes const& attributes,
                      std::vector<std::string>& problems) {
    for (size_t i = 0; i < attributes.size(); ++i) {
        auto const& [name, value] = attributes[i];
        auto same = [&name = name](auto const& other) { return other.first == name; };
        auto begin = attributes.begin();
        if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(i), same))
            problems.push_back(concat("attribute \"", name, "\" is given twice"));
        auto known = std::find_if(def.attributes.begin(), def.attributes.end(),
                                  [&name = name](auto const& a) { return a.name == name; });
        if (known == def.attributes.end())
            problems.push_back(unknown_text(def, name));
        else if (static_cast<size_t>(known->kind) != value.index())
            problems.push_back(concat("attribute \"", name, "\" is of kind ", kind_of(value), ", expected ",
                                      kKindNames[static_cast<size_t>(known->kind)]));
    }
    for (auto const& attribute : def.attributes)
        if (attribute.required && !frontend::find(attributes, attribute.name))
            problems.push_back(concat("the required attribute \"", attribute.name, "\" is missing"));
}

}  // namespace

std::vector<std::string> check_signature(OperatorDef const& def, std::vector<std::string> const& inputs,
                                         std::vector<std::string> const& outputs,
                                         frontend::Attributes const& attributes) {
    std::vector<std::string> problems;
    auto count = static_cast<int>(std::min<size_t>(inputs.size(), INT_MAX - 1));
    if (count < def.inputs.least || count > def.inputs.most)
        problems.push_back(concat(count, " inputs, expected ", range_text(def.inputs)));
    // Any number of inputs is a list without gaps; only Loop and Scan begin with optional ones, which they check.
    int required = def.inputs.most == kVariadic && def.inputs.least > 0 ? count : std::min(count, def.inputs.least);
    for (int i = 0; i < required; ++i)
        if (inputs[static_cast<size_t>(i)].empty()) problems.push_back(concat("the required input ", i, " is omitted"));
    count = static_cast<int>(std::min<size_t>(outputs.size(), INT_MAX - 1));
    if (count < def.outputs.least || count > def.outputs.most)
        problems.push_back(concat(count, " outputs, expected ", range_text(def.outputs)));
    check_attributes(def, attributes, problems);
    return problems;
}

std::shared_ptr<frontend::Operator const> make_operator(OperatorDef const& def, int64_t opset,
                                                        frontend::Attributes attributes) {
    return std::make_shared<OnnxOperator>(def, opset, std::move(attributes));
}

Status infer_same(InferContext& context, NodeView const&) { return context.set(0, context.dtype(0), context.shape(0)); }

}  // namespace refactor::onnx
