#include "kernel/kernel.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

namespace refactor::kernel {

using mem_manager::Blob;

namespace {

struct Packed {
    std::string format;
    std::once_flag once;
    std::shared_ptr<Blob const> blob;  ///< before the first `get`: what was added
};

/// Blobs too small for huge pages of their own, cut from larger ones: a model has hundreds, and each page first touched
/// costs more than packing what it holds.
class Slabs {
    static constexpr size_t kSmallest = size_t(1) << 18, kLargest = size_t(1) << 23, kOwn = size_t(1) << 21;

    struct Slab {
        std::shared_ptr<Blob> blob;
        size_t used = 0;

        size_t room() const { return blob->bytes() - used; }
    };
    std::vector<Slab> open_;  ///< with room for more
    size_t next_ = kSmallest;

    /// The first with room: what does not fit into one leaves the rest of it to smaller ones.
    Slab& with_room(size_t bytes) {
        for (auto& slab : open_)
            if (slab.room() >= bytes) return slab;
        auto size = std::max(next_, bytes);
        next_ = std::min(2 * size, kLargest);
        return open_.emplace_back(Slab{Blob::make_pages(size)});
    }

public:
    std::shared_ptr<Blob> take(size_t bytes) {
        constexpr size_t kLine = 64, kFull = 4096;
        if (bytes >= kOwn) return Blob::make_pages(bytes);
        auto size = (bytes + kLine - 1) / kLine * kLine;
        auto& slab = with_room(size);
        auto* data = static_cast<std::byte*>(slab.blob->data()) + slab.used;
        slab.used += size;
        auto result = Blob::wrap(mem_manager::cpu_device(), data, bytes, [blob = slab.blob] {});
        std::erase_if(open_, [](Slab const& one) { return one.room() < kFull; });
        return result;
    }
};

}  // namespace

struct PackCache::State {
    mutable std::mutex mutex;
    /// By the constant, which lives as long as the Program that owns the cache.
    std::unordered_map<Blob const*, std::list<Packed>> packed;
    std::vector<std::shared_ptr<Blob>> staging;  ///< not in use
    Slabs slabs;
    size_t bytes = 0;

    Packed& entry(Blob const& source, std::string_view format) {
        std::lock_guard lock(mutex);
        auto& entries = packed[&source];
        for (auto& entry : entries)
            if (entry.format == format) return entry;
        auto& fresh = entries.emplace_back();
        fresh.format = format;
        return fresh;
    }
    std::shared_ptr<Blob> take(size_t size, std::shared_ptr<Blob>& stage) {
        std::lock_guard lock(mutex);
        if (!staging.empty()) stage = std::move(staging.back()), staging.pop_back();
        return slabs.take(size);
    }
};

PackCache::PackCache() : state_(std::make_unique<State>()) {}
PackCache::~PackCache() = default;

size_t PackCache::bytes() const {
    std::lock_guard lock(state_->mutex);
    return state_->bytes;
}

void PackCache::trim() {
    std::lock_guard lock(state_->mutex);
    state_->staging.clear();
}

std::vector<PackCache::Entry> PackCache::entries() const {
    std::lock_guard lock(state_->mutex);
    std::vector<Entry> result;
    for (auto const& [source, entries] : state_->packed)
        for (auto const& entry : entries)
            if (entry.blob) result.push_back({source, entry.format, entry.blob});
    return result;
}

void PackCache::add(Entry entry) {
    auto& packed = state_->entry(*entry.source, entry.format);
    packed.blob = std::move(entry.packed);
}

std::shared_ptr<Blob const> PackCache::find_or_make(Blob const& source, std::string_view format, size_t bytes,
                                                    void (*pack)(void*, void const*, void*), void* argument) {
    auto& entry = state_->entry(source, format);
    std::call_once(entry.once, [&] {
        if (entry.blob && entry.blob->bytes() == bytes) return;
        std::shared_ptr<Blob> staging;
        auto blob = state_->take(bytes, staging);
        pack(argument, Blob::Reader(source, staging).data(), blob->data());
        source.forget();
        std::lock_guard lock(state_->mutex);
        entry.blob = std::move(blob);
        if (staging) state_->staging.push_back(std::move(staging));
        state_->bytes += bytes;
    });
    return entry.blob;
}

}  // namespace refactor::kernel
