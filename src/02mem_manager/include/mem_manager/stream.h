#pragma once
#include "mem_manager/device_streams.h"

#include <cstddef>

namespace refactor::mem_manager {

class Device;

/// A queue of work on a device. A device without streams (the CPU) gets one that does everything at once and whose
/// `native` is null. Not thread-safe; its device outlives it.
class Stream {
    Device& device_;
    RefactorDeviceStreams const* table_;
    void* native_ = nullptr;

public:
    /// Throws `DeviceError`.
    explicit Stream(Device& device);
    ~Stream();
    Stream(Stream const&) = delete;
    Stream& operator=(Stream const&) = delete;

    /// What the functions of a plugin take as their stream.
    void* native() const { return native_; }
    Device& device() const { return device_; }
    /// Waits. Throws `DeviceError` with what any of the work failed with.
    void synchronize();
    /// `host` may be written again on return.
    void copy_from_host(void* target, void const* host, size_t bytes);
    /// Waits for the data.
    void copy_to_host(void* host, void const* source, size_t bytes);
};

}  // namespace refactor::mem_manager
