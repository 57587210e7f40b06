#include "kernel/kernel.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

#include <mutex>
#include <unordered_map>

namespace refactor::kernel {

namespace {

struct Packed {
    std::string format;
    std::shared_ptr<mem_manager::Blob const> blob;
};

}  // namespace

struct PackCache::State {
    mutable std::mutex mutex;
    /// By the constant, which lives as long as the Program that owns the cache.
    std::unordered_map<mem_manager::Blob const*, std::vector<Packed>> packed;
    size_t bytes = 0;
};

PackCache::PackCache() : state_(std::make_unique<State>()) {}
PackCache::~PackCache() = default;

size_t PackCache::bytes() const {
    std::lock_guard lock(state_->mutex);
    return state_->bytes;
}

std::shared_ptr<mem_manager::Blob const> PackCache::find_or_make(mem_manager::Blob const& source,
                                                                 std::string_view format, size_t bytes,
                                                                 void (*pack)(void*, void const*, void*),
                                                                 void* argument) {
    std::lock_guard lock(state_->mutex);
    auto& entries = state_->packed[&source];
    for (auto const& entry : entries)
        if (entry.format == format) return entry.blob;
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), bytes);
    pack(argument, mem_manager::Blob::Reader(source).data(), blob->data());
    entries.push_back({std::string(format), blob});
    state_->bytes += bytes;
    return blob;
}

}  // namespace refactor::kernel
