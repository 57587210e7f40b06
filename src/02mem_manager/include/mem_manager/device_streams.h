#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for queues of work. Functions that can fail return 0 or a
/// code of the device and write the reason to `text`. `device` is the handle that `open` gave.
#define RG_STREAMS_EXTENSION "refactor_streams_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorDeviceStreams {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceStreams)` of the plugin

    int32_t (*create)(void* device, void** stream, char* text, size_t text_bytes);
    /// Waits for the work of the stream.
    void (*destroy)(void* device, void* stream);
    /// Waits for the work of the stream; reports what any of it failed with.
    int32_t (*synchronize)(void* device, void* stream, char* text, size_t text_bytes);
    /// In the order of the stream; `host` may be written again when the call returns.
    int32_t (*copy_from_host)(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                              size_t text_bytes);
    /// In the order of the stream; returns when the data is in `host`.
    int32_t (*copy_to_host)(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                            size_t text_bytes);
    /// In the order of the stream; returns at once. The blocks do not overlap.
    int32_t (*copy_within)(void* device, void* stream, void* target, void const* source, size_t bytes, char* text,
                           size_t text_bytes);
} RefactorDeviceStreams;

#ifdef __cplusplus
}
#endif
