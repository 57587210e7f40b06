#include "allocators.h"
#include "common/error.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <map>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace refactor::mem_manager {

namespace {

/// Free and used pieces of one address range, neighbours merged when freed. Offsets count from the start of the range.
class Pieces {
    std::map<size_t, size_t> free_;  // offset → bytes

public:
    void add(size_t offset, size_t bytes) {
        auto next = free_.lower_bound(offset);
        if (next != free_.end() && next->first == offset + bytes) {
            bytes += next->second;
            next = free_.erase(next);
        }
        if (next != free_.begin()) {
            auto before = std::prev(next);
            if (before->first + before->second == offset) {
                before->second += bytes;
                return;
            }
        }
        free_.emplace(offset, bytes);
    }
    void remove(size_t offset, size_t bytes) {
        auto piece = free_.find(offset);
        auto rest = piece->second - bytes;
        free_.erase(piece);
        if (rest) free_.emplace(offset + bytes, rest);
    }
    std::map<size_t, size_t> const& free() const { return free_; }
};

class BestFit final : public Allocator {
    static constexpr size_t kLargestSpare = size_t(64) << 20;
    struct Arena {
        std::byte* base = nullptr;
        size_t bytes = 0;  ///< 0: an empty slot
        Pieces pieces;
    };
    struct Place {
        size_t arena, offset, bytes;
    };
    Device& device_;
    std::vector<Arena> arenas_;
    std::map<void*, Place> live_;
    Stats stats_;

    size_t grow(size_t bytes) {
        // Arenas double up to a limit, so that their number stays small and little is reserved in vain.
        auto size = std::max(bytes, std::min(stats_.reserved_bytes, kLargestSpare));
        std::byte* base;
        try {
            base = static_cast<std::byte*>(device_.allocate(size));
        } catch (OutOfMemory const&) {
            if (size == bytes) throw;
            base = static_cast<std::byte*>(device_.allocate(size = bytes));
        }
        stats_.reserved_bytes += size;
        size_t slot = 0;
        while (slot < arenas_.size() && arenas_[slot].bytes) ++slot;
        if (slot == arenas_.size()) arenas_.emplace_back();
        arenas_[slot] = {base, size, {}};
        arenas_[slot].pieces.add(0, size);
        return slot;
    }

public:
    explicit BestFit(Device& device) : device_(device) {}
    ~BestFit() override {
        for (auto const& arena : arenas_) device_.deallocate(arena.base, arena.bytes);
    }
    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        bytes = block_bytes(bytes);
        size_t best = SIZE_MAX;
        Place place{};
        for (size_t i = 0; i < arenas_.size(); ++i)
            for (auto const& [offset, size] : arenas_[i].pieces.free())
                if (size >= bytes && size < best) best = size, place = {i, offset, bytes};
        if (best == SIZE_MAX) place = {grow(bytes), 0, bytes};
        auto& arena = arenas_[place.arena];
        arena.pieces.remove(place.offset, bytes);
        auto* address = arena.base + place.offset;
        live_.emplace(address, place);
        stats_.live_bytes += bytes;
        stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
        return address;
    }
    void free(void* address) override {
        if (!address) return;
        auto found = live_.find(address);
        ensure(found != live_.end(), "freed a block that is not allocated");
        auto place = found->second;
        arenas_[place.arena].pieces.add(place.offset, place.bytes);
        stats_.live_bytes -= place.bytes;
        live_.erase(found);
    }
    void trim() override {
        for (auto& arena : arenas_) {
            auto const& free = arena.pieces.free();
            if (!arena.bytes || free.size() != 1 || free.begin()->second != arena.bytes) continue;
            device_.deallocate(arena.base, arena.bytes);
            stats_.reserved_bytes -= arena.bytes;
            arena = {};
        }
    }
    Stats stats() const override { return stats_; }
};

/// Blocks lie in one reserved range; only pages below the highest block ever used since `trim` are backed by memory.
class Compact final : public Allocator {
    static constexpr size_t kReserved = size_t(1) << 40;  // addresses, not memory: 1 TiB of the 128 TiB a process has
    static constexpr size_t kSmallest = size_t(1) << 30;  // where even addresses are limited (RLIMIT_AS)
    static constexpr size_t kCommit = size_t(2) << 20;    // a huge page
    std::byte* base_ = nullptr;
    size_t range_ = kReserved, committed_ = 0;
    Pieces pieces_;
    std::map<void*, size_t> live_;
    Stats stats_;

    void commit(size_t end) {
        if (end <= committed_) return;
        auto wanted = std::min((end + kCommit - 1) / kCommit * kCommit, range_);
        if (mprotect(base_ + committed_, wanted - committed_, PROT_READ | PROT_WRITE) != 0)
            throw OutOfMemory("the CPU cannot commit " + std::to_string(wanted - committed_) + " more bytes");
        madvise(base_ + committed_, wanted - committed_, MADV_HUGEPAGE);
        committed_ = stats_.reserved_bytes = wanted;
    }

public:
    Compact() {
        void* range = MAP_FAILED;
        for (; range == MAP_FAILED && range_ >= kSmallest; range_ /= 2) {
            range = mmap(nullptr, range_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (range != MAP_FAILED) break;
        }
        if (range == MAP_FAILED) throw OutOfMemory("the process cannot reserve 1 GiB of addresses");
        base_ = static_cast<std::byte*>(range);
        pieces_.add(0, range_);
    }
    ~Compact() override { munmap(base_, range_); }

    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        bytes = block_bytes(bytes);
        for (auto const& [offset, size] : pieces_.free()) {
            if (size < bytes) continue;
            auto at = offset;
            commit(at + bytes);
            pieces_.remove(at, bytes);
            live_.emplace(base_ + at, bytes);
            stats_.live_bytes += bytes;
            stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
            return base_ + at;
        }
        throw OutOfMemory("no piece of " + std::to_string(bytes) + " bytes is left of " + std::to_string(range_));
    }
    void free(void* address) override {
        if (!address) return;
        auto found = live_.find(address);
        ensure(found != live_.end(), "freed a block that is not allocated");
        pieces_.add(static_cast<size_t>(static_cast<std::byte*>(address) - base_), found->second);
        stats_.live_bytes -= found->second;
        live_.erase(found);
    }
    void trim() override {
        size_t end = 0;
        for (auto const& [address, bytes] : live_)
            end = std::max(end, static_cast<size_t>(static_cast<std::byte*>(address) - base_) + bytes);
        end = (end + kCommit - 1) / kCommit * kCommit;
        if (end >= committed_) return;
        madvise(base_ + end, committed_ - end, MADV_DONTNEED);
        mprotect(base_ + end, committed_ - end, PROT_NONE);
        committed_ = stats_.reserved_bytes = end;
    }
    Stats stats() const override { return stats_; }
};

}  // namespace

std::unique_ptr<Allocator> make_bestfit_allocator(Device& device) { return std::make_unique<BestFit>(device); }

std::unique_ptr<Allocator> make_compact_allocator(Device& device) {
    if (device.kind() != "cpu")
        throw InvalidInput("allocator \"compact\" reserves host addresses, it cannot be used on " + device.name());
    return std::make_unique<Compact>();
}

}  // namespace refactor::mem_manager
