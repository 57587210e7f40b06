#include "computation/if.h"
#include "frontend/recorded.h"
#include "frontend/sub_graph.h"
#include "frontend/text.h"
#include "operator_def.h"

#include <algorithm>

// If. Input 0 is the condition; the importer has appended the outer values that the branches read, under their names.

namespace refactor::onnx {

namespace {

using frontend::Graph;
using frontend::Tensor;

using frontend::Body;
using frontend::Captures;
using frontend::ProcedureContext;
using frontend::ProcedurePtr;

Graph const& graph_of(NodeView const& n, std::string_view attribute) {
    return **n.get<std::shared_ptr<Graph const>>(attribute);
}

Captures captures_of(InferContext const& c, Graph const& graph) {
    Captures captures;
    for (auto edge : graph.topo.global_inputs()) {
        uint32_t i = 1;
        while (i < c.input_count() && !(c.has(i) && c.input(i).name == graph.tensors[edge].name)) ++i;
        captures.push_back(i);
    }
    return captures;
}

std::vector<Tensor> inputs_of(InferContext const& c, Captures const& captures) {
    std::vector<Tensor> inputs;
    for (auto i : captures) inputs.push_back(c.input(i));
    return inputs;
}

/// A branch as part of the graph around it, with whose symbols it shares.
struct Branch {
    Graph const* graph = nullptr;
    Captures captures;
    frontend::Inference inference;

    Tensor const& output(size_t i) const { return inference.tensors[graph->topo.global_outputs()[i]]; }
    size_t output_count() const { return graph->topo.global_outputs().size(); }
};

Inferred<Branch> infer_branch(InferContext& c, NodeView const& n, std::string_view attribute) {
    auto const& graph = graph_of(n, attribute);
    Branch branch{&graph, captures_of(c, graph), {}};
    frontend::Problems problems;
    branch.inference = frontend::infer(graph, inputs_of(c, branch.captures), c.symbols(), problems);
    for (auto const& problem : problems.invalid) return Err{invalid("in ", attribute, ": ", problem)};
    for (auto const& problem : problems.unsupported) return Err{unsupported("in ", attribute, ": ", problem)};
    return branch;
}

bool is_plain(Branch const& branch, SymbolTable const& symbols) {
    return !frontend::needs_procedure({branch.graph, symbols, branch.inference});
}

/// The condition, if it is a constant.
std::optional<bool> known_condition(InferContext const& c) {
    auto values = c.known_values(0);
    auto value = values && values->size() == 1 ? (*values)[0].constant() : std::nullopt;
    return value ? std::optional(*value != 0) : std::nullopt;
}

/// What holds for a branch whether it is taken or not.
Status check_branch(InferContext& c, NodeView const& n, std::string_view attribute) {
    auto const& graph = **n.get<std::shared_ptr<Graph const>>(attribute);
    if (graph.formal_inputs) return invalid(attribute, " has inputs; a branch reads outer values only");
    auto count = graph.topo.global_outputs().size();
    if (count == c.output_count()) return std::nullopt;
    return invalid(attribute, " has ", count, " outputs, the node has ", c.output_count());
}

/// The branches that may run: the one that is known to be taken, or both.
std::vector<std::string_view> candidates(InferContext const& c) {
    auto condition = known_condition(c);
    if (condition) return {*condition ? "then_branch" : "else_branch"};
    return {"then_branch", "else_branch"};
}

/// The branches that may run, inferred within the graph around them.
Inferred<std::vector<Branch>> infer_branches(InferContext& c, NodeView const& n) {
    std::vector<Branch> branches;
    for (auto attribute : candidates(c)) {
        RG_TRY(branch, infer_branch(c, n, attribute));
        branches.push_back(std::move(branch));
    }
    return branches;
}

/// Whether they can be lowered into the program around them.
bool are_plain(InferContext const& c, std::vector<Branch> const& branches, SymbolTable const& symbols) {
    for (auto const& branch : branches)
        if (!is_plain(branch, symbols)) return false;
    for (size_t i = 0; branches.size() > 1 && i < c.output_count(); ++i) {
        auto const &a = branches[0].output(i), &b = branches[1].output(i);
        if (a.dtype != b.dtype || *a.shape != *b.shape) return false;
    }
    return true;
}

/// Output `i` if it is `a` or `b`, whose types `c` does not share.
Status set_either(InferContext& c, size_t i, Tensor const& a, Tensor const& b, SymbolTable const& outer) {
    if (!a.is_tensor() || !b.is_tensor()) {
        auto either = a.is_tensor() ? b : a;
        if (!a.is_tensor() && !b.is_tensor() && a.kind != b.kind)
            return invalid("output ", i, " is a ", runtime::name_of(a.kind), " in then_branch, a ",
                           runtime::name_of(b.kind), " in else_branch");
        either.literal.reset();
        if (either.element && !(a.element && b.element && a.element->shape == b.element->shape)) {
            auto element = *either.element;
            element.shape.reset();
            either.element = std::make_shared<Tensor const>(std::move(element));
        }
        c.copy(i, either);
        return std::nullopt;
    }
    if (a.dtype != b.dtype && a.dtype != DataType::Undefined && b.dtype != DataType::Undefined)
        return invalid("output ", i, " is ", name_of(a.dtype), " in then_branch, ", name_of(b.dtype),
                       " in else_branch");
    if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) {
        c.set_unranked(i, a.dtype);
        return std::nullopt;
    }
    RG_CHECK_STATUS(frontend::set_from_body(c, i, a, outer));
    auto merged = *a.shape;
    for (size_t axis = 0; axis < merged.size(); ++axis) {
        auto used = merged[axis].symbols();
        bool is_inner = std::any_of(used.begin(), used.end(), [&](auto symbol) { return symbol >= outer.size(); });
        if (is_inner || merged[axis] != (*b.shape)[axis]) merged[axis] = c.fresh(i, axis);
    }
    return c.set(i, a.dtype, std::move(merged));
}

Status infer_if(InferContext& c, NodeView const& n) {
    if (element_count(c.shape(0)).constant().value_or(1) != 1)
        return invalid("the condition has the shape ", c.text(c.shape(0)), ", expected one element");
    RG_CHECK_STATUS(check_branch(c, n, "then_branch"));
    RG_CHECK_STATUS(check_branch(c, n, "else_branch"));
    auto const outer = c.symbols();
    RG_TRY_STATUS(branches, infer_branches(c, n));
    bool plain = are_plain(c, branches, c.symbols());
    if (!plain) c.make_procedure();
    if (plain && branches.size() == 1)
        for (auto const& conditions : branches[0].inference.conditions)
            for (auto const& condition : conditions) c.expect(condition);
    for (size_t i = 0; i < c.output_count(); ++i) {
        auto const& x = branches[0].output(i);
        if (plain && branches.size() == 1) {
            c.copy(i, x);
            continue;
        }
        RG_CHECK_STATUS(plain                  ? c.set(i, x.dtype, *x.shape)
                        : branches.size() == 1 ? frontend::set_from_body(c, i, x, outer)
                                               : set_either(c, i, x, branches[1].output(i), outer));
    }
    return std::nullopt;
}

Inferred<ProcedurePtr> if_procedure(ProcedureContext const& p, NodeView const& n) {
    auto view = p.view();
    std::vector<frontend::Compiled> compiled;
    std::vector<Captures> captures;
    for (auto attribute : candidates(view)) {
        auto const& graph = graph_of(n, attribute);
        captures.push_back(captures_of(view, graph));
        RG_TRY(body, frontend::infer_body(graph, inputs_of(view, captures.back()), p.symbols, attribute));
        compiled.push_back(frontend::compile(graph, body.inference, body.symbols, p.options));
    }
    return frontend::record<frontend::make_if>(compiled.front(), captures.front(), compiled.back(), captures.back());
}

/// The kernel that runs plain branches is one of the CPU; on a device each branch is a program of its own.
bool is_if_procedure(ProcedureContext const& p, NodeView const&) {
    return frontend::has_text(p) || (p.options.device != "cpu" && candidates(p.view()).size() > 1);
}

Status first_problem(frontend::Problems const& problems) {
    for (auto const& problem : problems.invalid) return invalid(problem);
    for (auto const& problem : problems.unsupported) return unsupported(problem);
    return std::nullopt;
}

Status inline_branch(LowerContext& c, Branch const& branch) {
    frontend::Problems problems;
    std::vector<LowerContext::Edge> edges;
    for (auto i : branch.captures) edges.push_back(c.edge(i));
    auto outputs =
        frontend::inline_sub_graph(c.graph(), *branch.graph, branch.inference.tensors, c.symbols(), edges, problems);
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(i, outputs[i]);
    return first_problem(problems);
}

Inferred<computation::Branch> lower_branch(LowerContext& c, Branch const& branch) {
    frontend::Problems problems;
    computation::Branch result;
    std::vector<uint32_t> used;
    result.model = frontend::lower_sub_graph(*branch.graph, branch.inference, c.symbols(), used, problems);
    for (auto i : used) result.captures.push_back(branch.captures[i]);
    if (auto problem = first_problem(problems)) return Err{*problem};
    return result;
}

Status lower_if(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(branches, infer_branches(view, n));
    if (branches.size() == 1) return inline_branch(c, branches[0]);
    RG_TRY_STATUS(then_branch, lower_branch(c, branches[0]));
    RG_TRY_STATUS(else_branch, lower_branch(c, branches[1]));
    std::vector<LowerContext::Edge> inputs;
    for (size_t i = 0; i < c.input_count(); ++i) inputs.push_back(c.edge(i));
    std::vector<LowerContext::Spec> outputs;
    for (size_t i = 0; i < c.output_count(); ++i) outputs.push_back({c.output(i).dtype, *c.output(i).shape});
    auto edges = c.emit_all(computation::If::make(std::move(then_branch), std::move(else_branch)), inputs, outputs);
    for (size_t i = 0; i < edges.size(); ++i) c.set_output(i, edges[i]);
    return std::nullopt;
}

}  // namespace

void define_conditional(Definitions& all) {
    all.push_back(
        {.name = "If",
         .outputs = {1, kVariadic},
         .types = {{kBool}, {kAny, 0, kAnyKind}},
         .attributes = {{"else_branch", AttributeKind::Graph, true}, {"then_branch", AttributeKind::Graph, true}},
         .infer = infer_if,
         .lower = lower_if,
         .procedure = if_procedure,
         .is_procedure = is_if_procedure});
}

}  // namespace refactor::onnx
