#include "common/error.h"
#include "mem_manager/device.h"
#include "plugin.h"

#include <map>
#include <memory>
#include <mutex>

namespace refactor::mem_manager {

namespace {

/// Kinds that plugins bring, and the library of each.
struct PluginKind {
    char const* kind;
    char const* file;
};
constexpr PluginKind kPluginKinds[] = {{"nvidia", "librefactor_cuda.so"}};

/// Opened devices live as long as the process: blobs that static destructors free may still refer to them.
struct Registry {
    std::mutex mutex;
    std::map<std::string, RefactorDevicePlugin const*, std::less<>> plugins;
    std::map<std::pair<std::string, int>, std::unique_ptr<Device>> devices;
};

Registry& registry() {
    static auto* instance = new Registry;
    return *instance;
}

Device& plugin_device(PluginKind const& entry, int ordinal) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    auto& device = all.devices[{entry.kind, ordinal}];
    if (device) return *device;
    auto& plugin = all.plugins[entry.kind];
    if (!plugin) plugin = &load_plugin(entry.kind, entry.file, plugin_folders());
    device = open_plugin_device(*plugin, ordinal);
    return *device;
}

}  // namespace

Device& find_device(std::string_view kind, int ordinal) {
    if (kind == "cpu") {
        if (ordinal == 0) return cpu_device();
        throw DeviceError("there is no device cpu:" + std::to_string(ordinal) +
                          ": the host is cpu:0, all its cores are one device");
    }
    std::string known = "cpu";
    for (auto const& entry : kPluginKinds) {
        // The target of the compiler is called "cuda"; both names find the device.
        if (kind == entry.kind || (kind == "cuda" && std::string_view(entry.kind) == "nvidia"))
            return plugin_device(entry, ordinal);
        known += std::string(", ") + entry.kind;
    }
    throw DeviceError("there are no devices of kind \"" + std::string(kind) + "\", expected one of: " + known);
}

}  // namespace refactor::mem_manager
