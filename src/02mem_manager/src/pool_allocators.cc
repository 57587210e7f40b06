#include "allocators.h"
#include "common/error.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <list>
#include <unordered_map>

namespace refactor::mem_manager {

namespace {

/// Base of the allocators whose blocks are whole device allocations; freed ones wait in `freed_`, most recent first.
class BlockPool : public Allocator {
protected:
    struct Block {
        void* address;
        size_t bytes;
    };
    Device& device_;
    std::list<Block> freed_;
    std::unordered_map<void*, size_t> live_;
    Stats stats_;

    void* take(Block block) {
        live_.emplace(block.address, block.bytes);
        stats_.live_bytes += block.bytes;
        stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
        return block.address;
    }
    void* fresh(size_t bytes) {
        auto* address = device_.allocate(bytes);
        stats_.reserved_bytes += bytes;
        return take({address, bytes});
    }

public:
    explicit BlockPool(Device& device) : device_(device) {}
    ~BlockPool() override {
        for (auto const& block : freed_) device_.deallocate(block.address, block.bytes);
        for (auto const& [address, bytes] : live_) device_.deallocate(address, bytes);
    }
    void free(void* address) override {
        if (!address) return;
        auto found = live_.find(address);
        ensure(found != live_.end(), "freed a block that is not allocated");
        freed_.push_front({address, found->second});
        stats_.live_bytes -= found->second;
        live_.erase(found);
    }
    void trim() override {
        for (auto const& block : freed_) {
            device_.deallocate(block.address, block.bytes);
            stats_.reserved_bytes -= block.bytes;
        }
        freed_.clear();
    }
    Stats stats() const override { return stats_; }
};

class Plain final : public BlockPool {
public:
    using BlockPool::BlockPool;
    void* allocate(size_t bytes) override { return bytes ? fresh(block_bytes(bytes)) : nullptr; }
};

class MostRecentlyUsed final : public BlockPool {
public:
    using BlockPool::BlockPool;
    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        bytes = block_bytes(bytes);
        // A much larger block would be wasted on a small request.
        auto fits = [bytes](Block const& block) { return block.bytes >= bytes && block.bytes / 2 <= bytes; };
        auto found = std::find_if(freed_.begin(), freed_.end(), fits);
        if (found == freed_.end()) return fresh(bytes);
        auto block = *found;
        freed_.erase(found);
        return take(block);
    }
};

}  // namespace

std::unique_ptr<Allocator> make_plain_allocator(Device& device) { return std::make_unique<Plain>(device); }
std::unique_ptr<Allocator> make_mru_allocator(Device& device) { return std::make_unique<MostRecentlyUsed>(device); }

}  // namespace refactor::mem_manager
