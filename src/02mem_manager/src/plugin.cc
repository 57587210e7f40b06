#include "plugin.h"

#include "common/error.h"

#include <cstdlib>

#include <dlfcn.h>
#include <sys/stat.h>

namespace refactor::mem_manager {

namespace {

constexpr size_t kTextBytes = 512;

bool is_folder(std::string const& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(std::string const& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0;
}

/// Throws what a failed call of a plugin reported.
void check(int32_t code, char const* call, char const* text, size_t bytes = 0) {
    if (!code) return;
    if (code == RG_OUT_OF_MEMORY)
        throw OutOfMemory("the device cannot provide " + std::to_string(bytes) + " bytes: " + text);
    throw DeviceError(call, code, text);
}

class PluginDevice final : public Device {
    RefactorDevicePlugin const& plugin_;
    int ordinal_;
    void* handle_;

public:
    PluginDevice(RefactorDevicePlugin const& plugin, int ordinal, void* handle)
        : plugin_(plugin), ordinal_(ordinal), handle_(handle) {}

    std::string_view kind() const override { return plugin_.kind; }
    int ordinal() const override { return ordinal_; }
    std::string name() const override {
        return std::string(kind()) + ':' + std::to_string(ordinal_) + " (" + plugin_.name(handle_) + ')';
    }
    MemoryInfo memory() const override {
        MemoryInfo info;
        char text[kTextBytes] = "";
        check(plugin_.memory(handle_, &info.free, &info.total, text, sizeof text), "memory", text);
        return info;
    }
    void const* extension(std::string_view name) const override {
        return plugin_.extension ? plugin_.extension(std::string(name).c_str()) : nullptr;
    }
    void* handle() const override { return handle_; }

    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        void* address = nullptr;
        char text[kTextBytes] = "";
        check(plugin_.allocate(handle_, bytes, &address, text, sizeof text), "allocate", text, bytes);
        return address;
    }
    void deallocate(void* address, size_t bytes) noexcept override {
        if (address) plugin_.deallocate(handle_, address, bytes);
    }
    void copy_from_host(void* target, void const* host, size_t bytes) override {
        char text[kTextBytes] = "";
        if (bytes)
            check(plugin_.copy_from_host(handle_, target, host, bytes, text, sizeof text), "copy_from_host", text);
    }
    void copy_to_host(void* host, void const* source, size_t bytes) override {
        char text[kTextBytes] = "";
        if (bytes) check(plugin_.copy_to_host(handle_, host, source, bytes, text, sizeof text), "copy_to_host", text);
    }
    void copy_within(void* target, void const* source, size_t bytes) override {
        char text[kTextBytes] = "";
        if (bytes) check(plugin_.copy_within(handle_, target, source, bytes, text, sizeof text), "copy_within", text);
    }
};

RefactorDevicePlugin const& open_library(std::string_view kind, std::string const& path) {
    auto fail = [&](std::string const& reason) { throw DeviceError("the plugin " + path + ' ' + reason); };
    auto* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        auto const* reason = dlerror();
        fail(std::string("cannot be loaded: ") + (reason ? reason : "unknown reason"));
    }
    auto entry = reinterpret_cast<RefactorDevicePluginEntry>(dlsym(library, RG_DEVICE_PLUGIN_ENTRY));
    if (!entry) fail("does not export " RG_DEVICE_PLUGIN_ENTRY ": it is not a device plugin of this version");
    char text[kTextBytes] = "";
    auto const* plugin = entry(RG_DEVICE_PLUGIN_ABI, text, sizeof text);
    if (!plugin) fail("refuses interface " + std::to_string(RG_DEVICE_PLUGIN_ABI) + ": " + text);
    if (plugin->abi != RG_DEVICE_PLUGIN_ABI)
        fail("speaks interface " + std::to_string(plugin->abi) + ", expected " + std::to_string(RG_DEVICE_PLUGIN_ABI));
    if (plugin->bytes < sizeof(RefactorDevicePlugin))
        fail("has a table of " + std::to_string(plugin->bytes) + " bytes, expected " +
             std::to_string(sizeof(RefactorDevicePlugin)));
    if (plugin->kind != kind)
        fail("brings devices of kind \"" + std::string(plugin->kind) + "\", expected \"" + std::string(kind) + '"');
    return *plugin;
}

}  // namespace

std::vector<std::string> plugin_folders() {
    std::vector<std::string> folders;
    if (auto const* variable = std::getenv("REFACTOR_GRAPH_PLUGIN_PATH")) {
        std::string_view rest = variable;
        while (!rest.empty()) {
            auto end = rest.find(':');
            if (auto folder = rest.substr(0, end); !folder.empty()) folders.emplace_back(folder);
            rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
        }
    }
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&plugin_folders), &self) && self.dli_fname) {
        std::string file = self.dli_fname;
        auto slash = file.rfind('/');
        folders.push_back(slash == std::string::npos ? "." : file.substr(0, slash));
    }
    return folders;
}

RefactorDevicePlugin const& load_plugin(std::string_view kind, std::string const& file,
                                        std::vector<std::string> const& folders) {
    std::string tried;
    for (auto const& folder : folders) {
        auto path = is_folder(folder) ? folder + '/' + file : folder;
        if (exists(path)) return open_library(kind, path);
        tried += (tried.empty() ? "" : ", ") + path;
    }
    throw DeviceError("no plugin for devices of kind \"" + std::string(kind) + "\" is installed (looked for " + tried +
                      "); set REFACTOR_GRAPH_PLUGIN_PATH to the folder of " + file +
                      ", or install a build of the package with CUDA=ON");
}

std::unique_ptr<Device> open_plugin_device(RefactorDevicePlugin const& plugin, int ordinal) {
    auto name = std::string(plugin.kind) + ':' + std::to_string(ordinal);
    char text[kTextBytes] = "";
    int32_t count = 0;
    if (auto code = plugin.count(&count, text, sizeof text))
        throw DeviceError("device " + name + " cannot be used, code " + std::to_string(code) + ": " + text);
    if (ordinal < 0 || ordinal >= count)
        throw DeviceError("there is no device " + name + ": this machine has " + std::to_string(count) + " of kind \"" +
                          plugin.kind + '"');
    void* handle = nullptr;
    if (auto code = plugin.open(ordinal, &handle, text, sizeof text))
        throw DeviceError("device " + name + " cannot be opened, code " + std::to_string(code) + ": " + text);
    return std::make_unique<PluginDevice>(plugin, ordinal, handle);
}

}  // namespace refactor::mem_manager
