#include "mem_manager/blob.h"

#include "mem_manager/device.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace refactor::mem_manager {

struct Blob::Lazy {
    std::unique_ptr<BlobSource> source;
    std::mutex mutex;
    std::atomic<void*> data = nullptr;  ///< memory of the device, once the source has been read
};

Blob::Blob(Device& device, void* data, size_t bytes, std::function<void()> release)
    : device_(&device), data_(data), bytes_(bytes), release_(std::move(release)) {}

std::shared_ptr<Blob> Blob::make(Device& device, size_t bytes) {
    auto* data = device.allocate(bytes);
    return std::shared_ptr<Blob>(new Blob(device, data, bytes, nullptr));
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

void* Blob::load() const {
    if (auto* direct = lazy_->source->direct()) return const_cast<void*>(direct);
    if (auto* known = lazy_->data.load(std::memory_order_acquire)) return known;
    std::lock_guard lock(lazy_->mutex);
    if (auto* known = lazy_->data.load(std::memory_order_relaxed)) return known;
    auto* fresh = device_->allocate(bytes_);
    lazy_->source->read(fresh);
    lazy_->source->discard();
    lazy_->data.store(fresh, std::memory_order_release);
    return fresh;
}

Blob::~Blob() {
    if (lazy_) {
        if (auto* loaded = lazy_->data.load()) device_->deallocate(loaded, bytes_);
    } else if (release_) {
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
    if (!staging || staging->bytes() < blob.bytes()) {
        staging.reset();
        staging = Blob::make(blob.device(), blob.bytes());
    }
    lazy->source->read(staging->data());
    data_ = staging->data();
}

Blob::Reader::~Reader() {
    if (blob_.lazy_) blob_.lazy_->source->discard();
}

}  // namespace refactor::mem_manager
