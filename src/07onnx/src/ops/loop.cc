#include "frontend/recorded.h"
#include "operator_def.h"

// Loop and Scan. The importer has appended the outer values that the body reads to the inputs, under their names.

namespace refactor::onnx {

namespace {

using frontend::Body;
using frontend::Captures;
using frontend::Graph;
using frontend::ProcedureContext;
using frontend::ProcedurePtr;
using frontend::Tensor;

Graph const& body_of(NodeView const& n) { return **n.get<std::shared_ptr<Graph const>>("body"); }

/// Inputs of the node for the inputs of the body behind its formal ones.
Captures captures_of(InferContext const& c, Graph const& graph) {
    Captures captures;
    auto inputs = graph.topo.global_inputs();
    for (auto edge : inputs.subspan(graph.formal_inputs)) {
        uint32_t i = 0;
        while (i < c.input_count() && !(c.has(i) && c.input(i).name == graph.tensors[edge].name)) ++i;
        captures.push_back(i);
    }
    return captures;
}

/// A scalar, or the vector of one element as which older exporters declare it.
Tensor scalar_type(Graph const& graph, size_t input, DataType dtype) {
    auto const& formal = graph.tensors[graph.topo.global_inputs()[input]];
    Tensor tensor;
    tensor.name = formal.name;
    tensor.dtype = dtype, tensor.shape.emplace();
    if (formal.shape && formal.shape->size() == 1) tensor.shape->emplace_back(1);
    return tensor;
}

/// Type of a value that enters the body as its input `input`.
Tensor entering(Graph const& graph, size_t input, Tensor tensor) {
    tensor.name = graph.tensors[graph.topo.global_inputs()[input]].name;
    return tensor;
}

void describe_stacks(Body const& body, size_t first, size_t count, std::vector<Dims>& dims,
                     std::vector<DataType>& types) {
    for (size_t i = 0; i < count; ++i) {
        auto const& tensor = body.output(first + i);
        types.push_back(tensor.dtype == DataType::Undefined ? tensor.declared : tensor.dtype);
        auto& own = dims.emplace_back();
        if (!tensor.shape && tensor.declared_dims) own = *tensor.declared_dims;
        for (auto const& size : tensor.shape.value_or(Shape{})) own.push_back(size.constant().value_or(-1));
    }
}

/// Output `i`: the values of `element` stacked along `axis`, `length` of them.
Status set_stack(InferContext& c, size_t i, Tensor const& element, int64_t axis, DimExpr length,
                 SymbolTable const& outer) {
    if (!element.is_tensor()) return invalid("output ", i, " stacks a ", runtime::name_of(element.kind));
    if (!element.shape) {
        c.set_unranked(i, element.dtype);
        return std::nullopt;
    }
    RG_TRY_STATUS(at, frontend::normalize_axis(axis, element.shape->size() + 1));
    auto stacked = element;
    stacked.shape->insert(stacked.shape->begin() + static_cast<std::ptrdiff_t>(at), std::move(length));
    return frontend::set_from_body(c, i, stacked, outer);
}

// Loop

Inferred<Body> infer_loop_body(InferContext const& c, NodeView const& n, SymbolTable const& outer) {
    auto const& graph = body_of(n);
    if (graph.formal_inputs < 2)
        return Err{invalid("the body has ", graph.formal_inputs, " inputs, expected at least 2")};
    auto states = graph.formal_inputs - 2;
    if (c.input_count() < 2 + states)
        return Err{
            invalid("the body has ", states, " states, the node gives ", std::max<size_t>(c.input_count(), 2) - 2)};
    if (graph.topo.global_outputs().size() < 1 + states)
        return Err{
            invalid("the body has ", graph.topo.global_outputs().size(), " outputs, expected at least ", 1 + states)};
    std::vector<Tensor> inputs{scalar_type(graph, 0, DataType::I64), scalar_type(graph, 1, DataType::Bool)};
    for (size_t i = 0; i < states; ++i) {
        if (!c.has(2 + i)) return Err{invalid("the initial value of state ", i, " is omitted")};
        inputs.push_back(entering(graph, 2 + i, c.input(2 + i)));
    }
    for (auto i : captures_of(c, graph)) inputs.push_back(c.input(i));
    return frontend::infer_loop_body(graph, inputs, 2, 1, states, outer, "body");
}

Status infer_loop(InferContext& c, NodeView const& n) {
    for (size_t i = 0; i < 2; ++i)
        if (c.has(i) && element_count(c.shape(i)).constant().value_or(1) != 1)
            return invalid(i ? "the condition" : "the number of iterations", " has the shape ", c.text(c.shape(i)),
                           ", expected one element");
    if (c.has(0) && c.dtype(0) != DataType::I64)
        return invalid("the number of iterations is ", name_of(c.dtype(0)), ", expected i64");
    if (c.has(1) && c.dtype(1) != DataType::Bool)
        return invalid("the condition is ", name_of(c.dtype(1)), ", expected bool");
    auto const outer = c.symbols();
    RG_TRY_STATUS(body, infer_loop_body(c, n, outer));
    auto states = body.graph->formal_inputs - 2;
    if (c.output_count() > body.output_count() - 1)
        return invalid("the node has ", c.output_count(), " outputs, the body gives ", body.output_count() - 1);
    for (size_t i = 0; i < c.output_count(); ++i) {
        if (i >= states) {
            RG_CHECK_STATUS(set_stack(c, i, body.output(1 + i), 0, c.fresh(i, 0), outer));
            continue;
        }
        auto const& state = body.inference.tensors[body.graph->topo.global_inputs()[2 + i]];
        RG_CHECK_STATUS(frontend::set_from_body(c, i, state, outer));
    }
    return std::nullopt;
}

Inferred<ProcedurePtr> loop_procedure(ProcedureContext const& p, NodeView const& n) {
    auto view = p.view();
    RG_TRY(body, infer_loop_body(view, n, p.symbols));
    frontend::LoopInfo info;
    info.states = body.graph->formal_inputs - 2, info.stacks = body.output_count() - 1 - info.states;
    auto is_vector = [&](size_t input) {
        return body.inference.tensors[body.graph->topo.global_inputs()[input]].shape->size() == 1;
    };
    info.vector_iteration = is_vector(0), info.vector_condition = is_vector(1);
    describe_stacks(body, 1 + info.states, info.stacks, info.stack_dims, info.stack_types);
    return frontend::record<frontend::make_loop>(
        std::move(info), frontend::compile(*body.graph, body.inference, body.symbols, p.options),
        captures_of(view, *body.graph));
}

// Scan

struct ScanParts {
    size_t states = 0, sequences = 0, stacks = 0;
    std::vector<int64_t> axes, output_axes;
    std::vector<bool> reversed, outputs_reversed;
};

std::vector<bool> directions(NodeView const& n, std::string_view name, size_t count) {
    std::vector<bool> reversed(count);
    auto given = n.integers(name);
    for (size_t i = 0; i < given.size() && i < count; ++i) reversed[i] = given[i] != 0;
    return reversed;
}

/// Where states and sequences begin: behind the lengths of Scan-8.
size_t first_operand(NodeView const& n) { return n.opset < 9; }

Inferred<ScanParts> scan_parts(InferContext const& c, NodeView const& n) {
    auto const& graph = body_of(n);
    auto first = first_operand(n);
    ScanParts parts;
    auto sequences = n.integer("num_scan_inputs", 0);
    if (sequences < 1 || static_cast<size_t>(sequences) > graph.formal_inputs)
        return Err{invalid("num_scan_inputs is ", sequences, ", expected 1 to ", graph.formal_inputs)};
    parts.sequences = static_cast<size_t>(sequences), parts.states = graph.formal_inputs - parts.sequences;
    if (c.input_count() < first + graph.formal_inputs)
        return Err{invalid("the node has ", c.input_count(), " inputs, expected ", first + graph.formal_inputs)};
    for (size_t i = first; i < first + graph.formal_inputs; ++i) {
        if (!c.has(i)) return Err{invalid("the required input ", i, " is omitted")};
        if (!c.input(i).is_tensor()) return Err{invalid("input ", i, " is no tensor")};
        if (auto problem = frontend::expect_rank(c.input(i), first, InferContext::kMaxRank)) return Err{*problem};
    }
    auto results = graph.topo.global_outputs().size();
    if (results < parts.states)
        return Err{invalid("the body has ", results, " outputs, expected at least ", parts.states)};
    parts.stacks = results - parts.states;
    auto axes = n.integers("scan_input_axes");
    for (size_t i = 0; i < parts.sequences; ++i) {
        auto rank = c.shape(first + parts.states + i).size() - first;
        RG_TRY(axis, frontend::normalize_axis(i < axes.size() ? axes[i] : 0, rank));
        parts.axes.push_back(static_cast<int64_t>(axis));
    }
    parts.output_axes = n.integers("scan_output_axes");
    parts.output_axes.resize(parts.stacks);
    parts.reversed = directions(n, n.opset < 9 ? "directions" : "scan_input_directions", parts.sequences);
    parts.outputs_reversed = directions(n, "scan_output_directions", parts.stacks);
    return parts;
}

Inferred<Body> infer_scan_body(InferContext const& c, NodeView const& n, ScanParts const& parts,
                               SymbolTable const& outer) {
    auto const& graph = body_of(n);
    auto first = first_operand(n);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < graph.formal_inputs; ++i) {
        inputs.push_back(entering(graph, i, c.input(first + i)));
        auto& operand = inputs.back();
        operand.constant.reset(), operand.values.reset(), operand.literal.reset();
        if (first) operand.shape->erase(operand.shape->begin());
        if (i >= parts.states) operand.shape->erase(operand.shape->begin() + parts.axes[i - parts.states]);
    }
    for (auto i : captures_of(c, graph)) inputs.push_back(c.input(i));
    return frontend::infer_loop_body(graph, inputs, 0, 0, parts.states, outer, "body");
}

Status infer_scan(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(parts, scan_parts(c, n));
    auto first = first_operand(n);
    auto length_of = [&](size_t i) {
        return c.shape(first + parts.states + i)[first + static_cast<size_t>(parts.axes[i])];
    };
    for (size_t i = 1; i < parts.sequences; ++i)
        RG_CHECK_STATUS(c.expect_equal(length_of(i), length_of(0), "the length of a sequence"));
    auto const outer = c.symbols();
    // Scan-8 has batches in front of everything.
    auto batched = [&](Tensor value) {
        if (first && value.shape) value.shape->insert(value.shape->begin(), c.shape(first)[0]);
        return value;
    };
    RG_TRY_STATUS(body, infer_scan_body(c, n, parts, outer));
    if (c.output_count() > body.output_count())
        return invalid("the node has ", c.output_count(), " outputs, the body gives ", body.output_count());
    for (size_t i = 0; i < c.output_count(); ++i) {
        if (i < parts.states) {
            auto const& state = body.inference.tensors[body.graph->topo.global_inputs()[i]];
            RG_CHECK_STATUS(frontend::set_from_body(c, i, batched(state), outer));
            continue;
        }
        auto axis = parts.output_axes[i - parts.states] + static_cast<int64_t>(first);
        RG_CHECK_STATUS(set_stack(c, i, batched(body.output(i)), axis, length_of(0), outer));
    }
    return std::nullopt;
}

Inferred<ProcedurePtr> scan_procedure(ProcedureContext const& p, NodeView const& n) {
    auto view = p.view();
    RG_TRY(parts, scan_parts(view, n));
    RG_TRY(body, infer_scan_body(view, n, parts, p.symbols));
    frontend::ScanInfo info{parts.states,   parts.sequences,        parts.stacks, parts.axes, parts.output_axes,
                            parts.reversed, parts.outputs_reversed, {},           {},         n.opset < 9};
    describe_stacks(body, info.states, info.stacks, info.stack_dims, info.stack_types);
    for (size_t i = 0; i < info.stacks; ++i) {
        auto rank = info.stack_dims[i].size() + 1;
        RG_TRY(axis, frontend::normalize_axis(info.output_axes[i], rank));
        info.output_axes[i] = static_cast<int64_t>(axis);
    }
    return frontend::record<frontend::make_scan>(
        std::move(info), frontend::compile(*body.graph, body.inference, body.symbols, p.options),
        captures_of(view, *body.graph));
}

}  // namespace

void define_loop(Definitions& all) {
    all.push_back({.name = "Loop",
                   .inputs = {0, kVariadic},
                   .outputs = {1, kVariadic},
                   .types = {{kAny}, {kAny}, {kAny, 0, kAnyKind}},
                   .attributes = {{"body", AttributeKind::Graph, true}},
                   .infer = infer_loop,
                   .procedure = loop_procedure,
                   .padded_inputs = 2});
    all.push_back({.name = "Scan",
                   .since = 8,
                   .inputs = {0, kVariadic},
                   .outputs = {1, kVariadic},
                   .types = {{kI64}, {kAny, 0, kAnyKind}},
                   .attributes = {{"body", AttributeKind::Graph, true},
                                  {"directions", AttributeKind::Ints},
                                  {"num_scan_inputs", AttributeKind::Int, true}},
                   .infer = infer_scan,
                   .procedure = scan_procedure});
    all.push_back({.name = "Scan",
                   .since = 9,
                   .inputs = {1, kVariadic},
                   .outputs = {1, kVariadic},
                   .types = {{kAny, 0, kAnyKind}},
                   .attributes = {{"body", AttributeKind::Graph, true},
                                  {"num_scan_inputs", AttributeKind::Int, true},
                                  {"scan_input_axes", AttributeKind::Ints},
                                  {"scan_input_directions", AttributeKind::Ints},
                                  {"scan_output_axes", AttributeKind::Ints},
                                  {"scan_output_directions", AttributeKind::Ints}},
                   .infer = infer_scan,
                   .procedure = scan_procedure});
}

}  // namespace refactor::onnx
