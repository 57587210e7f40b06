#include "common/cpu_features.h"
#include "common/error.h"
#include "host_memory.h"
#include "mem_manager/device.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace refactor::mem_manager {

namespace {

constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 register
constexpr size_t kHugePage = size_t(2) << 20;

class CpuDevice final : public Device {
public:
    std::string_view kind() const override { return "cpu"; }
    int ordinal() const override { return 0; }
    std::string name() const override { return "cpu:0 (" + cpu_features().brand + ')'; }
    MemoryInfo memory() const override { return host_memory(); }

    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        auto alignment = bytes >= kHugePage ? kHugePage : kAlignment;
        auto rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
        void* address = nullptr;
        // Linux grants more than there is, and kills the process when it is written: what can never fit is refused
        // here.
        static auto const total = host_memory().total;
        if (rounded < bytes || rounded > total || posix_memalign(&address, alignment, rounded) != 0) {
            auto info = memory();
            throw OutOfMemory("the CPU cannot provide " + std::to_string(bytes) + " bytes: " +
                              std::to_string(info.free) + " of " + std::to_string(info.total) + " are free");
        }
        if (bytes >= kHugePage) madvise(address, rounded, MADV_HUGEPAGE);
        return address;
    }
    void deallocate(void* address, size_t) noexcept override { std::free(address); }

    void copy_from_host(void* target, void const* host, size_t bytes) override { copy_within(target, host, bytes); }
    void copy_to_host(void* host, void const* source, size_t bytes) override { copy_within(host, source, bytes); }
    void copy_within(void* target, void const* source, size_t bytes) override {
        if (bytes) std::memmove(target, source, bytes);
    }
};

}  // namespace

Device& cpu_device() {
    static auto* device = new CpuDevice;  // outlives everything that static destructors may still free
    return *device;
}

}  // namespace refactor::mem_manager
