
#include "frontend/recorded.h"
#include "operator_def.h"

// Sequences and optionals. An optional that holds something is that something.

namespace refactor::onnx {

namespace {

using frontend::ProcedureContext;
using frontend::ProcedurePtr;
using frontend::Tensor;
using frontend::ValueKind;

/// Type of the elements of a sequence: without content, and with a shape only if all have the same.
Tensor element_type(Tensor const& value) {
    Tensor element;
    element.dtype = value.dtype, element.kind = value.kind, element.element = value.element;
    if (value.shape && element_count(*value.shape).constant()) element.shape = value.shape;
    return element;
}

bool same_type(Tensor const& a, Tensor const& b) { return a.kind == b.kind && (!a.is_tensor() || a.dtype == b.dtype); }

void join(Tensor& element, Tensor const& other) {
    if (element.shape && !(other.shape && *other.shape == *element.shape)) element.shape.reset();
}

/// Output `i` of the type of an element.
void set_element(InferContext& c, size_t i, Tensor const& element) {
    c.copy(i, element);
    if (element.is_tensor() && !element.shape) c.set_unranked(i, element.dtype);
    if (!element.is_tensor() || !element.shape) return;
    auto shape = *element.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (!shape[axis].constant()) shape[axis] = c.fresh(i, axis);
    c.set(i, element.dtype, std::move(shape));
}

Inferred<Tensor> element_of(InferContext const& c, size_t i) {
    auto const& sequence = c.input(i);
    if (!sequence.element) return Err{frontend::unknown_variable(sequence.name)};
    return *sequence.element;
}

Status check_position(InferContext const& c, size_t i) {
    if (!c.has(i)) return std::nullopt;
    if (element_count(c.shape(i)).constant().value_or(1) != 1)
        return invalid("the position has the shape ", c.text(c.shape(i)), ", expected one element");
    return std::nullopt;
}

template <auto kMake>
Inferred<ProcedurePtr> make(ProcedureContext const&, NodeView const&) {
    return frontend::record<kMake>();
}

Status infer_empty(InferContext& c, NodeView const& n) {
    auto code = n.integer("dtype", 1);
    auto dtype = data_type_from_onnx(code);
    if (!dtype) return invalid("dtype is ", code, ", which is no element type");
    Tensor element;
    element.dtype = *dtype;
    c.set_kind(0, ValueKind::Sequence, std::move(element));
    return std::nullopt;
}

Status infer_construct(InferContext& c, NodeView const&) {
    auto element = element_type(c.input(0));
    for (size_t i = 1; i < c.input_count(); ++i) {
        if (!same_type(element, c.input(i)))
            return invalid("input ", i, " is ", to_string(c.input(i), c.symbols()), ", input 0 is ",
                           to_string(c.input(0), c.symbols()), "; elements of a sequence have one type");
        join(element, c.input(i));
    }
    c.set_kind(0, ValueKind::Sequence, std::move(element));
    return std::nullopt;
}

Status infer_insert(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(element, element_of(c, 0));
    RG_CHECK_STATUS(check_position(c, 2));
    if (!same_type(element, c.input(1)))
        return invalid("the value is ", to_string(c.input(1), c.symbols()), ", the elements of the sequence are ",
                       to_string(element, c.symbols()));
    join(element, c.input(1));
    c.set_kind(0, ValueKind::Sequence, std::move(element));
    return std::nullopt;
}

Status infer_erase(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(element, element_of(c, 0));
    RG_CHECK_STATUS(check_position(c, 1));
    c.set_kind(0, ValueKind::Sequence, std::move(element));
    return std::nullopt;
}

Status infer_at(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(element, element_of(c, 0));
    RG_CHECK_STATUS(check_position(c, 1));
    set_element(c, 0, element);
    return std::nullopt;
}

Status infer_length(InferContext& c, NodeView const&) { return c.set(0, DataType::I64, {}); }

Status infer_split(InferContext& c, NodeView const& n) {
    auto shape = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), shape.size()));
    Tensor element;
    element.dtype = c.dtype(0);
    if (!c.has(1)) {
        auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
        if (n.integer("keepdims", 1))
            *at = 1;
        else
            shape.erase(at);
        auto part = c.input(0);
        part.shape = std::move(shape);
        element = element_type(part);
    } else {
        RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 0, 1));
    }
    c.set_kind(0, ValueKind::Sequence, std::move(element));
    return std::nullopt;
}

Inferred<ProcedurePtr> make_split(ProcedureContext const& p, NodeView const& n) {
    return frontend::record<kernel::make_split_to_sequence>(p.dtype(0), n.integer("axis", 0),
                                                            n.integer("keepdims", 1) != 0, p.place());
}

Status infer_concat(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(element, element_of(c, 0));
    if (!element.is_tensor()) return invalid("the elements are no tensors");
    auto new_axis = n.integer("new_axis", 0);
    if (new_axis != 0 && new_axis != 1) return invalid("new_axis is ", new_axis, ", expected 0 or 1");
    if (!element.shape) {
        c.set_unranked(0, element.dtype);
        return std::nullopt;
    }
    auto shape = *element.shape;
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), shape.size() + static_cast<size_t>(new_axis)));
    auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    if (new_axis)
        shape.insert(at, c.fresh(0, axis));
    else
        *at = c.fresh(0, axis);
    return c.set(0, element.dtype, std::move(shape));
}

Inferred<ProcedurePtr> make_concat(ProcedureContext const& p, NodeView const& n) {
    return frontend::record<kernel::make_concat_from_sequence>(p.inputs[0]->element->dtype, n.integer("axis", 0),
                                                               n.integer("new_axis", 0) != 0, p.place());
}

Status infer_optional(InferContext& c, NodeView const& n) {
    auto* type = n.get<std::shared_ptr<Tensor const>>("type");
    if (!c.has(0) && !type) return invalid("neither a value nor a type is given");
    c.set_kind(0, ValueKind::Optional, c.has(0) ? element_type(c.input(0)) : **type);
    return std::nullopt;
}

Status infer_has_element(InferContext& c, NodeView const&) { return c.set(0, DataType::Bool, {}); }

Status infer_get_element(InferContext& c, NodeView const&) {
    auto const& x = c.input(0);
    if (x.kind != ValueKind::Optional) {
        c.copy(0, x);
        return std::nullopt;
    }
    RG_TRY_STATUS(element, element_of(c, 0));
    set_element(c, 0, element);
    return std::nullopt;
}

/// What operators on sequences and optionals take.
InputDef const kSequence{kAny, 0, kSequences}, kValue{kAny, 0, kAnyKind}, kPosition{kIndices};

void define_optional(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Optional",
                   .since = 15,
                   .inputs = {0, 1},
                   .types = {kValue},
                   .attributes = {{"type", K::Type}},
                   .infer = infer_optional,
                   .procedure = make<kernel::make_identity>});
    all.push_back({.name = "OptionalHasElement",
                   .since = 15,
                   .inputs = {0, 1},
                   .types = {kValue},
                   .infer = infer_has_element,
                   .procedure = make<kernel::make_optional_has_element>});
    all.push_back({.name = "OptionalGetElement",
                   .since = 15,
                   .types = {kValue},
                   .infer = infer_get_element,
                   .procedure = make<kernel::make_optional_get_element>});
}

}  // namespace

void define_sequence(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "SequenceEmpty",
                   .since = 11,
                   .inputs = {0, 0},
                   .attributes = {{"dtype", K::Int}},
                   .infer = infer_empty,
                   .procedure = make<kernel::make_sequence_empty>});
    all.push_back({.name = "SequenceConstruct",
                   .since = 11,
                   .inputs = {1, kVariadic},
                   .types = {kValue},
                   .infer = infer_construct,
                   .procedure = make<kernel::make_sequence_construct>});
    all.push_back({.name = "SequenceInsert",
                   .since = 11,
                   .inputs = {2, 3},
                   .types = {kSequence, kValue, kPosition},
                   .infer = infer_insert,
                   .procedure = make<kernel::make_sequence_insert>});
    all.push_back({.name = "SequenceErase",
                   .since = 11,
                   .inputs = {1, 2},
                   .types = {kSequence, kPosition},
                   .infer = infer_erase,
                   .procedure = make<kernel::make_sequence_erase>});
    all.push_back({.name = "SequenceAt",
                   .since = 11,
                   .inputs = {2, 2},
                   .types = {kSequence, kPosition},
                   .infer = infer_at,
                   .procedure = make<kernel::make_sequence_at>});
    all.push_back({.name = "SequenceLength",
                   .since = 11,
                   .types = {kSequence},
                   .infer = infer_length,
                   .procedure = make<kernel::make_sequence_length>});
    all.push_back({.name = "SplitToSequence",
                   .since = 11,
                   .inputs = {1, 2},
                   .types = {{kAny}, kPosition},
                   .attributes = {{"axis", K::Int}, {"keepdims", K::Int}},
                   .infer = infer_split,
                   .procedure = make_split});
    all.push_back({.name = "ConcatFromSequence",
                   .since = 11,
                   .types = {kSequence},
                   .attributes = {{"axis", K::Int, true}, {"new_axis", K::Int}},
                   .infer = infer_concat,
                   .procedure = make_concat});
    define_optional(all);
}

}  // namespace refactor::onnx
