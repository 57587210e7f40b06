#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for page-locked memory of the host, which all devices of the
/// kind read and write at the address that the host uses.
#define RG_HOST_MEMORY_EXTENSION "refactor_host_memory_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorHostMemory {
    uint32_t bytes;  ///< `sizeof(RefactorHostMemory)` of the plugin

    int32_t (*allocate)(void* device, size_t bytes, void** address, char* text, size_t text_bytes);
    void (*deallocate)(void* device, void* address, size_t bytes);
    /// In the order of the stream; both return at once: `host`, which is such memory, stays as it is until the stream
    /// has come so far.
    int32_t (*copy_from)(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                         size_t text_bytes);
    int32_t (*copy_to)(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                       size_t text_bytes);
} RefactorHostMemory;

#ifdef __cplusplus
}
#endif
