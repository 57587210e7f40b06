#pragma once
#include "mem_manager/allocator.h"

namespace refactor::mem_manager {

std::unique_ptr<Allocator> make_plain_allocator(Device& device);
std::unique_ptr<Allocator> make_mru_allocator(Device& device);
std::unique_ptr<Allocator> make_bestfit_allocator(Device& device);
/// Host memory only.
std::unique_ptr<Allocator> make_compact_allocator(Device& device);

/// Blocks are multiples of a cache line.
constexpr size_t round_to_line(size_t bytes) { return (bytes + 63) & ~size_t(63); }

}  // namespace refactor::mem_manager
