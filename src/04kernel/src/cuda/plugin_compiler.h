#pragma once
#include "kernel/device_kernels.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

#include <cstdlib>
#include <set>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

/// For tests: the emulated GPU, and NVRTC as the CUDA plugin of this build calls it, which needs no device.
namespace refactor::kernel::testing {

/// The emulated GPU; throws if it cannot be loaded.
inline mem_manager::Device& emulated() {
    setenv("REFACTOR_GRAPH_PLUGIN_PATH", RG_CUDA_EMULATOR, 1);
    return mem_manager::find_device("nvidia", 0);
}

/// The table of a plugin; null, and why, if it has none.
inline RefactorDevicePlugin const* table_of(char const* file, std::string& why) {
    auto* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        auto const* reason = dlerror();
        why = reason ? reason : "the plugin cannot be loaded";
        return nullptr;
    }
    auto entry = reinterpret_cast<RefactorDevicePluginEntry>(dlsym(library, RG_DEVICE_PLUGIN_ENTRY));
    char text[512] = "";
    auto const* table = entry(RG_DEVICE_PLUGIN_ABI, text, sizeof text);
    if (!table) why = text;
    return table;
}

/// The table of the CUDA plugin; null, and why, if it is not part of this build.
inline RefactorDevicePlugin const* built_plugin(std::string& why) {
    if (*RG_CUDA_PLUGIN) return table_of(RG_CUDA_PLUGIN, why);
    why = "the CUDA plugin is not part of this build: configure with RG_CUDA=ON";
    return nullptr;
}

/// All of them for one architecture, one in eight for the others.
inline void compile_all(std::set<std::string> const& sources) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    ASSERT_TRUE(kernels);
    char text[4096] = "";
    size_t number = 0;
    for (auto const& source : sources) {
        for (auto const* architecture : {"sm_90a", "sm_80", "sm_100"}) {
            void* code = nullptr;
            size_t bytes = 0;
            ASSERT_EQ(kernels->compile(source.c_str(), architecture, &code, &bytes, text, sizeof text), 0)
                << architecture << ": " << text << source;
            kernels->release(code);
            if (number % 8) break;
        }
        ++number;
    }
}

}  // namespace refactor::kernel::testing
