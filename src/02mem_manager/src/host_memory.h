#pragma once
#include "mem_manager/device.h"

namespace refactor::mem_manager {

/// Memory that this process may use: the machine's, cut by the limit of its cgroup (version 1 or 2).
MemoryInfo host_memory();

}  // namespace refactor::mem_manager
