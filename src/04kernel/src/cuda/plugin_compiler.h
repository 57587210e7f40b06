#pragma once
#include "common/error.h"
#include "common/thread_pool.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

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
    std::vector<std::string const*> all;
    for (auto const& source : sources) all.push_back(&source);
    ThreadPool().parallel_for(static_cast<int64_t>(all.size()), [&](int64_t i, int) {
        auto const& source = *all[static_cast<size_t>(i)];
        for (auto const* architecture : {"sm_90a", "sm_80", "sm_100"}) {
            char complaint[4096] = "";
            void* code = nullptr;
            size_t bytes = 0;
            if (kernels->compile(source.c_str(), architecture, &code, &bytes, complaint, sizeof complaint))
                throw InternalError(std::string(architecture) + ": " + complaint + source);
            kernels->release(code);
            if (i % 8) break;
        }
    });
}

}  // namespace refactor::kernel::testing
