#include "cuda_emulator/memory.h"

#include <cstring>

#include <sys/mman.h>

namespace refactor::cuda_emulator {

namespace {

constexpr size_t kPage = 4096, kAlignment = 256;
/// Bits 47 and 63 differ, so no such address can be the host's on x86-64.
constexpr uint64_t kTag = uint64_t{0xd00d} << 48;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* Memory::allocate(size_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes > limit_ - used_) return nullptr;
    auto room = round_up(bytes ? bytes : 1, kAlignment), pages = round_up(room, kPage);
    auto* base = mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    mprotect(static_cast<std::byte*>(base) + pages, kPage, PROT_NONE);
    auto* host = static_cast<std::byte*>(base) + (pages - room);
    std::memset(host, 0xcb, room);
    auto address = reinterpret_cast<uint64_t>(host) | kTag;
    blocks_[address] = {host, bytes, pages + kPage};
    used_ += bytes;
    return reinterpret_cast<void*>(address);
}

void Memory::deallocate(void* address) {
    std::lock_guard lock(mutex_);
    auto found = blocks_.find(reinterpret_cast<uint64_t>(address));
    if (found == blocks_.end()) return;
    auto const& block = found->second;
    auto* base = reinterpret_cast<void*>(reinterpret_cast<uint64_t>(block.host) / kPage * kPage);
    munmap(base, block.mapped);
    used_ -= block.bytes;
    blocks_.erase(found);
}

size_t Memory::used() {
    std::lock_guard lock(mutex_);
    return used_;
}

void* Memory::host(void const* address, size_t bytes) {
    auto wanted = reinterpret_cast<uint64_t>(address);
    if (wanted >> 48 != kTag >> 48) return nullptr;
    std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(wanted);
    if (after == blocks_.begin()) return nullptr;
    auto const& [begin, block] = *std::prev(after);
    auto offset = wanted - begin;
    return offset + bytes <= block.bytes ? block.host + offset : nullptr;
}

}  // namespace refactor::cuda_emulator
