#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for sharing memory and order with other libraries in the
/// process, and with other devices of the kind. `foreign` is the stream of another library as it passes it: for CUDA a
/// cudaStream_t as a number, where 0 and 1 are the legacy default stream and 2 the default stream of the thread.
#define RG_INTEROP_EXTENSION "refactor_interop_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorDeviceInterop {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceInterop)` of the plugin

    /// The stream as other libraries take it.
    uint64_t (*native)(void* stream);
    /// What is put into `stream` from now on starts after all that is in `foreign` now.
    int32_t (*wait_for)(void* device, void* stream, uint64_t foreign, char* text, size_t text_bytes);
    /// The other way round.
    int32_t (*release_to)(void* device, void* stream, uint64_t foreign, char* text, size_t text_bytes);
    /// Waits for all work of the device, whoever gave it.
    int32_t (*synchronize)(void* device, char* text, size_t text_bytes);
    /// Number of the device that memory belongs to; -1 for memory of the host.
    int32_t (*owner_of)(void const* address, int32_t* ordinal, char* text, size_t text_bytes);
    /// In the order of `stream`, which is one of `device`; returns at once.
    int32_t (*copy_from_peer)(void* device, void* stream, void* target, void* source_device, void const* source,
                              size_t bytes, char* text, size_t text_bytes);
} RefactorDeviceInterop;

#ifdef __cplusplus
}
#endif
