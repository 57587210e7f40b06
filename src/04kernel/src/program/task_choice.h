#pragma once
#include "kernel/program.h"
#include "program/kernel_timer.h"

namespace refactor::kernel {

/// What a node runs under given sizes.
struct Chosen {
    Kernel const* kernel = nullptr;
    std::unique_ptr<runtime::Task> task;
    bool alone = false;  ///< it is bound for one thread, see `runtime::Step`
};

/// Chooses among the kernels of a node: by their estimates, or by what a tuning table knows, which is measured first if
/// that is asked for.
class TaskChoice {
    ProgramParts const& parts_;
    std::unique_ptr<KernelTimer> timer_;  ///< made for the first case that is measured

    struct Candidate {
        Kernel const* kernel;
        double cost;
    };
    using Candidates = SmallVector<Candidate, 8>;
    std::string key_of(ProgramNode const&, BindArgs const&) const;
    std::string measure(ProgramNode const&, BindArgs const&, Candidates const&);
    void put_tuned_first(ProgramNode const&, BindArgs const&, Candidates&);

public:
    explicit TaskChoice(ProgramParts const& parts) : parts_(parts) {}
    /// Whether calls for different nodes may run at the same time.
    bool is_concurrent() const { return !parts_.measure; }
    /// Or the reasons of all kernels, a line each.
    Result<Chosen, std::string> choose(ProgramNode const&, BindArgs const&);
};

}  // namespace refactor::kernel
