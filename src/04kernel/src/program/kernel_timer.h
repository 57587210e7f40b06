#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"

#include <span>

namespace refactor::mem_manager {
class Blob;
class Device;
}  // namespace refactor::mem_manager

namespace refactor::kernel {

/// Runs candidates of one node on made-up operands, each in turn: on the CPU with weights outside of L2, and what
/// the step before leaves there (inputs, workspace) inside; on another device several times one after another, for a
/// launch alone takes longer than many kernels.
class KernelTimer {
    ThreadPool pool_;
    mem_manager::Device& device_;
    std::shared_ptr<void> stream_;  ///< null on the CPU
    std::shared_ptr<mem_manager::Blob> eviction_;
    std::vector<std::shared_ptr<mem_manager::Blob>> operands_;
    std::vector<void*> arguments_;
    std::vector<std::span<std::byte const>> inputs_;  ///< computed in a run, on the CPU

    void evict();
    void warm(std::span<std::byte const> memory);
    void add(TensorDesc const* desc, mem_manager::Blob const* constant, bool is_input);
    bool device_answers();
    double time_once(runtime::Task const& task, std::byte* workspace, std::span<std::byte> scratch);

public:
    /// Throws `DeviceError`.
    KernelTimer(int threads, mem_manager::Device& device);
    /// ns of the fastest run of each; infinity for one that fails, on made-up operands or in a library, while the
    /// device still answers. `constants`: what inputs hold, null for those computed in a run. Throws `OutOfMemory` and
    /// `DeviceError`.
    std::vector<double> fastest(std::span<runtime::Task const* const> tasks, BindArgs const& args,
                                std::span<mem_manager::Blob const* const> constants);
};

}  // namespace refactor::kernel
