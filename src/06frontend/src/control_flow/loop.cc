#include "common/error.h"
#include "control_flow/session_state.h"
#include "mem_manager/blob.h"

namespace refactor::frontend {

namespace {

using runtime::Value;

template <class T>
T scalar_of(Value const& value, char const* what) {
    if (value.count() != 1) throw InvalidInput(std::string(what) + " is " + describe(value) + ", expected one element");
    return *on_host(value).data<T>();
}

template <class T>
Value scalar(DataType dtype, T content, bool as_vector) {
    Value value;
    *static_cast<T*>(value.resize(dtype, as_vector ? Dims{1} : Dims{})) = content;
    return value;
}

class LoopProcedure final : public runtime::Procedure {
    LoopInfo info_;
    Compiled body_;
    Captures captures_;

public:
    LoopProcedure(LoopInfo info, Compiled body, Captures captures)
        : info_(std::move(info)), body_(std::move(body)), captures_(std::move(captures)) {}

    std::string id() const override { return "loop:cpu:session:any"; }
    bool runs_graphs() const override { return true; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<SessionState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto trips = inputs[0] ? scalar_of<int64_t>(*inputs[0], "the number of iterations") : INT64_MAX;
        bool go_on = !inputs[1] || scalar_of<uint8_t>(*inputs[1], "the condition");
        auto& session = static_cast<SessionState&>(*context.state).get(0, body_, context);
        std::vector<Value> states;
        for (size_t i = 0; i < info_.states; ++i) states.push_back(*inputs[2 + i]);
        std::vector<Stack> stacks(info_.stacks);
        for (size_t i = 0; i < captures_.size(); ++i) session.set_input(2 + info_.states + i, *inputs[captures_[i]]);
        for (int64_t i = 0; go_on && i < trips; ++i) {
            session.set_input(0, scalar(DataType::I64, i, info_.vector_iteration));
            session.set_input(1, scalar(DataType::Bool, uint8_t{1}, info_.vector_condition));
            for (size_t k = 0; k < states.size(); ++k) session.set_input(2 + k, std::move(states[k]));
            session.run(context.options);
            go_on = scalar_of<uint8_t>(session.output(0), "the condition of the body");
            for (size_t k = 0; k < states.size(); ++k) states[k] = session.device_output(1 + k);
            for (size_t k = 0; k < stacks.size(); ++k) stacks[k].push(session.output(1 + states.size() + k));
        }
        for (size_t i = 0; i < outputs.size() && i < states.size(); ++i) outputs[i] = std::move(states[i]);
        for (size_t k = 0; k < stacks.size() && states.size() + k < outputs.size(); ++k)
            stacks[k].finish(outputs[states.size() + k], 0, false, info_.stack_types[k], info_.stack_dims[k]);
    }
};

}  // namespace

ProcedurePtr make_loop(LoopInfo info, Compiled body, Captures captures) {
    return std::make_shared<LoopProcedure>(std::move(info), std::move(body), std::move(captures));
}

}  // namespace refactor::frontend
