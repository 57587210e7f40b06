#pragma once
#include "runtime/procedure.h"

namespace refactor::runtime {

inline constexpr uint32_t kNoValue = UINT32_MAX;

/// One step of an `Executable`: a program or a procedure, with the numbers of the values that it reads and writes.
struct Call {
    std::shared_ptr<Planner> planner;
    std::shared_ptr<Procedure const> procedure;  ///< if there is no planner
    std::string name, type;                      ///< of a procedure's node
    std::vector<uint32_t> inputs, outputs;       ///< `kNoValue` where an optional one is omitted
};

/// A compiled model: programs for everything whose sizes follow from the sizes of their inputs, and the procedures
/// between them, in order. Immutable and shared. Most models are one call of one program.
struct Executable {
    std::vector<PortInfo> inputs, outputs;
    std::vector<Call> calls;
    uint32_t values = 0;  ///< how many are numbered
    std::vector<uint32_t> input_values, output_values;
    std::vector<std::pair<uint32_t, Value>> constants;
    std::string device = "cpu";

    /// The planner, if the model is one program whose inputs and outputs are those of the model.
    std::shared_ptr<Planner> single() const;
};

/// Runs an `Executable`: owns memory and values of one stream of runs. Not thread-safe; `clone()` gives another one
/// that shares programs, weights and cached plans and may run at the same time.
class Session {
public:
    /// As `Executor`. `pool` null: one of its own with `threads` threads.
    Session(std::shared_ptr<Executable const> executable, std::string allocator = "default", int threads = 0,
            mem_manager::Device* device = nullptr, std::shared_ptr<ThreadPool> pool = nullptr);
    ~Session();
    Session(Session&&) noexcept;

    Executable const& executable() const { return *executable_; }
    int threads() const;
    std::string const& allocator() const { return allocator_; }
    mem_manager::Device& device() const { return *device_; }

    /// Throws `InvalidInput` if the number, kind, dtype, rank or a fixed size does not fit the declared input.
    void set_input(size_t index, Value value);
    Value const& input(size_t index) const;
    /// As `Executor::carry`; in place only if the model is one program. Throws `InvalidInput` for an input that is
    /// named twice, and where type, rank or fixed sizes of the two differ.
    void carry(std::vector<std::pair<size_t, size_t>> pairs);
    std::vector<std::pair<size_t, size_t>> const& carried() const { return carried_; }
    /// As `Executor::run`; also what procedures report.
    void run(RunOptions const& options = {});
    /// The value of the last run. Throws `InvalidInput` before the first.
    Value const& output(size_t index) const;
    /// As `Executor::device_output`.
    Value device_output(size_t index, bool exported = false) const;

    /// As those of `Executor`; procedures are rows and steps of their own, whatever runs inside them is not shown.
    std::vector<StepProfile> profile(int repeats = 1, bool sync = true);
    void trace(TraceVisitor const& visit);

    std::unique_ptr<Session> clone() const;
    void dispatch(mem_manager::Device& device, std::string allocator);
    size_t memory_bytes() const;
    void trim();
    /// As `Executor::allow_recording`; holds for what procedures run too.
    void allow_recording(bool allowed);
    bool allows_recording() const { return may_record_; }
    /// For each program on a device and each procedure, one line: whether its work is recorded, or why not; indented
    /// below a procedure those of its graphs.
    std::string recording_state() const;

    /// Of the first program on a device; null if none is.
    mem_manager::Stream* stream() const;
    /// The only executor, if the model is one program; else null.
    Executor* single() { return single_; }
    Executor const* single() const { return single_; }
    /// The executors of the programs, in order.
    std::vector<Executor*> executors();
    /// Makes the plan for the inputs that are set, as far as that is possible without running: only of a single
    /// program.
    bool is_planned() const { return single_ || ran_; }

private:
    struct Lane;
    void check_input(size_t index, Value const& value) const;
    template <class Before, class After>
    void run_calls(RunOptions const& options, Before&& before, After&& after);
    void call_procedure(Lane& lane, Call const& call, RunOptions const& options);
    void release_values();
    void wait_for(uint64_t foreign);
    void check_carried(size_t output, size_t input) const;
    void check_output(size_t index) const;
    Value const& host_value(uint32_t number) const;
    mem_manager::Device& device_of(Call const& call) const;

    std::shared_ptr<Executable const> executable_;
    std::string allocator_;
    mem_manager::Device* device_;
    std::shared_ptr<ThreadPool> pool_;
    std::vector<Lane> lanes_;  ///< by call
    Executor* single_ = nullptr;
    std::vector<Value> values_;
    mutable std::vector<Value> host_values_;          ///< copies of those that are on a device, by number
    std::vector<std::pair<size_t, size_t>> carried_;  ///< outputs and the inputs that they become
    bool ran_ = false, may_record_ = true;
    /// Whether somebody outside may still work with what a procedure has made.
    mutable bool exported_ = false;
};

}  // namespace refactor::runtime
