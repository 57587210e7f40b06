#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for points in time on a device.
#define RG_EVENTS_EXTENSION "refactor_events_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorDeviceEvents {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceEvents)` of the plugin

    int32_t (*create)(void* device, void** event, char* text, size_t text_bytes);
    void (*destroy)(void* device, void* event);
    /// Marks the place that the work put into the stream so far ends at.
    int32_t (*record)(void* device, void* stream, void* event, char* text, size_t text_bytes);
    /// Time in ns between two places that have been reached.
    int32_t (*elapsed)(void* device, void* first, void* last, double* nanoseconds, char* text, size_t text_bytes);
} RefactorDeviceEvents;

#ifdef __cplusplus
}
#endif
