#pragma once
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/task.h"

#include <cstring>
#include <memory>

namespace refactor::runtime {

/// What a task on the CPU needs to run outside of an executor: for tests and benchmarks.
class TaskMemory {
    static constexpr size_t kGuard = 64;
    static constexpr int kFill = 0xff;
    size_t workspace_bytes_, scratch_bytes_, step_;
    int threads_;
    std::shared_ptr<mem_manager::Blob> workspace_, scratch_;

    static std::byte* bytes_of(mem_manager::Blob& blob) { return static_cast<std::byte*>(blob.data()); }
    static bool is_filled(std::byte const* begin, std::byte const* end) {
        for (; begin < end; ++begin)
            if (*begin != std::byte{kFill}) return false;
        return true;
    }

public:
    TaskMemory(Task const& task, int threads)
        : workspace_bytes_(task.workspace_bytes()),
          scratch_bytes_(task.scratch_bytes()),
          step_((scratch_bytes_ + 63) / 64 * 64 + kGuard),
          threads_(threads),
          workspace_(mem_manager::Blob::make(mem_manager::cpu_device(), workspace_bytes_ + kGuard)),
          scratch_(mem_manager::Blob::make(mem_manager::cpu_device(), step_ * static_cast<size_t>(threads))) {
        std::memset(workspace_->data(), kFill, workspace_->bytes());
        std::memset(scratch_->data(), kFill, scratch_->bytes());
    }
    RunContext context(ThreadPool& pool) const {
        return {pool, bytes_of(*workspace_), nullptr, nullptr, bytes_of(*scratch_), step_};
    }
    /// Whether nothing behind the workspace or the scratch memory of a thread has been written.
    bool is_intact() const {
        auto *workspace = bytes_of(*workspace_), *scratch = bytes_of(*scratch_);
        bool intact = is_filled(workspace + workspace_bytes_, workspace + workspace_->bytes());
        for (int i = 0; i < threads_; ++i, scratch += step_)
            intact &= is_filled(scratch + scratch_bytes_, scratch + step_);
        return intact;
    }
};

}  // namespace refactor::runtime
