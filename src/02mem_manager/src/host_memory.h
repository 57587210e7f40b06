#pragma once
#include "mem_manager/device.h"

namespace refactor::mem_manager {

/// Memory that this process may use: the machine's, cut by the limit of its cgroup (version 1 or 2).
MemoryInfo host_memory();

/// Pages of zeros that nothing else is in, huge ones where the system has them. Throws `OutOfMemory`.
void* map_pages(size_t bytes);
void unmap_pages(void* address, size_t bytes) noexcept;

}  // namespace refactor::mem_manager
