#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"

#include <bit>
#include <map>
#include <vector>

namespace refactor::cuda_plugin {

namespace {

/// Freed blocks by size: locking pages costs the driver more than most copies take.
class PinnedPool {
    // What is kept for later: a few outputs of a large batch.
    static constexpr size_t kMostKept = size_t(256) << 20, kLeast = 4096;
    std::mutex mutex_;
    std::map<size_t, std::vector<void*>> free_;
    size_t kept_ = 0;

    static size_t rounded(size_t bytes) { return std::bit_ceil(std::max(bytes, kLeast)); }

public:
    void* take(size_t bytes) {
        std::lock_guard lock(mutex_);
        auto found = free_.find(rounded(bytes));
        if (found == free_.end() || found->second.empty()) return nullptr;
        auto* block = found->second.back();
        found->second.pop_back(), kept_ -= rounded(bytes);
        return block;
    }
    bool keep(void* block, size_t bytes) {
        std::lock_guard lock(mutex_);
        if (kept_ + rounded(bytes) > kMostKept) return false;
        free_[rounded(bytes)].push_back(block), kept_ += rounded(bytes);
        return true;
    }
    cudaError_t allocate(size_t bytes, void** address) {
        return cudaHostAlloc(address, rounded(bytes), cudaHostAllocPortable | cudaHostAllocMapped);
    }
};

/// Lives as long as the process, as the blocks may.
PinnedPool& pool() {
    static auto* instance = new PinnedPool;
    return *instance;
}

int32_t allocate(void* device, size_t bytes, void** address, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    if ((*address = pool().take(bytes))) return 0;
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(pool().allocate(bytes, address));
    return 0;
}

void deallocate(void*, void* address, size_t bytes) {
    if (!pool().keep(address, bytes)) cudaFreeHost(address);
}

int32_t copy(void* device, void* stream, void* target, void const* source, size_t bytes, cudaMemcpyKind kind,
             Complaint complaint) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaMemcpyAsync(target, source, bytes, kind, native(stream)));
    return 0;
}

int32_t copy_from(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                  size_t text_bytes) {
    return copy(device, stream, target, host, bytes, cudaMemcpyHostToDevice, {text, text_bytes});
}

int32_t copy_to(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                size_t text_bytes) {
    return copy(device, stream, host, source, bytes, cudaMemcpyDeviceToHost, {text, text_bytes});
}

}  // namespace

RefactorHostMemory const& host_memory_table() {
    static constexpr RefactorHostMemory kTable{sizeof(RefactorHostMemory), allocate, deallocate, copy_from, copy_to};
    return kTable;
}

}  // namespace refactor::cuda_plugin
