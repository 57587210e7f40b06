#pragma once
#include "frontend/control_flow.h"

namespace refactor::frontend {

/// The sessions of a procedure's bodies, made when they are first needed.
class SessionState final : public runtime::ProcedureState {
    std::vector<std::unique_ptr<runtime::Session>> sessions_;

public:
    runtime::Session& get(size_t i, Compiled const& body, runtime::CallContext const& context) {
        if (sessions_.size() <= i) sessions_.resize(i + 1);
        if (!sessions_[i])
            sessions_[i] =
                std::make_unique<runtime::Session>(body.executable, context.allocator, 0, context.device, context.pool);
        if (sessions_[i]->allows_recording() != context.may_record) sessions_[i]->allow_recording(context.may_record);
        return *sessions_[i];
    }
    std::string recording_state() const override {
        std::string text;
        for (auto const& session : sessions_)
            if (session) text += session->recording_state();
        return text;
    }
};

/// Stacks values of equal sizes as the elements of one more axis.
class Stack {
    DataType dtype_ = DataType::Undefined;
    Dims dims_;
    int64_t count_ = 0;
    std::vector<std::byte> bytes_;
    std::vector<std::string> strings_;

public:
    /// Throws `InvalidInput` if type or sizes differ from those of the first.
    void push(runtime::Value const& value);
    void push_zeros(DataType dtype, Dims dims);
    /// The stack along `axis`, in the opposite order if `reversed`; with nothing pushed, no elements of type `dtype`
    /// and sizes `dims`, of which -1 becomes 0.
    void finish(runtime::Value& target, int64_t axis, bool reversed, DataType dtype, Dims const& dims);
};

}  // namespace refactor::frontend
