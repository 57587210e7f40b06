#include "mem_manager/device.h"

#include "common/error.h"
#include "plugin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace refactor::mem_manager {

namespace {

/// The text of the `DeviceError` that `call` throws.
template <class Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (DeviceError const& error) {
        return error.what();
    }
    return "no DeviceError";
}

void expect_parts(std::string const& text, std::initializer_list<char const*> parts) {
    for (auto const* part : parts) EXPECT_NE(text.find(part), std::string::npos) << '"' << part << "\" in: " << text;
}

/// A plugin inside the test: two devices of host memory, with faults on demand.
struct Fake {
    static inline int32_t driver = 0, devices = 2, copy = 0;
    static int32_t fail(int32_t code, char const* reason, char* text, size_t bytes) {
        if (code) std::snprintf(text, bytes, "%s", reason);
        return code;
    }
    static int32_t count(int32_t* n, char* text, size_t bytes) {
        *n = devices;
        return fail(driver, "no driver", text, bytes);
    }
    static int32_t open(int32_t ordinal, void** device, char*, size_t) {
        static int handles[2];
        *device = &handles[ordinal];
        return 0;
    }
    static char const* name(void*) { return "Fake 9000"; }
    static int32_t memory(void*, size_t* free, size_t* total, char*, size_t) {
        *free = 1, *total = 2;
        return 0;
    }
    static int32_t allocate(void*, size_t bytes, void** address, char* text, size_t text_bytes) {
        if (bytes > 1000) return fail(RG_OUT_OF_MEMORY, "1000 are free", text, text_bytes);
        *address = std::malloc(bytes);
        return 0;
    }
    static void deallocate(void*, void* address, size_t) { std::free(address); }
    static int32_t to(void*, void* a, void const* b, size_t bytes, char* text, size_t text_bytes) {
        std::memcpy(a, b, bytes);
        return fail(copy, "illegal address", text, text_bytes);
    }
    static void const* extension(char const* wanted) { return std::strcmp(wanted, "fake.v1") ? nullptr : &devices; }
};

constexpr RefactorDevicePlugin kFake{RG_DEVICE_PLUGIN_ABI,
                                     sizeof(RefactorDevicePlugin),
                                     "fake",
                                     Fake::count,
                                     Fake::open,
                                     Fake::name,
                                     Fake::memory,
                                     Fake::allocate,
                                     Fake::deallocate,
                                     Fake::to,
                                     Fake::to,
                                     Fake::to,
                                     Fake::extension};

TEST(Device, Cpu) {
    auto& cpu = cpu_device();
    EXPECT_EQ(&find_device("cpu", 0), &cpu);
    EXPECT_EQ(cpu.kind(), "cpu");
    EXPECT_EQ(cpu.name().substr(0, 5), "cpu:0");
    auto memory = cpu.memory();
    EXPECT_GT(memory.free, 0u);
    EXPECT_LE(memory.free, memory.total);
    auto* address = cpu.allocate(100);
    char text[8] = "copied", back[8] = "";
    cpu.copy_from_host(address, text, sizeof text);
    cpu.copy_within(static_cast<char*>(address) + 50, address, sizeof text);
    cpu.copy_to_host(back, static_cast<char*>(address) + 50, sizeof back);
    EXPECT_STREQ(back, "copied");
    cpu.deallocate(address, 100);
    EXPECT_EQ(cpu.allocate(0), nullptr);
    EXPECT_EQ(cpu.extension("cuda.v1"), nullptr);
    try {
        (void)cpu.allocate(SIZE_MAX / 2);
        FAIL();
    } catch (OutOfMemory const& error) {
        expect_parts(error.what(), {std::to_string(SIZE_MAX / 2).c_str(), "are free"});
    }
}

TEST(Device, UnknownDevicesAreNamed) {
    expect_parts(error_of([] { find_device("cpu", 3); }), {"cpu:3"});
    expect_parts(error_of([] { find_device("tpu", 0); }), {"tpu", "cpu", "nvidia"});
}

TEST(Device, AMissingPluginSaysWhereItWasLookedFor) {
    expect_parts(error_of([] { (void)load_plugin("nvidia", "librefactor_none.so", {"/tmp", "/nowhere"}); }),
                 {"nvidia", "/tmp/librefactor_none.so", "/nowhere", "REFACTOR_GRAPH_PLUGIN_PATH"});
}

TEST(Device, ALibraryThatIsNoPluginIsRefused) {
    auto path = testing::TempDir() + "not_a_library.so";
    if (auto* file = std::fopen(path.c_str(), "w")) std::fclose(file);
    expect_parts(error_of([&] { (void)load_plugin("nvidia", "unused", {path}); }), {path.c_str(), "cannot be loaded"});
    std::remove(path.c_str());
}

TEST(Device, FoldersComeFromTheEnvironmentFirst) {
    auto const* before = std::getenv("REFACTOR_GRAPH_PLUGIN_PATH");
    std::string kept = before ? before : "";
    setenv("REFACTOR_GRAPH_PLUGIN_PATH", "/a::/b", 1);
    auto folders = plugin_folders();
    if (before)
        setenv("REFACTOR_GRAPH_PLUGIN_PATH", kept.c_str(), 1);
    else
        unsetenv("REFACTOR_GRAPH_PLUGIN_PATH");
    ASSERT_EQ(folders.size(), 3u);
    EXPECT_EQ(folders[0], "/a");
    EXPECT_EQ(folders[1], "/b");
}

TEST(Device, PluginDevicesWorkThroughTheTable) {
    auto device = open_plugin_device(kFake, 1);
    EXPECT_EQ(device->name(), "fake:1 (Fake 9000)");
    EXPECT_EQ(device->ordinal(), 1);
    EXPECT_EQ(device->memory().total, 2u);
    EXPECT_NE(device->handle(), nullptr);
    EXPECT_EQ(device->extension("fake.v1"), &Fake::devices);
    EXPECT_EQ(device->extension("fake.v2"), nullptr);
    auto* address = device->allocate(8);
    device->copy_from_host(address, "1234567", 8);
    char back[8];
    device->copy_to_host(back, address, 8);
    EXPECT_STREQ(back, "1234567");
    Fake::copy = 700;
    expect_parts(error_of([&] { device->copy_within(address, address, 8); }),
                 {"copy_within", "700", "illegal address"});
    Fake::copy = 0;
    device->deallocate(address, 8);
    try {
        (void)device->allocate(2000);
        FAIL();
    } catch (OutOfMemory const& error) {
        expect_parts(error.what(), {"2000", "1000 are free"});
    }
}

TEST(Device, AMissingDriverAndAMissingDeviceDiffer) {
    expect_parts(error_of([] { (void)open_plugin_device(kFake, 2); }), {"fake:2", "this machine has 2"});
    Fake::driver = 35;
    expect_parts(error_of([] { (void)open_plugin_device(kFake, 0); }), {"fake:0", "35", "no driver"});
    Fake::driver = 0;
}

}  // namespace

}  // namespace refactor::mem_manager
