#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace refactor::mem_manager {

class Device;

/// Hands out blocks while a program runs. Not thread-safe. Freed blocks stay readable and writable until `trim` or
/// destruction.
class Allocator {
public:
    struct Stats {
        size_t live_bytes = 0;      ///< allocated and not freed
        size_t peak_bytes = 0;      ///< largest `live_bytes` so far
        size_t reserved_bytes = 0;  ///< taken from the device
    };
    virtual ~Allocator() = default;
    /// 64-byte aligned; null for 0 bytes. Throws `OutOfMemory`.
    virtual void* allocate(size_t bytes) = 0;
    /// `address` came from `allocate` and was not freed since; null is ignored.
    virtual void free(void* address) = 0;
    /// Gives what is not allocated back to the device.
    virtual void trim() = 0;
    virtual Stats stats() const = 0;
};

/// "plain": every block its own, never shared · "mru": the most recently freed block that fits · "bestfit": coalescing
/// best fit in growing arenas · "compact": first fit from the bottom of one reserved address range whose pages are
/// committed on demand · "default": the same as "bestfit". Throws `InvalidInput` naming the valid names.
std::unique_ptr<Allocator> make_allocator(std::string_view name, Device& device);

}  // namespace refactor::mem_manager
