#pragma once
#include "runtime/executor.h"

#include <memory>
#include <string>

namespace refactor::runtime {

/// What one executor keeps for one procedure between runs: executors of sub-graphs, scratch memory.
class ProcedureState {
public:
    virtual ~ProcedureState() = default;
    /// As `Session::recording_state`, of the graphs that it has run; nothing if it runs none.
    virtual std::string recording_state() const { return {}; }
};

/// What a procedure finds around it while it runs.
struct CallContext {
    std::shared_ptr<ThreadPool> const& pool;
    RunOptions const& options;
    ProcedureState* state = nullptr;        ///< what `make_state` made
    std::string const& allocator;           ///< of the executor, for executors inside
    mem_manager::Device* device = nullptr;  ///< of the executor, for executors inside; null: number 0 of their kind
    bool may_record = true;                 ///< as `Session::allow_recording`, for executors inside
};

/// How a procedure was made: kept for who made it, so that it can be written down.
class ProcedureOrigin {
public:
    virtual ~ProcedureOrigin() = default;
};

/// A node that works on whole values between two programs: whose results have sizes that only the data tells (NonZero,
/// Unique), that handles sequences, maps or text, or that runs graphs (Loop). Immutable; shared by executors, which may
/// call it at the same time.
class Procedure {
public:
    /// Set before anybody shares it; null: it cannot be written down.
    std::shared_ptr<ProcedureOrigin const> origin;

    virtual ~Procedure() = default;
    /// As of a kernel, `op:device:algorithm:dtype`.
    virtual std::string id() const = 0;
    virtual std::unique_ptr<ProcedureState> make_state() const { return nullptr; }
    /// Whether it runs graphs, on whatever device they were compiled for.
    virtual bool runs_graphs() const { return false; }
    /// Kind of device that it computes on.
    virtual std::string_view device_kind() const { return "cpu"; }
    /// Whether it takes values where they are, and leaves its own where it makes them. Others get and give values of
    /// the host.
    virtual bool takes_any_device() const { return runs_graphs() || device_kind() != "cpu"; }
    /// Whether it only decides what runs and how large that is, or hands values on as they are, so that a model with it
    /// is still one for its device.
    virtual bool steers() const { return runs_graphs(); }
    /// `inputs`: null where an optional one is omitted. `outputs` hold what they held after the last call, whose memory
    /// may be used again (`Value::resize`); all are set. Data that makes no sense throws `InvalidInput`.
    virtual void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const&) const = 0;
};

}  // namespace refactor::runtime
