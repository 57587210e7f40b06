#include "computation/if.h"
#include "frontend/sub_graph.h"
#include "operator_def.h"

// If. Input 0 is the condition; the importer has appended the outer values that the branches read, under their names.

namespace refactor::onnx {

namespace {

using frontend::Graph;
using frontend::Tensor;

struct Branch {
    Graph const* graph = nullptr;
    std::vector<uint32_t> captures;  ///< inputs of the node, by global input of the graph
    std::vector<Tensor> tensors;     ///< inferred, by edge

    std::vector<Tensor const*> outputs() const {
        std::vector<Tensor const*> result;
        for (auto edge : graph->topo.global_outputs()) result.push_back(&tensors[edge]);
        return result;
    }
};

Inferred<Branch> infer_branch(InferContext& c, NodeView const& n, std::string_view attribute) {
    Branch branch;
    branch.graph = n.get<std::shared_ptr<Graph const>>(attribute)->get();
    std::vector<Tensor> inputs;
    for (auto edge : branch.graph->topo.global_inputs()) {
        uint32_t i = 1;
        while (i < c.input_count() && c.input(i).name != branch.graph->tensors[edge].name) ++i;
        branch.captures.push_back(i);
        inputs.push_back(c.input(i));
    }
    frontend::Problems problems;
    branch.tensors = frontend::infer(*branch.graph, std::move(inputs), c.symbols(), problems);
    for (auto const& problem : problems.invalid) return Err{invalid("in ", attribute, ": ", problem)};
    for (auto const& problem : problems.unsupported) return Err{unsupported("in ", attribute, ": ", problem)};
    return branch;
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

/// The outputs of the branch that is known to be taken.
Status infer_taken(InferContext& c, NodeView const& n, std::string_view attribute) {
    RG_TRY_STATUS(branch, infer_branch(c, n, attribute));
    auto outputs = branch.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
        auto const& x = *outputs[i];
        if (!x.shape) return frontend::UnknownVariable{x.name};
        RG_CHECK_STATUS(c.set(i, x.dtype, *x.shape));
        if (x.values) c.set_values(i, *x.values);
        if (x.constant) c.set_constant(i, x.constant);
    }
    return std::nullopt;
}

Status infer_if(InferContext& c, NodeView const& n) {
    if (element_count(c.shape(0)).constant().value_or(1) != 1)
        return invalid("the condition has the shape ", c.text(c.shape(0)), ", expected one element");
    RG_CHECK_STATUS(check_branch(c, n, "then_branch"));
    RG_CHECK_STATUS(check_branch(c, n, "else_branch"));
    if (auto condition = known_condition(c)) return infer_taken(c, n, *condition ? "then_branch" : "else_branch");
    RG_TRY_STATUS(yes, infer_branch(c, n, "then_branch"));
    RG_TRY_STATUS(no, infer_branch(c, n, "else_branch"));
    auto a = yes.outputs(), b = no.outputs();
    for (size_t i = 0; i < a.size(); ++i) {
        if (!a[i]->shape || !b[i]->shape) return frontend::UnknownVariable{a[i]->name};
        if (a[i]->dtype != b[i]->dtype)
            return invalid("output ", i, " is ", name_of(a[i]->dtype), " in then_branch, ", name_of(b[i]->dtype),
                           " in else_branch");
        if (*a[i]->shape != *b[i]->shape)
            return unsupported("output ", i, " has the shape ", c.text(*a[i]->shape), " in then_branch, ",
                               c.text(*b[i]->shape), " in else_branch; they must be equal");
        RG_CHECK_STATUS(c.set(i, a[i]->dtype, *a[i]->shape));
    }
    return std::nullopt;
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
    auto outputs = frontend::inline_sub_graph(c.graph(), *branch.graph, branch.tensors, c.symbols(), edges, problems);
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(i, outputs[i]);
    return first_problem(problems);
}

Inferred<computation::Branch> lower_branch(LowerContext& c, Branch const& branch) {
    frontend::Problems problems;
    computation::Branch result;
    std::vector<uint32_t> used;
    result.model = frontend::lower_sub_graph(*branch.graph, branch.tensors, c.symbols(), used, problems);
    for (auto i : used) result.captures.push_back(branch.captures[i]);
    if (auto problem = first_problem(problems)) return Err{*problem};
    return result;
}

Status lower_if(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    if (auto condition = known_condition(view)) {
        RG_TRY_STATUS(taken, infer_branch(view, n, *condition ? "then_branch" : "else_branch"));
        return inline_branch(c, taken);
    }
    RG_TRY_STATUS(yes, infer_branch(view, n, "then_branch"));
    RG_TRY_STATUS(no, infer_branch(view, n, "else_branch"));
    RG_TRY_STATUS(then_branch, lower_branch(c, yes));
    RG_TRY_STATUS(else_branch, lower_branch(c, no));
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
         .types = {{kBool}, {kAny}},
         .attributes = {{"else_branch", AttributeKind::Graph, true}, {"then_branch", AttributeKind::Graph, true}},
         .infer = infer_if,
         .lower = lower_if});
}

}  // namespace refactor::onnx
