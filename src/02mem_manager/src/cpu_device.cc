#include "common/cpu_features.h"
#include "common/error.h"
#include "host_memory.h"
#include "mem_manager/device.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace refactor::mem_manager {

namespace {

constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 register
constexpr size_t kHugePage = size_t(2) << 20;

[[noreturn]] void refuse(size_t bytes) {
    auto info = host_memory();
    throw OutOfMemory("the CPU cannot provide " + std::to_string(bytes) + " bytes: " + std::to_string(info.free) +
                      " of " + std::to_string(info.total) + " are free");
}

/// Linux grants more than there is, and kills the process when it is written: what can never fit is refused.
bool can_fit(size_t bytes) {
    static auto const total = host_memory().total;
    return bytes <= total;
}

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
        if (rounded < bytes || !can_fit(rounded) || posix_memalign(&address, alignment, rounded) != 0) refuse(bytes);
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

void* map_pages(size_t bytes) {
    if (!can_fit(bytes)) refuse(bytes);
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), length = (bytes + page - 1) / page * page;
    auto around = bytes >= kHugePage ? kHugePage - page : 0;
    auto* mapped = mmap(nullptr, length + around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) refuse(bytes);
    if (!around) return mapped;
    // Huge pages begin at multiples of their size: the rest is given back at once.
    auto* first = static_cast<std::byte*>(mapped);
    auto before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
    if (before) munmap(first, before);
    if (before < around) munmap(first + before + length, around - before);
    madvise(first + before, length, MADV_HUGEPAGE);
    return first + before;
}

void unmap_pages(void* address, size_t bytes) noexcept { munmap(address, bytes); }

Device& cpu_device() {
    static auto* device = new CpuDevice;  // outlives everything that static destructors may still free
    return *device;
}

}  // namespace refactor::mem_manager
