#include "mem_manager/pinned.h"

#include "mem_manager/device_host_memory.h"
#include "mem_manager/extension.h"

namespace refactor::mem_manager {

std::shared_ptr<Blob> make_pinned(Device& device, size_t bytes) {
    auto const* table = extension_of<RefactorHostMemory>(device, RG_HOST_MEMORY_EXTENSION);
    if (!table || !bytes) return Blob::make(cpu_device(), bytes);
    void* address = nullptr;
    checked(device, "host_memory.allocate", [&](char* text, size_t text_bytes) {
        return table->allocate(device.handle(), bytes, &address, text, text_bytes);
    });
    return Blob::wrap_pinned(device, address, bytes,
                             [&device, table, address, bytes] { table->deallocate(device.handle(), address, bytes); });
}

}  // namespace refactor::mem_manager
