#pragma once
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace refactor {

/// Keeps the workers of a pool off the processor that their caller runs on.
///
/// A scheduler may wake a worker on its caller's processor and leave it waiting there while others are idle: inside a
/// virtual machine Linux does so for whole milliseconds, since it takes a processor that the host has put to sleep for
/// a busy one (`vcpu_is_preempted`). Only that one processor is taken from a worker's affinity mask, and only if others
/// are left. A mask that somebody else has changed since is what the next one is made of.
class Placement {
public:
    /// Begins anew, with these workers.
    void watch(std::vector<std::thread> const& workers);
    /// Costs a few ns if the caller runs where it ran before, else two system calls for each worker.
    void keep_off_this_processor(std::vector<std::thread>& workers);

private:
#ifdef __linux__
    using Mask = std::vector<cpu_set_t>;  ///< enough of them for the processors of this machine
    struct Of {
        Mask allowed, given;
    };
    std::vector<Of> masks_;
    Mask read_;
    int processor_ = -1;
#endif
};

}  // namespace refactor
