#include "frontend/text_labels.h"

#include "common/error.h"
#include "control_flow/session_state.h"
#include "frontend/recorded.h"
#include "graph_topo/builder.h"
#include "mem_manager/blob.h"

namespace refactor::frontend {

namespace {

using runtime::Value;

class TextLabels final : public runtime::Procedure {
    Compiled compiled_;
    std::vector<size_t> operands_;  ///< inputs of the node that are inputs of the graph
    std::vector<std::string> labels_;

public:
    TextLabels(Compiled compiled, std::vector<size_t> operands, std::vector<std::string> labels)
        : compiled_(std::move(compiled)), operands_(std::move(operands)), labels_(std::move(labels)) {}

    std::string id() const override { return "classify:cpu:session:string"; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<SessionState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto& session = static_cast<SessionState&>(*context.state).get(0, compiled_, context);
        for (size_t i = 0; i < operands_.size(); ++i) session.set_input(i, *inputs[operands_[i]]);
        session.run(context.options);
        for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = session.output(i);
        auto const& numbers = session.output(0);
        std::vector<std::string> texts;
        texts.reserve(static_cast<size_t>(numbers.count()));
        for (int64_t i = 0; i < numbers.count(); ++i)
            texts.push_back(labels_.at(static_cast<size_t>(numbers.data<int64_t>()[i])));
        outputs[0] = Value::strings(numbers.dims, std::move(texts));
    }
};

}  // namespace

ProcedurePtr run_text_labels(Compiled compiled, std::vector<size_t> operands, std::vector<std::string> labels) {
    return std::make_shared<TextLabels>(std::move(compiled), std::move(operands), std::move(labels));
}

Inferred<ProcedurePtr> make_text_labels(std::shared_ptr<Operator const> op, std::vector<std::string> labels,
                                        ProcedureContext const& context) {
    graph_topo::Builder<int, size_t, Node, Tensor> builder;
    builder.omitted = SIZE_MAX;
    std::vector<size_t> inputs, outputs, operands;
    std::vector<Tensor> types;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
        auto* input = context.inputs[i];
        inputs.push_back(input ? i : builder.omitted);
        if (!input) continue;
        builder.edges[i] = *input;
        if (input->constant) {
            builder.sources.push_back(i);
            continue;
        }
        builder.global_inputs.push_back(i), operands.push_back(i), types.push_back(*input);
    }
    for (size_t i = 0; i < context.outputs.size(); ++i) {
        auto number = context.inputs.size() + i;
        outputs.push_back(number), builder.global_outputs.push_back(number);
        builder.edges[number].name = context.outputs[i].name;
    }
    builder.add(0, {context.node_name, std::move(op)}, std::move(inputs), std::move(outputs));
    auto built = std::move(builder).build();
    ensure(built.ok(), "a node is no graph");
    Graph graph;
    graph.topo = std::move(built->graph.topo), graph.nodes = std::move(built->graph.nodes);
    graph.tensors = std::move(built->graph.edges), graph.formal_inputs = operands.size();
    RG_TRY(body, infer_body(graph, std::move(types), context.symbols, "the same node with numbers of labels"));
    auto compiled = compile(graph, body.inference, body.symbols, context.options);
    return record<run_text_labels>(std::move(compiled), std::move(operands), std::move(labels));
}

}  // namespace refactor::frontend
