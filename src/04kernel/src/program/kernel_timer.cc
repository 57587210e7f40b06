#include "program/kernel_timer.h"

#include "common/cpu_features.h"
#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/task.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace refactor::kernel {

using mem_manager::Blob;

namespace {

constexpr int kRounds = 5;
constexpr double kEnough = 20e6;  ///< ns spent on one node after which no further round begins

/// Of memory that displaces what one core's L2 cache holds.
size_t eviction_bytes() { return 2 * cpu_features().l2; }

/// Bytes that are small positive numbers of every floating-point type and of 8-bit integers; other integers, which may
/// be indices, are 0.
int fill_of(DataType type) {
    switch (type) {
        case DataType::F32:
        case DataType::F64:
        case DataType::F16:
        case DataType::BF16:
        case DataType::I8:
        case DataType::U8:
            return 0x3f;
        default:
            return 0;
    }
}

}  // namespace

KernelTimer::KernelTimer(int threads)
    : pool_(threads),
      eviction_(Blob::make(mem_manager::cpu_device(), eviction_bytes() * static_cast<size_t>(pool_.threads()))) {}

void KernelTimer::evict() {
    auto* begin = static_cast<std::byte*>(eviction_->data());
    auto bytes = eviction_bytes();
    pool_.parallel_for(pool_.threads(), [&](int64_t, int worker) {
        std::memset(begin + static_cast<size_t>(worker) * bytes, 1, bytes);
    });
}

double KernelTimer::time_once(runtime::Task const& task, std::byte* workspace) {
    evict();
    auto begin = std::chrono::steady_clock::now();
    task.run(arguments_.data(), {pool_, workspace});
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<double> KernelTimer::fastest(std::span<runtime::Task const* const> tasks, BindArgs const& args,
                                         std::span<Blob const* const> constants) {
    FlushDenormals flush;
    auto& device = mem_manager::cpu_device();
    operands_.clear(), arguments_.clear();
    std::vector<std::unique_ptr<Blob::Reader>> readers;
    auto add = [&](TensorDesc const* desc, Blob const* constant) {
        if (!desc) return arguments_.push_back(nullptr);
        if (constant) {
            readers.push_back(std::make_unique<Blob::Reader>(*constant));
            return arguments_.push_back(const_cast<void*>(readers.back()->data()));
        }
        auto bytes = storage_bytes(desc->dtype, desc->stored_count());
        auto& blob = operands_.emplace_back(Blob::make(device, std::max<size_t>(bytes, 1)));
        std::memset(blob->data(), fill_of(desc->dtype), blob->bytes());
        arguments_.push_back(blob->data());
    };
    for (size_t i = 0; i < args.inputs.size(); ++i) add(args.inputs[i], constants[i]);
    for (auto const* output : args.outputs) add(output, nullptr);
    size_t workspace_bytes = 1;
    for (auto const* task : tasks) workspace_bytes = std::max(workspace_bytes, task->workspace_bytes());
    auto workspace = Blob::make(device, workspace_bytes);

    constexpr auto kFailed = std::numeric_limits<double>::infinity();
    std::vector<double> best(tasks.size(), kFailed);
    std::vector<bool> fails(tasks.size());
    double spent = 0;
    for (int round = 0; round <= kRounds && spent < kEnough; ++round)
        for (size_t i = 0; i < tasks.size(); ++i) {
            if (fails[i]) continue;
            try {
                auto time = time_once(*tasks[i], static_cast<std::byte*>(workspace->data()));
                spent += time;
                if (round) best[i] = std::min(best[i], time);  // the first run touches pages and starts threads
            } catch (InvalidInput const&) {
                fails[i] = true, best[i] = kFailed;
            }
        }
    return best;
}

}  // namespace refactor::kernel
