#include "frontend/custom_operator.h"

#include "runtime/operator_error.h"

#include <algorithm>

namespace refactor::frontend {

namespace {

class CustomNode final : public Operator {
    std::shared_ptr<CustomOperator const> definition_;
    int64_t version_;
    Attributes attributes_;

public:
    CustomNode(std::shared_ptr<CustomOperator const> definition, int64_t version, Attributes attributes)
        : definition_(std::move(definition)), version_(version), attributes_(std::move(attributes)) {}
    std::string_view type() const override { return definition_->name; }
    std::string describe() const override {
        auto const& domain = definition_->domain;
        return concat(definition_->name, ", ", domain, domain.empty() ? "" : " ", "opset ", version_);
    }
    Status infer(InferContext& context) const override { return definition_->infer(context, attributes_); }
    bool is_procedure(ProcedureContext const&) const override { return true; }
    Inferred<ProcedurePtr> procedure(ProcedureContext const& context) const override {
        return definition_->procedure(context, attributes_);
    }
    Status lower(LowerContext&) const override { return unsupported("a custom operator inside a program"); }
    bool can_fold(std::span<Tensor const* const>) const override { return false; }
};

}  // namespace

std::shared_ptr<CustomOperator const> find_custom(CustomOperators const& all, std::string_view domain,
                                                  std::string_view name, int64_t version) {
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
        auto const& op = **it;
        if (op.domain == domain && op.name == name && op.first <= version && version <= op.last.value_or(version))
            return *it;
    }
    return nullptr;
}

std::shared_ptr<Operator const> make_custom(std::shared_ptr<CustomOperator const> definition, int64_t version,
                                            Attributes attributes) {
    return std::make_shared<CustomNode>(std::move(definition), version, std::move(attributes));
}

Status set_announced(InferContext& c, std::vector<AnnouncedType> const& types) {
    if (types.size() != c.output_count())
        return invalid("the operator announces ", types.size(), " outputs, the node has ", c.output_count());
    for (size_t i = 0; i < types.size(); ++i) {
        auto const& type = types[i];
        if (type.dtype == DataType::Undefined) return invalid("output ", i, " has no element type");
        if (!type.sizes) {
            c.set_unranked(i, type.dtype);
            continue;
        }
        Shape shape;
        for (size_t axis = 0; axis < type.sizes->size(); ++axis) {
            auto const& text = (*type.sizes)[axis];
            if (!text) {
                shape.push_back(c.fresh(i, axis));
                continue;
            }
            RG_TRY_STATUS(size, parse_size(*text, c.symbols()));
            shape.push_back(size);
        }
        RG_CHECK_STATUS(c.set(i, type.dtype, std::move(shape)));
    }
    return std::nullopt;
}

ResultCheck::ResultCheck(ProcedureContext const& context)
    : outputs_(context.outputs.begin(), context.outputs.end()), symbols_(context.symbols.size()) {
    for (auto* input : context.inputs) inputs_.push_back(input && input->is_tensor() ? input->shape : std::nullopt);
    for (auto const& output : outputs_) expected_.push_back(to_string(output, context.symbols));
}

std::vector<std::optional<Dims>> ResultCheck::expected_dims(std::span<runtime::Value const* const> inputs) const {
    Bindings bindings(symbols_, kUnbound);
    auto each_size = [&](auto const& visit) {
        for (size_t i = 0; i < inputs_.size(); ++i)
            for (size_t axis = 0; inputs[i] && inputs_[i] && axis < inputs_[i]->size(); ++axis)
                if (axis < inputs[i]->dims.size()) visit((*inputs_[i])[axis], inputs[i]->dims[axis]);
    };
    each_size([&](DimExpr const& size, int64_t value) {
        if (auto symbol = size.as_symbol()) bindings[*symbol] = value;
    });
    auto value_of = [&](DimExpr const& wanted) {
        auto value = wanted.evaluate(bindings);
        if (!value)
            each_size([&](DimExpr const& size, int64_t actual) {
                if (size == wanted) value = actual;
            });
        if (value && *value < 0)
            throw runtime::OperatorError(concat("it announced a size that is ", *value, " for these inputs"));
        return value.value_or(-1);
    };
    std::vector<std::optional<Dims>> all;
    for (auto const& output : outputs_) {
        auto& dims = all.emplace_back();
        if (!output.shape) continue;
        dims.emplace();
        for (auto const& size : *output.shape) dims->push_back(value_of(size));
    }
    return all;
}

void ResultCheck::check(std::span<runtime::Value const* const> inputs, std::span<runtime::Value const> outputs) const {
    auto dims = expected_dims(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
        auto const& actual = outputs[i];
        bool fits = actual.kind == ValueKind::Tensor && actual.dtype == dtype(i);
        if (fits && dims[i]) {
            fits = actual.dims.size() == dims[i]->size();
            for (size_t axis = 0; fits && axis < dims[i]->size(); ++axis)
                fits = (*dims[i])[axis] < 0 || (*dims[i])[axis] == actual.dims[axis];
        }
        if (fits) continue;
        std::string sizes;
        for (size_t axis = 0; dims[i] && axis < dims[i]->size(); ++axis)
            sizes += concat(axis ? ", " : "", (*dims[i])[axis] < 0 ? "?" : std::to_string((*dims[i])[axis]));
        auto here = dims[i] && !sizes.empty() ? concat(" = [", sizes, "]") : std::string();
        throw runtime::OperatorError(concat("output ", i, " (\"", outputs_[i].name, "\") is ", describe(actual),
                                            ", announced was ", expected_[i], here));
    }
}

}  // namespace refactor::frontend
