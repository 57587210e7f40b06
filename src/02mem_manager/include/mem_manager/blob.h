#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace refactor::mem_manager {

class Device;

/// A block of memory of one device, freed with its last owner. The bytes may be shared by executors: writers must be
/// the only owner.
class Blob {
    Device* device_;
    void* data_;
    size_t bytes_;
    std::function<void()> release_;

    Blob(Device& device, void* data, size_t bytes, std::function<void()> release)
        : device_(&device), data_(data), bytes_(bytes), release_(std::move(release)) {}

public:
    /// Fresh memory with undefined content. Throws `OutOfMemory`.
    static std::shared_ptr<Blob> make(Device& device, size_t bytes);
    /// Memory that belongs to someone else (a numpy array, a mapped file), who is told by `release` when it is no
    /// longer used.
    static std::shared_ptr<Blob> wrap(Device& device, void* data, size_t bytes, std::function<void()> release);
    /// A copy of host memory on the CPU.
    static std::shared_ptr<Blob> copy_of(void const* host, size_t bytes);

    ~Blob();
    Blob(Blob const&) = delete;
    Blob& operator=(Blob const&) = delete;

    Device& device() const { return *device_; }
    void* data() { return data_; }
    void const* data() const { return data_; }
    size_t bytes() const { return bytes_; }
};

}  // namespace refactor::mem_manager
