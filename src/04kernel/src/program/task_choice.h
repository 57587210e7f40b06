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
    bool weighs_packing_;
    std::unique_ptr<KernelTimer> timer_;  ///< made for the first case that is measured

    struct Candidate {
        Kernel const* kernel;
        double cost;
    };
    using Candidates = SmallVector<Candidate, 8>;
    std::string key_of(ProgramNode const&, BindArgs const&) const;
    std::string measure(ProgramNode const&, BindArgs const&, Candidates const&);
    bool put_tuned_first(ProgramNode const&, BindArgs const&, Candidates&);
    bool has_weights(ProgramNode const&) const;
    void weigh_packing(BindArgs const&, Candidates&) const;

public:
    /// `weighs_packing`: what other sizes have packed counts, too. A kernel that is a little faster for these is not
    /// worth the stall and the memory of weights in one more format.
    TaskChoice(ProgramParts const& parts, bool weighs_packing) : parts_(parts), weighs_packing_(weighs_packing) {}
    /// Whether calls for different nodes may run at the same time.
    bool is_concurrent() const { return !parts_.measure; }
    /// Or the reasons of all kernels, a line each.
    Result<Chosen, std::string> choose(ProgramNode const&, BindArgs const&);
};

}  // namespace refactor::kernel
