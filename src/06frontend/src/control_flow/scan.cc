#include "common/error.h"
#include "control_flow/session_state.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <optional>

namespace refactor::frontend {

namespace {

using runtime::Value;

int64_t length_of(std::vector<Value> const& sequences, std::vector<int64_t> const& axes) {
    int64_t length = -1;
    for (size_t i = 0; i < sequences.size(); ++i) {
        auto own = sequences[i].dims[static_cast<size_t>(axes[i])];
        if (length >= 0 && own != length)
            throw InvalidInput("sequence " + std::to_string(i) + " has " + std::to_string(own) +
                               " elements, sequence 0 has " + std::to_string(length));
        length = own;
    }
    return length;
}

/// Element `at` of `sequence` along `axis`.
Value element(Value const& sequence, int64_t axis, int64_t at) {
    Dims dims = sequence.dims;
    auto length = dims[static_cast<size_t>(axis)];
    dims.erase(dims.begin() + axis);
    int64_t outer = 1, inner = 1;
    for (size_t i = 0; i < dims.size(); ++i) (static_cast<int64_t>(i) < axis ? outer : inner) *= dims[i];
    if (sequence.dtype == DataType::String) {
        std::vector<std::string> texts;
        auto const* all = sequence.contents->strings.data();
        for (int64_t o = 0; o < outer; ++o)
            texts.insert(texts.end(), all + (o * length + at) * inner, all + ((o * length + at) + 1) * inner);
        return Value::strings(dims, std::move(texts));
    }
    if (bits_of(sequence.dtype) < 8)
        throw Unsupported("Scan over elements of type " + std::string(name_of(sequence.dtype)));
    Value value;
    auto* target = static_cast<std::byte*>(value.resize(sequence.dtype, dims));
    auto const* source = sequence.data<std::byte>();
    auto bytes = inner * bits_of(sequence.dtype) / 8;
    for (int64_t o = 0; o < outer; ++o) std::copy_n(source + (o * length + at) * bytes, bytes, target + o * bytes);
    return value;
}

class ScanProcedure final : public runtime::Procedure {
    ScanInfo info_;
    Compiled body_;
    Captures captures_;

    /// Runs over `length` elements; returns the final states and the stacks, which get zeros up to `padded` elements.
    std::vector<Value> scan(runtime::Session& session, std::vector<Value> states, std::vector<Value> const& sequences,
                            int64_t length, int64_t padded, runtime::RunOptions const& options) const {
        std::vector<Stack> stacks(info_.stacks);
        std::vector<Dims> dims;
        for (auto const& state : states) dims.push_back(state.dims);
        for (int64_t t = 0; t < length; ++t) {
            for (size_t k = 0; k < states.size(); ++k) session.set_input(k, std::move(states[k]));
            for (size_t k = 0; k < sequences.size(); ++k)
                session.set_input(info_.states + k,
                                  element(sequences[k], info_.axes[k], info_.reversed[k] ? length - 1 - t : t));
            session.run(options);
            for (size_t k = 0; k < states.size(); ++k) {
                states[k] = session.device_output(k);
                if (states[k].dims != dims[k])
                    throw InvalidInput("element " + std::to_string(t) + " makes state " + std::to_string(k) + " " +
                                       runtime::describe(states[k].dtype, states[k].dims) + ", expected " +
                                       runtime::describe(states[k].dtype, dims[k]) + " as before it");
            }
            for (size_t k = 0; k < stacks.size(); ++k) stacks[k].push(session.output(states.size() + k));
        }
        for (size_t k = 0; k < stacks.size(); ++k) {
            for (auto t = length; t < padded; ++t) stacks[k].push_zeros(info_.stack_types[k], info_.stack_dims[k]);
            stacks[k].finish(states.emplace_back(), info_.output_axes[k], info_.outputs_reversed[k],
                             info_.stack_types[k], info_.stack_dims[k]);
        }
        return states;
    }

    /// Scan-8: every operand has a first axis of batches, each of its own length.
    std::vector<Value> scan_batches(runtime::Session& session, Value const* lengths, std::vector<Value> const& states,
                                    std::vector<Value> const& sequences, runtime::RunOptions const& options) const {
        auto batches = sequences[0].dims[0], padded = sequences[0].dims[1];
        if (lengths && lengths->count() != batches)
            throw InvalidInput("sequence_lens has " + std::to_string(lengths->count()) + " elements, expected " +
                               std::to_string(batches));
        std::vector<Stack> stacks(info_.states + info_.stacks);
        for (int64_t batch = 0; batch < batches; ++batch) {
            auto length = lengths ? lengths->data<int64_t>()[batch] : padded;
            if (length < 0 || length > padded)
                throw InvalidInput("length " + std::to_string(length) + " of batch " + std::to_string(batch) +
                                   " is outside of [0, " + std::to_string(padded) + "]");
            std::vector<Value> own_states, own_sequences;
            for (auto const& state : states) own_states.push_back(element(state, 0, batch));
            for (auto const& sequence : sequences) own_sequences.push_back(element(sequence, 0, batch));
            auto results = scan(session, std::move(own_states), own_sequences, length, padded, options);
            for (size_t i = 0; i < stacks.size(); ++i) stacks[i].push(results[i]);
        }
        std::vector<Value> results(stacks.size());
        for (size_t i = 0; i < stacks.size(); ++i) {
            if (!batches) throw InvalidInput("the batch is empty");
            stacks[i].finish(results[i], 0, false, DataType::Undefined, {});
        }
        return results;
    }

public:
    ScanProcedure(ScanInfo info, Compiled body, Captures captures)
        : info_(std::move(info)), body_(std::move(body)), captures_(std::move(captures)) {}

    std::string id() const override { return "scan:cpu:session:any"; }
    bool runs_graphs() const override { return true; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<SessionState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto& session = static_cast<SessionState&>(*context.state).get(0, body_, context);
        for (size_t i = 0; i < captures_.size(); ++i)
            session.set_input(info_.states + info_.sequences + i, *inputs[captures_[i]]);
        auto lengths = info_.batched && inputs[0] ? std::optional(on_host(*inputs[0])) : std::nullopt;
        auto operands = inputs.subspan(info_.batched);
        std::vector<Value> states, sequences;
        // Elements of sequences (batches of states, too) are cut out on the host.
        for (size_t i = 0; i < info_.states; ++i)
            states.push_back(info_.batched ? on_host(*operands[i]) : *operands[i]);
        for (size_t i = 0; i < info_.sequences; ++i) sequences.push_back(on_host(*operands[info_.states + i]));
        std::vector<Value> results;
        if (info_.batched) {
            results = scan_batches(session, lengths ? &*lengths : nullptr, states, sequences, context.options);
        } else {
            auto length = length_of(sequences, info_.axes);
            results = scan(session, std::move(states), sequences, length, length, context.options);
        }
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = std::move(results[i]);
    }
};

}  // namespace

ProcedurePtr make_scan(ScanInfo info, Compiled body, Captures captures) {
    return std::make_shared<ScanProcedure>(std::move(info), std::move(body), std::move(captures));
}

}  // namespace refactor::frontend
