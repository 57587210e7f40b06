#include "common/error.h"
#include "control_flow/session_state.h"
#include "mem_manager/blob.h"

namespace refactor::frontend {

namespace {

using runtime::Value;

class IfProcedure final : public runtime::Procedure {
    Compiled branches_[2];
    Captures captures_[2];

public:
    IfProcedure(Compiled else_branch, Captures else_captures, Compiled then_branch, Captures then_captures)
        : branches_{std::move(else_branch), std::move(then_branch)},
          captures_{std::move(else_captures), std::move(then_captures)} {}

    std::string id() const override { return "if:cpu:sessions:any"; }
    bool runs_graphs() const override { return true; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<SessionState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        if (inputs[0]->count() != 1)
            throw InvalidInput("the condition is " + describe(*inputs[0]) + ", expected one element");
        auto taken = *on_host(*inputs[0]).data<uint8_t>() != 0;
        auto& session = static_cast<SessionState&>(*context.state).get(taken, branches_[taken], context);
        for (size_t i = 0; i < captures_[taken].size(); ++i) session.set_input(i, *inputs[captures_[taken][i]]);
        session.run(context.options);
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = session.device_output(i);
    }
};

}  // namespace

ProcedurePtr make_if(Compiled then_branch, Captures then_captures, Compiled else_branch, Captures else_captures) {
    return std::make_shared<IfProcedure>(std::move(else_branch), std::move(else_captures), std::move(then_branch),
                                         std::move(then_captures));
}

}  // namespace refactor::frontend
