#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for recorded work: what is put into a stream between `begin`
/// and `end` is not done but kept, and done by one call as often as wanted. Between them, `synchronize` of
/// device_interop.h is not called for the device by any thread.
#define RG_GRAPHS_EXTENSION "refactor_graphs_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorDeviceGraphs {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceGraphs)` of the plugin

    int32_t (*begin)(void* device, void* stream, char* text, size_t text_bytes);
    /// Ends the recording in any case; fails if something in it cannot be recorded.
    int32_t (*end)(void* device, void* stream, void** graph, char* text, size_t text_bytes);
    int32_t (*launch)(void* device, void* stream, void* graph, char* text, size_t text_bytes);
    /// The work of the streams that it was put into is done.
    void (*destroy)(void* device, void* graph);
} RefactorDeviceGraphs;

#ifdef __cplusplus
}
#endif
