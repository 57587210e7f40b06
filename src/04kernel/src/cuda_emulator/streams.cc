#include "cuda_emulator/device.h"

#include <cstring>

namespace refactor::cuda_emulator {

namespace {

int32_t create(void* device, void** stream, char*, size_t) {
    *stream = new Stream{&device_of(device)};
    return 0;
}

void destroy(void*, void* stream) { delete static_cast<Stream*>(stream); }

int32_t synchronize(void*, void*, char*, size_t) { return 0; }

/// Copies between host memory and a device's, as the tags of the addresses tell.
int32_t copy(void* device, void* target, void const* source, size_t bytes, bool to_device, bool from_device,
             Complaint complain) {
    auto& memory = device_of(device).memory;
    if (!bytes) return 0;
    auto* to = to_device ? memory.host(target, bytes) : target;
    auto const* from = from_device ? memory.host(source, bytes) : source;
    if (!to) return complain(kIllegalAddress, "the target of a copy is not within one block of the device");
    if (!from) return complain(kIllegalAddress, "the source of a copy is not within one block of the device");
    std::memmove(to, from, bytes);
    return 0;
}

int32_t copy_from_host(void* device, void*, void* target, void const* host, size_t bytes, char* text,
                       size_t text_bytes) {
    return copy(device, target, host, bytes, true, false, {text, text_bytes});
}

int32_t copy_to_host(void* device, void*, void* host, void const* source, size_t bytes, char* text, size_t text_bytes) {
    return copy(device, host, source, bytes, false, true, {text, text_bytes});
}

int32_t copy_within(void* device, void*, void* target, void const* source, size_t bytes, char* text,
                    size_t text_bytes) {
    return copy(device, target, source, bytes, true, true, {text, text_bytes});
}

}  // namespace

RefactorDeviceStreams const& stream_table() {
    static constexpr RefactorDeviceStreams kTable{
        sizeof(RefactorDeviceStreams), create, destroy, synchronize, copy_from_host, copy_to_host, copy_within};
    return kTable;
}

}  // namespace refactor::cuda_emulator
