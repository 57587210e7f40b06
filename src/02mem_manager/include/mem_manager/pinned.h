#pragma once
#include "mem_manager/blob.h"

namespace refactor::mem_manager {

/// A block of the host's memory that `device` reads and writes itself, so that copies need no staging; ordinary memory
/// if the device has nothing of that kind. Throws `OutOfMemory`.
std::shared_ptr<Blob> make_pinned(Device& device, size_t bytes);

}  // namespace refactor::mem_manager
