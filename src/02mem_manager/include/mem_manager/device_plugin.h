#pragma once
#include <stddef.h>
#include <stdint.h>

/// The C interface between the core and a shared library that brings a kind of device (CUDA: `librefactor_cuda.so`).
///
/// The library exports one function, `refactor_device_plugin_v1`, and links nothing of the core, so that it can be
/// loaded wherever its own libraries can. It is looked for in the folders (or under the file names) of
/// `$REFACTOR_GRAPH_PLUGIN_PATH`, separated by colons, then in the folder of the library that contains the core.
/// Whatever fails is told in text: the user sees it in the `DeviceError` of `find_device`.

/// Raised with every incompatible change of the table below.
#define RG_DEVICE_PLUGIN_ABI 1u

/// What the functions of a plugin return: 0, `RG_OUT_OF_MEMORY`, or a code of the device's own (positive).
/// Functions that can fail write the reason to `text`, at most `text_bytes` with the ending zero.
#define RG_OUT_OF_MEMORY (-1)

#ifdef __cplusplus
extern "C" {
#endif

/// Filled by the plugin; the table and its strings live as long as the process. All functions are thread-safe.
typedef struct RefactorDevicePlugin {
    uint32_t abi;      ///< `RG_DEVICE_PLUGIN_ABI` of the plugin
    uint32_t bytes;    ///< `sizeof(RefactorDevicePlugin)` of the plugin
    char const* kind;  ///< "nvidia"

    /// Number of devices; fails where the driver is missing or unusable.
    int32_t (*count)(int32_t* devices, char* text, size_t text_bytes);
    /// The handle of a device, for the functions below; valid until the process ends, the same for each call.
    int32_t (*open)(int32_t ordinal, void** device, char* text, size_t text_bytes);
    /// Name for people, for example "NVIDIA H200".
    char const* (*name)(void* device);
    int32_t (*memory)(void* device, size_t* free_bytes, size_t* total_bytes, char* text, size_t text_bytes);

    int32_t (*allocate)(void* device, size_t bytes, void** address, char* text, size_t text_bytes);
    void (*deallocate)(void* device, void* address, size_t bytes);
    /// All three return when the copy is complete.
    int32_t (*copy_from_host)(void* device, void* target, void const* host, size_t bytes, char* text,
                              size_t text_bytes);
    int32_t (*copy_to_host)(void* device, void* host, void const* source, size_t bytes, char* text, size_t text_bytes);
    int32_t (*copy_within)(void* device, void* target, void const* source, size_t bytes, char* text, size_t text_bytes);

    /// A further table of the plugin (streams, kernels), by a name that carries its version; null if it has none. May
    /// be null itself.
    void const* (*extension)(char const* name);
} RefactorDevicePlugin;

/// Returns the table, or null and the reason in `text` if the plugin does not speak `core_abi`.
typedef RefactorDevicePlugin const* (*RefactorDevicePluginEntry)(uint32_t core_abi, char* text, size_t text_bytes);
#define RG_DEVICE_PLUGIN_ENTRY "refactor_device_plugin_v1"

#ifdef __cplusplus
}
#endif
