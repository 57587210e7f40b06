#pragma once
#include "mem_manager/device_graphs.h"
#include "mem_manager/device_host_memory.h"
#include "mem_manager/device_interop.h"
#include "mem_manager/device_streams.h"

#include <cstddef>
#include <memory>
#include <shared_mutex>

namespace refactor::mem_manager {

class Device;
class Recording;

/// A queue of work on a device. A device without streams (the CPU) gets one that does everything at once and whose
/// `native` is null. Not thread-safe; its device outlives it.
class Stream {
    Device& device_;
    RefactorDeviceStreams const* table_;
    RefactorHostMemory const* host_memory_;
    RefactorDeviceGraphs const* graphs_;
    RefactorDeviceInterop const* interop_;
    void* native_ = nullptr;
    std::shared_lock<std::shared_mutex> recording_;

    RefactorDeviceInterop const& interop() const;

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
    /// Without waiting; `host` is of `make_pinned` for this device, or the copy is one of the above.
    void copy_from_pinned(void* target, void const* host, size_t bytes);
    void copy_to_pinned(void* host, void const* source, size_t bytes);
    /// From the memory of this device, or of another one of the same kind.
    void copy_from_peer(void* target, Device const& source_device, void const* source, size_t bytes);

    /// Whether work can be recorded.
    bool can_record() const { return graphs_ != nullptr; }
    /// Until `end_recording`, by the same thread, work is kept instead of done. Nobody waits for the whole device
    /// meanwhile.
    void begin_recording();
    /// Throws `DeviceError` if something cannot be recorded.
    std::unique_ptr<Recording> end_recording();

    /// Whether order can be shared with streams of other libraries, numbered as in device_interop.h.
    bool can_share() const { return interop_ != nullptr; }
    uint64_t shared_number() const;
    /// What comes next starts after the work that is in `foreign` now, and the other way round.
    void wait_for(uint64_t foreign);
    void release_to(uint64_t foreign);
    /// Waits for all work of the device.
    void synchronize_device();
};

/// Waits for all work of a device, and first for the recordings that are under way. Not for a thread that records.
void wait_for_device(Device& device);
/// Number of the device of kind "nvidia" that memory of another library belongs to. Throws `InvalidInput` if it is the
/// host's.
int owner_of(void const* address);

/// Recorded work of one device.
class Recording {
    Device& device_;
    RefactorDeviceGraphs const& table_;
    void* graph_;

public:
    Recording(Device& device, RefactorDeviceGraphs const& table, void* graph)
        : device_(device), table_(table), graph_(graph) {}
    ~Recording();
    Recording(Recording const&) = delete;
    Recording& operator=(Recording const&) = delete;
    /// Does the work, in the order of `stream`.
    void launch(Stream& stream) const;
};

}  // namespace refactor::mem_manager
