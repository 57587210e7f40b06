#pragma once
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refactor::mem_manager {

/// Loads the plugin library `file` ("librefactor_cuda.so") from the first of `folders` that has it; an entry of
/// `folders` may also be the library itself. Never unloads it. Throws `DeviceError` naming every place that was tried,
/// or what is wrong with the library.
RefactorDevicePlugin const& load_plugin(std::string_view kind, std::string const& file,
                                        std::vector<std::string> const& folders);

/// Where plugins are looked for: `$REFACTOR_GRAPH_PLUGIN_PATH`, then the folder of the library that contains this
/// function.
std::vector<std::string> plugin_folders();

/// Device `ordinal` of a plugin. Throws `DeviceError` if the driver or the device is missing.
std::unique_ptr<Device> open_plugin_device(RefactorDevicePlugin const& plugin, int ordinal);

}  // namespace refactor::mem_manager
