#pragma once
#include <stdint.h>

/// The extension of a device plugin (see device_plugin.h) for named ranges in the timeline of a profiler (NVTX).
#define RG_RANGES_EXTENSION "refactor_ranges_v1"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RefactorDeviceRanges {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceRanges)` of the plugin

    /// Whether a profiler listens.
    int32_t (*enabled)(void);
    void (*push)(char const* name);
    void (*pop)(void);
} RefactorDeviceRanges;

#ifdef __cplusplus
}
#endif
