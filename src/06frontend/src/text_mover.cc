#include "common/error.h"
#include "control_flow/session_state.h"
#include "frontend/recorded.h"
#include "frontend/text.h"
#include "graph_topo/builder.h"
#include "mem_manager/blob.h"

#include <numeric>

namespace refactor::frontend {

namespace {

using runtime::Value;

/// Elements of text are numbered in place, the numbers moved by the compiled node, and the texts put where they went.
/// Number 0 is the empty text, which is what operators fill with.
class TextMover final : public runtime::Procedure {
    Compiled compiled_;
    std::vector<size_t> operands_;     ///< inputs of the node that are inputs of the graph
    std::vector<bool> texts_, moved_;  ///< by input, by output

public:
    TextMover(Compiled compiled, std::vector<size_t> operands, std::vector<bool> texts, std::vector<bool> moved)
        : compiled_(std::move(compiled)),
          operands_(std::move(operands)),
          texts_(std::move(texts)),
          moved_(std::move(moved)) {}

    std::string id() const override { return "move_text:cpu:session:string"; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<SessionState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        static std::string const kEmpty;
        std::vector<std::string const*> texts{&kEmpty};
        auto& session = static_cast<SessionState&>(*context.state).get(0, compiled_, context);
        for (size_t i = 0; i < operands_.size(); ++i) {
            auto const& value = *inputs[operands_[i]];
            if (!texts_[operands_[i]]) {
                session.set_input(i, value);
                continue;
            }
            Value numbers;
            auto* data = static_cast<int64_t*>(numbers.resize(DataType::I64, value.dims));
            std::iota(data, data + value.count(), static_cast<int64_t>(texts.size()));
            for (auto const& text : value.contents->strings) texts.push_back(&text);
            session.set_input(i, std::move(numbers));
        }
        session.run(context.options);
        for (size_t i = 0; i < outputs.size(); ++i) {
            auto const& result = session.output(i);
            if (!moved_[i]) {
                outputs[i] = result;
                continue;
            }
            std::vector<std::string> elements;
            auto const* data = result.data<int64_t>();
            for (int64_t k = 0; k < result.count(); ++k) elements.push_back(*texts[static_cast<size_t>(data[k])]);
            outputs[i] = Value::strings(result.dims, std::move(elements));
        }
    }
};

}  // namespace

bool has_text(ProcedureContext const& context) {
    for (auto* input : context.inputs)
        if (input && input->is_tensor() && input->dtype == DataType::String) return true;
    return false;
}

ProcedurePtr run_text_mover(Compiled compiled, std::vector<size_t> operands, std::vector<bool> texts,
                            std::vector<bool> moved) {
    return std::make_shared<TextMover>(std::move(compiled), std::move(operands), std::move(texts), std::move(moved));
}

Inferred<ProcedurePtr> make_text_mover(std::shared_ptr<Operator const> op, ProcedureContext const& context) {
    graph_topo::Builder<int, size_t, Node, Tensor> builder;
    builder.omitted = SIZE_MAX;
    std::vector<size_t> inputs, outputs, operands;
    std::vector<bool> texts, moved;
    std::vector<Tensor> types;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
        auto* input = context.inputs[i];
        inputs.push_back(input ? i : builder.omitted);
        texts.push_back(input && input->is_tensor() && input->dtype == DataType::String);
        if (!input) continue;
        builder.edges[i] = *input;
        if (input->constant) {
            builder.sources.push_back(i);
            continue;
        }
        auto type = *input;
        if (texts.back()) type.dtype = DataType::I64, type.literal.reset();
        builder.global_inputs.push_back(i), operands.push_back(i), types.push_back(std::move(type));
    }
    for (size_t i = 0; i < context.outputs.size(); ++i) {
        auto number = context.inputs.size() + i;
        outputs.push_back(number), builder.global_outputs.push_back(number);
        moved.push_back(context.outputs[i].dtype == DataType::String);
        builder.edges[number].name = context.outputs[i].name;
    }
    builder.add(0, {context.node_name, std::move(op)}, std::move(inputs), std::move(outputs));
    auto built = std::move(builder).build();
    ensure(built.ok(), "a node is no graph");
    Graph graph;
    graph.topo = std::move(built->graph.topo), graph.nodes = std::move(built->graph.nodes);
    graph.tensors = std::move(built->graph.edges), graph.formal_inputs = operands.size();
    RG_TRY(body, infer_body(graph, std::move(types), context.symbols, "the same node for numbers"));
    auto compiled = compile(graph, body.inference, body.symbols, context.options);
    return record<run_text_mover>(std::move(compiled), std::move(operands), std::move(texts), std::move(moved));
}

}  // namespace refactor::frontend
