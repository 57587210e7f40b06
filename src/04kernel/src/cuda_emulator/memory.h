#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace refactor::cuda_emulator {

/// Memory of an emulated device. Its addresses are none of the host's: a host access ends the process, as it does with
/// a real device. Behind every block lies a page that must not be touched; fresh memory is full of a pattern.
class Memory {
    struct Block {
        std::byte* host;
        size_t bytes, mapped;
    };
    std::mutex mutex_;
    std::map<uint64_t, Block> blocks_;  ///< by device address
    size_t used_ = 0, limit_;

public:
    explicit Memory(size_t limit) : limit_(limit) {}
    /// Null if the limit would be exceeded.
    void* allocate(size_t bytes);
    void deallocate(void* address);
    size_t used();
    size_t limit() const { return limit_; }
    /// Where [address, address + bytes) lies in the host's memory; null if it is not within one block.
    void* host(void const* address, size_t bytes = 0);
};

}  // namespace refactor::cuda_emulator
