#pragma once
#include "runtime/plan.h"
#include "runtime/value.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

namespace refactor {
class ThreadPool;
}
namespace refactor::mem_manager {
class Allocator;
class Device;
class Stream;
}  // namespace refactor::mem_manager

namespace refactor::runtime {

/// Asks a run to stop: checked between steps, from any thread.
class CancellationToken {
    std::atomic<bool> cancelled_{false};

public:
    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
};

struct RunOptions {
    CancellationToken const* token = nullptr;
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;
    /// On a device: a stream of another library (mem_manager/device_interop.h). The run starts after the work that is
    /// in it, its later work starts after the run, and the call returns without waiting; faults are then reported by
    /// whatever waits next.
    std::optional<uint64_t> stream = std::nullopt;
};

/// One row of `Executor::profile`.
struct StepProfile {
    uint32_t step = 0;
    std::string node, type, kernel, shape;
    double nanoseconds = 0;
    double operations = 0;  ///< floating-point operations
    double bytes = 0;       ///< read and written at least once
};

/// A tensor as a tracer sees it, row-major; valid during the call.
struct TracedTensor {
    uint32_t edge;
    std::string const& name;
    DataType dtype;
    Dims const& dims;
    void const* data;
    size_t bytes;
};

/// Sees the inputs before and the outputs after every step; `node` is the name of the step's node.
using TraceVisitor =
    std::function<void(uint32_t step, std::string const& node, TracedTensor const& tensor, bool is_output)>;

/// Runs a Program: owns the memory and the values of one stream of runs. Not thread-safe; `clone()` gives another
/// executor that shares the Program, its weights and its cached plans, and may run at the same time.
///
/// A run allocates nothing once its shapes have been seen, except outputs that the user still holds: an output whose
/// value is not referenced outside is written again in place.
class Executor {
public:
    /// `allocator`: "default" (the planned offsets) or a run-time allocator's name. `threads` 0:
    /// `default_thread_count()`. `device` null: number 0 of the kind that the Program was compiled for. Throws
    /// `DeviceError` where there is none. `pool` null: one of its own with `threads` threads.
    Executor(std::shared_ptr<Planner> planner, std::string allocator = "default", int threads = 0,
             mem_manager::Device* device = nullptr, std::shared_ptr<ThreadPool> pool = nullptr);
    ~Executor();
    Executor(Executor&&) noexcept;

    Planner const& planner() const { return *planner_; }
    int threads() const;
    std::string const& allocator() const { return allocator_name_; }
    mem_manager::Device& device() const { return *device_; }

    /// Throws `InvalidInput` if the number, the dtype, or the rank or a fixed size does not fit the declared input.
    void set_input(size_t index, Value value);
    Value const& input(size_t index) const { return inputs_[index]; }
    /// Pairs of an output and an input: after every run, the output is the next run's input, without a copy. Where the
    /// plan allows it and nobody else holds it, the next run then writes the output over the input. Replaces earlier
    /// pairs; `profile` and `trace` do not advance. A run that fails can be repeated, unless it did not wait (a
    /// caller's stream).
    void carry(std::vector<std::pair<size_t, size_t>> const& pairs);
    /// Lets go of the inputs' memory, not of their types: all have to be set again before the next run.
    void release_inputs();
    /// Throws `InvalidInput` naming an input that is not set, or sizes that contradict each other; `Cancelled`;
    /// whatever a kernel reports.
    void run(RunOptions const& = {});
    /// The value of the last run. Throws `InvalidInput` before the first.
    Value const& output(size_t index) const;
    /// Copies all outputs to the host at once, so that reading them is free; those that are carried stay.
    void fetch_outputs() const;
    /// The same where it is, without a copy to the host. `exported`: somebody outside will work with the memory in an
    /// order of his own.
    Value device_output(size_t index, bool exported = false) const;

    /// Like `run`, timing each step `repeats` times (the minimum counts). `sync`: waits for a device after each step,
    /// else the device takes the times.
    std::vector<StepProfile> profile(int repeats = 1, bool sync = true);
    /// Like `run`, showing every tensor to `visit`.
    void trace(TraceVisitor const& visit);

    std::unique_ptr<Executor> clone() const;
    /// Moves to another device of the same kind and another allocator, keeping inputs and outputs. Throws `Unsupported`
    /// if the Program was compiled for another kind.
    void dispatch(mem_manager::Device& device, std::string allocator);
    /// Whether a device may keep the work of a plan that runs again with the same addresses, to do it by one call
    /// (default: yes).
    void allow_recording(bool allowed);
    bool allows_recording() const { return may_record_; }
    /// What became of that for the current plan: "recorded", or why not.
    std::string recording_state() const;
    /// Waits for the last run, if it did not, and throws what its kernels reported.
    void settle() const;
    /// The device's stream; null on the host.
    mem_manager::Stream* stream() const;
    /// The plan of the current inputs.
    Plan const& plan();
    /// The plan of the last run; null before the first.
    Plan const* last_plan() const { return plan_.get(); }
    /// Bytes of intermediate memory now held.
    size_t memory_bytes() const;
    /// Gives memory that is not needed for the current plan back.
    void trim();

private:
    struct Memory;
    struct Remote;
    static std::unique_ptr<Memory> make_memory(std::string const& allocator, mem_manager::Device& device);
    void activate();
    void prepare_run();
    void make_room(size_t output);
    void advance();
    void prepare_remote_run(bool ordered);
    void run_remote(RunOptions const& options);
    void launch_all(RunOptions const& options);
    void check_output(size_t index) const;
    void place();
    void check_input(size_t index, Value const& value) const;
    void* argument_address(uint32_t tensor) const;
    std::vector<double> host_times(int repeats);
    std::vector<double> device_times(int repeats);
    TracedTensor traced(uint32_t tensor, std::vector<std::byte>& scratch) const;
    template <class Before, class After>
    void run_steps(Before&& before, After&& after);
    template <class Before, class After>
    void launch_steps(Before&& before, After&& after);

    std::shared_ptr<Planner> planner_;
    std::string allocator_name_;
    std::shared_ptr<ThreadPool> pool_;
    std::vector<Value> inputs_;
    mutable std::vector<Value> outputs_;  ///< of a device that is not the host: filled when they are read
    mem_manager::Device* device_;
    std::shared_ptr<Plan const> plan_;
    bool stale_ = true;  ///< an input's sizes changed since `plan_` was made
    bool ran_ = false;
    std::vector<void*> addresses_;        ///< of `Plan::arguments`
    std::vector<std::byte*> workspaces_;  ///< of `Plan::steps`
    std::byte* scratch_ = nullptr;        ///< see `RunContext::scratch`
    size_t scratch_step_ = 0;
    struct Patch {
        uint32_t argument, port;
    };
    std::vector<Patch> input_patches_, output_patches_;
    /// An output that becomes an input.
    struct Carried {
        size_t output, input;
        bool is_own = false;                       ///< a run made the input: nobody else expects it to stay
        std::shared_ptr<mem_manager::Blob> spare;  ///< memory that the input had before
    };
    std::vector<Carried> carried_;
    Carried* carried(size_t output);
    std::unique_ptr<Memory> memory_;
    std::unique_ptr<Remote> remote_;  ///< null on the host
    bool may_record_ = true;
};

}  // namespace refactor::runtime
