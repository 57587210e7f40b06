#include "mem_manager/blob.h"

#include "mem_manager/device.h"

#include <cstring>

namespace refactor::mem_manager {

std::shared_ptr<Blob> Blob::make(Device& device, size_t bytes) {
    auto* data = device.allocate(bytes);
    return std::shared_ptr<Blob>(new Blob(device, data, bytes, nullptr));
}

std::shared_ptr<Blob> Blob::wrap(Device& device, void* data, size_t bytes, std::function<void()> release) {
    return std::shared_ptr<Blob>(new Blob(device, data, bytes, release ? std::move(release) : [] {}));
}

std::shared_ptr<Blob> Blob::copy_of(void const* host, size_t bytes) {
    auto blob = make(cpu_device(), bytes);
    if (bytes) std::memcpy(blob->data(), host, bytes);
    return blob;
}

Blob::~Blob() {
    if (release_)
        release_();
    else
        device_->deallocate(data_, bytes_);
}

}  // namespace refactor::mem_manager
