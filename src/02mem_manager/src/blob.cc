#include "mem_manager/blob.h"

#include "host_memory.h"
#include "mem_manager/device.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace refactor::mem_manager {

struct Blob::Lazy {
    std::unique_ptr<BlobSource> source;
    std::mutex mutex;
    std::shared_ptr<Blob> known;        ///< null: as the source would read them
    std::atomic<void*> data = nullptr;  ///< of `known`, once somebody has its address
};

Blob::Blob(Device& device, void* data, size_t bytes, std::function<void()> release)
    : device_(&device), data_(data), bytes_(bytes), release_(std::move(release)) {}

std::shared_ptr<Blob> Blob::make(Device& device, size_t bytes) {
    auto* data = device.allocate(bytes);
    return std::shared_ptr<Blob>(new Blob(device, data, bytes, nullptr));
}

std::shared_ptr<Blob> Blob::make_pages(size_t bytes) {
    // Below, pages of their own cost more than holes.
    constexpr size_t kLarge = size_t(1) << 17;
    if (bytes < kLarge) return make(cpu_device(), bytes);
    auto* data = map_pages(bytes);
    return wrap(cpu_device(), data, bytes, [=] { unmap_pages(data, bytes); });
}

std::shared_ptr<Blob> Blob::wrap(Device& device, void* data, size_t bytes, std::function<void()> release) {
    return std::shared_ptr<Blob>(new Blob(device, data, bytes, release ? std::move(release) : [] {}));
}

std::shared_ptr<Blob> Blob::wrap_pinned(Device& device, void* data, size_t bytes, std::function<void()> release) {
    auto blob = wrap(cpu_device(), data, bytes, std::move(release));
    blob->pinned_for_ = &device;
    return blob;
}

bool Blob::is_pinned_for(Device const& device) const { return pinned_for_ && pinned_for_->kind() == device.kind(); }

std::shared_ptr<Blob> Blob::copy_of(void const* host, size_t bytes) {
    auto blob = make(cpu_device(), bytes);
    if (bytes) std::memcpy(blob->data(), host, bytes);
    return blob;
}

std::shared_ptr<Blob> Blob::lazy(size_t bytes, std::unique_ptr<BlobSource> source) {
    auto blob = std::shared_ptr<Blob>(new Blob(cpu_device(), nullptr, bytes, nullptr));
    blob->lazy_ = std::make_unique<Lazy>();
    blob->lazy_->source = std::move(source);
    return blob;
}

std::shared_ptr<Blob> Blob::renewable(std::shared_ptr<Blob> known, std::unique_ptr<BlobSource> source) {
    auto blob = lazy(known->bytes(), std::move(source));
    blob->lazy_->known = std::move(known);
    return blob;
}

void* Blob::load() const {
    if (auto* direct = lazy_->source->direct()) return const_cast<void*>(direct);
    if (auto* known = lazy_->data.load(std::memory_order_acquire)) return known;
    std::lock_guard lock(lazy_->mutex);
    if (!lazy_->known) {
        auto fresh = make_pages(bytes_);
        lazy_->source->read(fresh->data());
        lazy_->known = std::move(fresh);
    }
    lazy_->source->discard();
    auto* data = lazy_->known->data();
    lazy_->data.store(data, std::memory_order_release);
    return data;
}

void const* Blob::unaligned_data() const {
    if (!lazy_ || lazy_->data.load(std::memory_order_acquire)) return data();
    auto* unaligned = lazy_->source->unaligned();
    return unaligned ? unaligned : data();
}

void Blob::forget() const {
    if (!lazy_) return;
    std::shared_ptr<Blob> known;
    {
        std::lock_guard lock(lazy_->mutex);
        if (!lazy_->data.load(std::memory_order_relaxed)) known = std::move(lazy_->known);
    }
    if (known) lazy_->source->discard();
}

Blob::~Blob() {
    if (lazy_) return;
    if (release_) {
        release_();
    } else {
        device_->deallocate(data_, bytes_);
    }
}

Blob::Reader::Reader(Blob const& blob, std::shared_ptr<Blob>& staging) : blob_(blob) {
    auto* lazy = blob.lazy_.get();
    if (!lazy || lazy->source->direct() || lazy->data.load(std::memory_order_acquire)) {
        data_ = blob.data();
        return;
    }
    {
        std::lock_guard lock(lazy->mutex);
        known_ = lazy->known;
    }
    if (known_) {
        data_ = known_->data();
        return;
    }
    if (!staging || staging->bytes() < blob.bytes()) {
        staging.reset();
        staging = Blob::make_pages(blob.bytes());
    }
    lazy->source->read(staging->data());
    data_ = staging->data();
}

Blob::Reader::~Reader() {
    if (blob_.lazy_) blob_.lazy_->source->discard();
}

}  // namespace refactor::mem_manager
