#include "common/error.h"
#include "frontend/control_flow.h"
#include "lowering.h"

#include <algorithm>

namespace refactor::frontend {

Inferred<Body> infer_body(Graph const& graph, std::vector<Tensor> inputs, SymbolTable const& outer,
                          std::string_view role) {
    Body body{&graph, outer, {}};
    close_inputs(inputs, body.symbols);
    Problems problems;
    body.inference = infer(graph, std::move(inputs), body.symbols, problems);
    for (auto const& problem : problems.invalid) return Err{invalid("in ", role, ": ", problem)};
    for (auto const& problem : problems.unsupported) return Err{unsupported("in ", role, ": ", problem)};
    return body;
}

bool needs_procedure(Body const& body) {
    auto const& topo = body.graph->topo;
    auto const& tensors = body.inference.tensors;
    auto plain = [&](Tensor const& t) { return t.is_tensor() && t.is_complete() && t.dtype != DataType::String; };
    for (auto edge : topo.global_inputs())
        if (!plain(tensors[edge])) return true;
    for (auto edge : topo.global_outputs())
        if (!plain(tensors[edge])) return true;
    auto const &deferred = body.inference.deferred, &procedures = body.inference.procedures;
    auto is_set = [](bool flag) { return flag; };
    return std::any_of(deferred.begin(), deferred.end(), is_set) ||
           std::any_of(procedures.begin(), procedures.end(), is_set);
}

namespace {

/// Makes `state` hold for `next` too; whether it had to change. Nothing: the types are different.
Inferred<bool> widen(Tensor& state, Tensor const& next, SymbolTable& symbols, std::string_view role) {
    // What an optional holds is a value of the optional's type.
    if (state.kind == runtime::ValueKind::Optional && state.element && next.kind == state.element->kind) {
        auto content = *state.element;
        RG_TRY(changed, widen(content, next, symbols, role));
        if (changed) state.element = std::make_shared<Tensor const>(std::move(content));
        return changed;
    }
    if (state.kind != next.kind || (state.is_tensor() && state.dtype != next.dtype))
        return Err{invalid("in ", role, ": the state \"", state.name, "\" is ", to_string(state, symbols),
                           " before an iteration, ", to_string(next, symbols), " after it")};
    if (!state.is_tensor()) {
        if (!state.element || !next.element || !state.element->shape) return false;
        if (next.element->shape && *next.element->shape == *state.element->shape) return false;
        auto element = *state.element;
        element.shape.reset();
        state.element = std::make_shared<Tensor const>(std::move(element));
        return true;
    }
    if (!state.shape) return false;
    if (!next.shape || next.shape->size() != state.shape->size()) {
        state.shape.reset();
        return true;
    }
    bool changed = false;
    for (size_t axis = 0; axis < state.shape->size(); ++axis) {
        auto& size = (*state.shape)[axis];
        if (size == (*next.shape)[axis]) continue;
        auto any = DimExpr::symbol(symbols.intern(concat(state.name, "@", axis)));
        if (size == any) continue;
        size = any, changed = true;
    }
    return changed;
}

// A loop in a loop is inferred once for every pass over the outer one: at most so many nodes, seconds, in total.
constexpr size_t kMostInferred = 2'000'000;

// Of this thread: the loops in each other that are being inferred, and the nodes that they took so far.
thread_local size_t loop_depth = 0;
thread_local size_t inferred_nodes = 0;

/// Counts what a loop and the loops in it take.
class Effort {
public:
    Effort() {
        if (loop_depth++ == 0) inferred_nodes = 0;
    }
    ~Effort() { --loop_depth; }
    Effort(Effort const&) = delete;
    Effort& operator=(Effort const&) = delete;
    /// Whether there is any left for another pass over so many nodes.
    bool spend(size_t nodes) { return (inferred_nodes += nodes + 1) <= kMostInferred; }
};

}  // namespace

Inferred<Body> infer_loop_body(Graph const& graph, std::vector<Tensor>& inputs, size_t first_state, size_t first_result,
                               size_t states, SymbolTable const& outer, std::string_view role) {
    auto symbols = outer;
    for (size_t i = first_state; i < first_state + states; ++i)
        inputs[i].values.reset(), inputs[i].constant.reset(), inputs[i].literal.reset();
    Effort effort;
    // What is unknown only grows, so this ends: at the latest when every rank is unknown.
    for (;;) {
        if (!effort.spend(graph.nodes.size()))
            return Err{unsupported("in ", role, ": the types of states in so many nested loops take too long to find")};
        RG_TRY(body, infer_body(graph, inputs, symbols, role));
        bool changed = false;
        for (size_t i = 0; i < states; ++i) {
            auto const& next = body.output(first_result + i);
            bool is_unknown = next.is_tensor() && next.dtype == DataType::Undefined;
            auto& state = inputs[first_state + i];
            if (is_unknown) {
                changed |= state.shape.has_value();
                state.shape.reset();
                continue;
            }
            RG_TRY(wider, widen(state, next, symbols, role));
            changed |= wider;
        }
        if (!changed) return std::move(body);
    }
}

Status set_from_body(InferContext& context, size_t i, Tensor const& value, SymbolTable const& outer) {
    if (!value.is_tensor()) {
        context.copy(i, value);
        return std::nullopt;
    }
    if (!value.shape) {
        context.set_unranked(i, value.dtype);
        return std::nullopt;
    }
    auto shape = *value.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        auto used = shape[axis].symbols();
        if (std::any_of(used.begin(), used.end(), [&](SymbolId symbol) { return symbol >= outer.size(); }))
            shape[axis] = context.fresh(i, axis);
    }
    return context.set(i, value.dtype, std::move(shape));
}

}  // namespace refactor::frontend
