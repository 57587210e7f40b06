#pragma once
#include <cstddef>
#include <shared_mutex>
#include <string>
#include <string_view>

namespace refactor::mem_manager {

/// Free and total memory of a device in bytes; 0 if unknown.
struct MemoryInfo {
    size_t free = 0, total = 0;
};

/// A place where tensors live. Thread-safe; devices live as long as the process.
class Device {
    std::shared_mutex recordings_;

public:
    virtual ~Device() = default;
    virtual std::string_view kind() const = 0;  ///< "cpu", "nvidia"
    virtual int ordinal() const = 0;
    /// For people: "cpu:0 (AMD EPYC)".
    virtual std::string name() const = 0;
    virtual MemoryInfo memory() const = 0;

    /// 64-byte aligned memory with undefined content; null for 0 bytes. Throws `OutOfMemory` with the bytes asked and,
    /// if known, free.
    virtual void* allocate(size_t bytes) = 0;
    virtual void deallocate(void* address, size_t bytes) noexcept = 0;

    virtual void copy_from_host(void* target, void const* host, size_t bytes) = 0;
    virtual void copy_to_host(void* host, void const* source, size_t bytes) = 0;
    virtual void copy_within(void* target, void const* source, size_t bytes) = 0;

    /// A table of functions that only this kind of device has (streams, kernels), by a name that carries its version,
    /// or null.
    virtual void const* extension(std::string_view name) const {
        (void)name;
        return nullptr;
    }
    /// What the functions of an extension take as their device; null for the CPU.
    virtual void* handle() const { return nullptr; }
    /// Held by all who record work, and alone by who waits for the whole device, which would spoil recordings.
    std::shared_mutex& recordings() { return recordings_; }
};

/// The host's memory. Blocks of 2 MiB and more are advised for huge pages.
Device& cpu_device();

/// The device of that kind ("cpu", "nvidia") and number. Throws `DeviceError` saying what is missing: the plugin, the
/// driver, the device.
Device& find_device(std::string_view kind, int ordinal);

}  // namespace refactor::mem_manager
