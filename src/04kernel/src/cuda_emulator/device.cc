#include "cuda_emulator/device.h"

#include "mem_manager/device_plugin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace refactor::cuda_emulator {

int32_t Complaint::operator()(int32_t code, std::string const& message) const {
    if (bytes) std::snprintf(text, bytes, "%s", message.c_str());
    return code;
}

namespace {

size_t setting(char const* variable, size_t otherwise) {
    auto const* text = std::getenv(variable);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

std::vector<std::unique_ptr<Device>>& devices() {
    // Never destroyed: executors may outlive the library's static objects.
    static auto* all = [] {
        auto* fresh = new std::vector<std::unique_ptr<Device>>;
        auto bytes = setting("REFACTOR_GRAPH_EMULATED_BYTES", size_t{8} << 30);
        for (size_t i = 0; i < setting("REFACTOR_GRAPH_EMULATED_DEVICES", 2); ++i)
            fresh->push_back(std::make_unique<Device>(
                static_cast<int32_t>(i), static_cast<int32_t>(setting("REFACTOR_GRAPH_EMULATED_CAPABILITY", 90)),
                bytes));
        return fresh;
    }();
    return *all;
}

namespace {

int32_t count(int32_t* number, char*, size_t) {
    *number = static_cast<int32_t>(devices().size());
    return 0;
}

int32_t open(int32_t ordinal, void** device, char* text, size_t text_bytes) {
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices().size())
        return Complaint{text, text_bytes}(kFailure, "there is no emulated device " + std::to_string(ordinal));
    *device = devices()[static_cast<size_t>(ordinal)].get();
    return 0;
}

char const* name(void* device) { return device_of(device).name.c_str(); }

int32_t memory(void* device, size_t* free_bytes, size_t* total_bytes, char*, size_t) {
    auto& memory = device_of(device).memory;
    *total_bytes = memory.limit(), *free_bytes = memory.limit() - memory.used();
    return 0;
}

int32_t allocate(void* device, size_t bytes, void** address, char* text, size_t text_bytes) {
    auto& memory = device_of(device).memory;
    *address = memory.allocate(bytes);
    if (*address) return 0;
    return Complaint{text, text_bytes}(RG_OUT_OF_MEMORY, std::to_string(bytes) + " bytes asked for, " +
                                                             std::to_string(memory.limit() - memory.used()) + " free");
}

void deallocate(void* device, void* address, size_t) { device_of(device).memory.deallocate(address); }

int32_t copy_from_host(void* device, void* target, void const* host, size_t bytes, char* text, size_t text_bytes) {
    return stream_table().copy_from_host(device, nullptr, target, host, bytes, text, text_bytes);
}

int32_t copy_to_host(void* device, void* host, void const* source, size_t bytes, char* text, size_t text_bytes) {
    return stream_table().copy_to_host(device, nullptr, host, source, bytes, text, text_bytes);
}

int32_t copy_within(void* device, void* target, void const* source, size_t bytes, char* text, size_t text_bytes) {
    return stream_table().copy_within(device, nullptr, target, source, bytes, text, text_bytes);
}

void const* extension(char const* name) {
    if (!std::strcmp(name, RG_STREAMS_EXTENSION)) return &stream_table();
    if (!std::strcmp(name, RG_KERNELS_EXTENSION)) return &kernel_table();
    if (!std::strcmp(name, RG_DNN_EXTENSION)) return &dnn_table();
    if (!std::strcmp(name, RG_HOST_MEMORY_EXTENSION)) return &host_memory_table();
    if (!std::strcmp(name, RG_GRAPHS_EXTENSION)) return &graph_table();
    if (!std::strcmp(name, RG_EVENTS_EXTENSION)) return &event_table();
    if (!std::strcmp(name, RG_INTEROP_EXTENSION)) return &interop_table();
    if (!std::strcmp(name, RG_RANGES_EXTENSION)) return &range_table();
    return nullptr;
}

constexpr RefactorDevicePlugin kPlugin{RG_DEVICE_PLUGIN_ABI,
                                       sizeof(RefactorDevicePlugin),
                                       "nvidia",
                                       count,
                                       open,
                                       name,
                                       memory,
                                       allocate,
                                       deallocate,
                                       copy_from_host,
                                       copy_to_host,
                                       copy_within,
                                       extension};

}  // namespace

}  // namespace refactor::cuda_emulator

extern "C" __attribute__((visibility("default"))) RefactorDevicePlugin const* refactor_device_plugin_v1(
    uint32_t core_abi, char* text, size_t text_bytes) {
    if (core_abi == RG_DEVICE_PLUGIN_ABI) return &refactor::cuda_emulator::kPlugin;
    refactor::cuda_emulator::Complaint{text, text_bytes}(refactor::cuda_emulator::kFailure,
                                                         "the emulator speaks another interface");
    return nullptr;
}
