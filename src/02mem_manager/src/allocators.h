#pragma once
#include "common/error.h"
#include "mem_manager/allocator.h"

#include <string>

namespace refactor::mem_manager {

std::unique_ptr<Allocator> make_plain_allocator(Device& device);
std::unique_ptr<Allocator> make_mru_allocator(Device& device);
std::unique_ptr<Allocator> make_bestfit_allocator(Device& device);
/// Host memory only.
std::unique_ptr<Allocator> make_compact_allocator(Device& device);

/// Blocks are multiples of a cache line.
constexpr size_t round_to_line(size_t bytes) { return (bytes + 63) & ~size_t(63); }

/// The size of the block for a request. Throws `OutOfMemory` if rounding it up leaves the range of sizes.
inline size_t block_bytes(size_t request) {
    auto bytes = round_to_line(request);
    if (bytes < request) throw OutOfMemory("no device can provide " + std::to_string(request) + " bytes");
    return bytes;
}

}  // namespace refactor::mem_manager
