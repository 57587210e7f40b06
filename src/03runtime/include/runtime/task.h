#pragma once
#include <cstddef>
#include <cstdint>

namespace refactor {
class ThreadPool;
}

namespace refactor::runtime {

/// What a kernel on a device reports of data that makes no sense: it cannot throw.
enum class Fault : uint32_t { None, Index, DivisionByZero, Size };

/// What cuBLASLt asks of its workspace.
inline constexpr size_t kDeviceWorkspaceAlignment = 256;

/// What a task finds around it while it runs.
struct RunContext {
    ThreadPool& pool;
    /// Scratch memory on the task's device, at least `Task::workspace_bytes()`, at a multiple of 64 bytes, on a device
    /// other than the CPU of `kDeviceWorkspaceAlignment`; its content is undefined.
    std::byte* workspace = nullptr;
    /// The device's stream; null on the CPU.
    void* stream = nullptr;
    /// A word of this step that kernels on a device may write: 0, until one puts `fault << 32 | low half of the
    /// offending number` there. Null on the CPU, and where the device cannot report.
    uint64_t* fault = nullptr;
    /// Memory of one thread after the other, `scratch_step` bytes apart; see `scratch_of`.
    std::byte* scratch = nullptr;
    size_t scratch_step = 0;

    /// At least `Task::scratch_bytes()` at a multiple of 64 bytes, on the CPU: the same for all steps of all runs, and
    /// touched by nobody but this worker, so that it stays in the cache of a core, and no core waits for another to let
    /// go of its lines. Content is undefined.
    std::byte* scratch_of(int worker) const { return scratch + static_cast<size_t>(worker) * scratch_step; }
};

/// A kernel with every size fixed: what one step of a plan executes. Immutable, so that clones run it at the same time.
class Task {
public:
    virtual ~Task() = default;
    /// `arguments`: addresses of the inputs, then of the outputs; null for an omitted optional input. Allocates
    /// nothing. Data-dependent misuse (an index out of range, an integer division by zero) throws `InvalidInput` on the
    /// CPU and goes to `context.fault` on a device; neither touches memory out of bounds.
    virtual void run(void* const* arguments, RunContext const& context) const = 0;
    /// Scratch memory in bytes that threads share, or that is cut among them.
    virtual size_t workspace_bytes() const { return 0; }
    /// Scratch memory of each thread in bytes; see `RunContext::scratch_of`.
    virtual size_t scratch_bytes() const { return 0; }
    /// Bit i: output 0 may be written over input i, which has the same number of bytes.
    virtual uint64_t in_place_inputs() const { return 0; }
    /// Whether doing the work again over its own result, with the other inputs as they were, leaves that as it is.
    virtual bool is_repeatable_in_place() const { return false; }
    /// Bit i: input i is never read, for it is a constant that has been packed.
    virtual uint64_t unread_inputs() const { return 0; }
    /// Bit i: input i may begin at any address, whatever its type.
    virtual uint64_t unaligned_inputs() const { return 0; }
    /// Whether what it puts into a device's stream is the same for every run with the same addresses.
    virtual bool can_replay() const { return true; }
    /// Useful floating-point (or integer) operations, a multiply-add counting two; 0 for data movement.
    virtual double operations() const { return 0; }
};

}  // namespace refactor::runtime
