#include "program/kernel_timer.h"

#include "common/cpu_features.h"
#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/device_streams.h"
#include "runtime/task.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace refactor::kernel {

using mem_manager::Blob;

namespace {

constexpr int kRounds = 5;
constexpr int kLaunches = 10;     ///< of one measurement on another device
constexpr double kEnough = 20e6;  ///< ns spent on one node after which no further round begins

/// Of memory that displaces what one core's L2 cache holds and, as the other weights of a model do, a part of L3.
size_t eviction_bytes() { return std::max<size_t>(2 * cpu_features().l2, 32 << 20); }

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

RefactorDeviceStreams const& streams_of(mem_manager::Device const& device) {
    auto const* table = static_cast<RefactorDeviceStreams const*>(device.extension(RG_STREAMS_EXTENSION));
    if (!table) throw DeviceError(device.name() + " has no streams", 0, "candidates cannot be measured");
    return *table;
}

std::shared_ptr<void> stream_on(mem_manager::Device& device) {
    auto const& streams = streams_of(device);
    char text[512] = "";
    void* stream = nullptr;
    if (auto code = streams.create(device.handle(), &stream, text, sizeof text))
        throw DeviceError(device.name() + ": streams.create", code, text);
    return {stream, [&](void* one) { streams.destroy(device.handle(), one); }};
}

}  // namespace

KernelTimer::KernelTimer(int threads, mem_manager::Device& device) : pool_(threads), device_(device) {
    if (device.kind() == "cpu")
        eviction_ = Blob::make(device, eviction_bytes() * static_cast<size_t>(pool_.threads()));
    else
        stream_ = stream_on(device);
}

void KernelTimer::evict() {
    auto* begin = static_cast<std::byte*>(eviction_->data());
    auto bytes = eviction_bytes();
    pool_.parallel_for(pool_.threads(), [&](int64_t, int worker) {
        std::memset(begin + static_cast<size_t>(worker) * bytes, 1, bytes);
    });
}

void KernelTimer::warm(std::span<std::byte const> memory) {
    constexpr size_t kLine = 64;
    auto const* begin = memory.data();
    auto bytes = std::min(memory.size(), cpu_features().l2 / 2 * static_cast<size_t>(pool_.threads()));
    auto part = bytes / static_cast<size_t>(pool_.threads());
    pool_.parallel_for(pool_.threads(), [&](int64_t i, int) {
        auto const* from = begin + static_cast<size_t>(i) * part;
        for (size_t at = 0; at < part; at += kLine)
            static_cast<void>(*static_cast<std::byte const volatile*>(from + at));
    });
}

/// After some errors nothing works in this process any more.
bool KernelTimer::device_answers() {
    char text[512] = "";
    return stream_ && streams_of(device_).synchronize(device_.handle(), stream_.get(), text, sizeof text) == 0;
}

double KernelTimer::time_once(runtime::Task const& task, std::byte* workspace, std::span<std::byte> scratch) {
    auto launches = stream_ ? kLaunches : 1;
    if (!stream_) {
        evict();
        warm({workspace, task.workspace_bytes()}), warm(scratch);
        for (auto const& input : inputs_) warm(input);
    }
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i)
        task.run(arguments_.data(), {pool_, workspace, stream_.get(), nullptr, scratch.data(),
                                     scratch.size() / static_cast<size_t>(pool_.threads())});
    if (stream_) {
        char text[512] = "";
        if (auto code = streams_of(device_).synchronize(device_.handle(), stream_.get(), text, sizeof text))
            throw DeviceError(device_.name() + ": streams.synchronize", code, text);
    }
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / launches;
}

void KernelTimer::add(TensorDesc const* desc, Blob const* constant, bool is_input) {
    if (!desc) return arguments_.push_back(nullptr);
    auto bytes = constant ? constant->bytes() : storage_bytes(desc->dtype, desc->stored_count());
    auto& blob = operands_.emplace_back(Blob::make(device_, std::max<size_t>(bytes, 1)));
    arguments_.push_back(blob->data());
    if (constant) return device_.copy_from_host(blob->data(), Blob::Reader(*constant).data(), bytes);
    if (!stream_ && is_input) inputs_.emplace_back(static_cast<std::byte const*>(blob->data()), bytes);
    std::vector<char> made_up(bytes, static_cast<char>(fill_of(desc->dtype)));
    device_.copy_from_host(blob->data(), made_up.data(), bytes);
}

std::vector<double> KernelTimer::fastest(std::span<runtime::Task const* const> tasks, BindArgs const& args,
                                         std::span<Blob const* const> constants) {
    FlushDenormals flush;
    operands_.clear(), arguments_.clear(), inputs_.clear();
    std::vector<std::unique_ptr<Blob::Reader>> readers;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
        if (stream_ || !constants[i] || !args.inputs[i]) {
            add(args.inputs[i], constants[i], true);
            continue;
        }
        readers.push_back(std::make_unique<Blob::Reader>(*constants[i]));
        arguments_.push_back(const_cast<void*>(readers.back()->data()));
    }
    for (auto const* output : args.outputs) add(output, nullptr, false);
    size_t workspace_bytes = 1, scratch_bytes = 64;
    for (auto const* task : tasks) {
        workspace_bytes = std::max(workspace_bytes, task->workspace_bytes());
        scratch_bytes = std::max(scratch_bytes, (task->scratch_bytes() + 63) / 64 * 64);
    }
    auto workspace = Blob::make(device_, workspace_bytes);
    auto scratch = Blob::make(mem_manager::cpu_device(), scratch_bytes * static_cast<size_t>(pool_.threads()));

    constexpr auto kFailed = std::numeric_limits<double>::infinity();
    std::vector<double> best(tasks.size(), kFailed);
    std::vector<bool> fails(tasks.size());
    double spent = 0;
    for (int round = 0; round <= kRounds && spent < kEnough; ++round)
        for (size_t i = 0; i < tasks.size(); ++i) {
            if (fails[i]) continue;
            try {
                auto time = time_once(*tasks[i], static_cast<std::byte*>(workspace->data()),
                                      {static_cast<std::byte*>(scratch->data()), scratch->bytes()});
                spent += time;
                if (round) best[i] = std::min(best[i], time);  // the first run touches pages and starts threads
            } catch (InvalidInput const&) {
                fails[i] = true, best[i] = kFailed;
            } catch (DeviceError const&) {
                if (!device_answers()) throw;
                fails[i] = true, best[i] = kFailed;
            }
        }
    return best;
}

}  // namespace refactor::kernel
