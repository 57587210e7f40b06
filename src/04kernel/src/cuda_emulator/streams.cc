#include "cuda_emulator/device.h"

#include <cstring>

namespace refactor::cuda_emulator {

int32_t Stream::perform(char* text, size_t text_bytes, Work work) {
    if (!recording) return work(text, text_bytes);
    std::lock_guard lock(device->mutex);
    if (spoiled) return Complaint{text, text_bytes}(kSpoiled, "the recording is spoiled");
    recording->push_back(std::move(work));
    return 0;
}

int32_t copy(Device& device, void* target, void const* source, size_t bytes, bool to_device, bool from_device,
             Complaint complain) {
    auto& memory = device.memory;
    if (!bytes) return 0;
    auto* to = to_device ? memory.host(target, bytes) : target;
    auto const* from = from_device ? memory.host(source, bytes) : source;
    if (!to) return complain(kIllegalAddress, "the target of a copy is not within one block of the device");
    if (!from) return complain(kIllegalAddress, "the source of a copy is not within one block of the device");
    std::memmove(to, from, bytes);
    return 0;
}

namespace {

int32_t create(void* device, void** stream, char*, size_t) {
    *stream = new Stream{&device_of(device)};
    return 0;
}

void destroy(void*, void* stream) {
    std::unique_ptr<Stream> own(static_cast<Stream*>(stream));
    std::lock_guard lock(own->device->mutex);
    own->device->recording.erase(own.get());
}

/// What makes the host wait cannot be recorded; `stream` is null for the functions of the device itself.
int32_t check_waiting(void* stream, Complaint complain) {
    if (!stream || !static_cast<Stream*>(stream)->recording) return 0;
    return complain(kNotRecordable, "operation not permitted while the stream records");
}

int32_t synchronize(void*, void* stream, char* text, size_t text_bytes) {
    return check_waiting(stream, {text, text_bytes});
}

int32_t copy_from_host(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                       size_t text_bytes) {
    if (auto code = check_waiting(stream, {text, text_bytes})) return code;
    return copy(device_of(device), target, host, bytes, true, false, {text, text_bytes});
}

int32_t copy_to_host(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                     size_t text_bytes) {
    if (auto code = check_waiting(stream, {text, text_bytes})) return code;
    return copy(device_of(device), host, source, bytes, false, true, {text, text_bytes});
}

int32_t copy_within(void* device, void* stream, void* target, void const* source, size_t bytes, char* text,
                    size_t text_bytes) {
    auto& owner = stream ? *static_cast<Stream*>(stream)->device : device_of(device);
    auto work = [=, &owner](char* t, size_t n) { return copy(owner, target, source, bytes, true, true, {t, n}); };
    return stream ? static_cast<Stream*>(stream)->perform(text, text_bytes, work) : work(text, text_bytes);
}

}  // namespace

RefactorDeviceStreams const& stream_table() {
    static constexpr RefactorDeviceStreams kTable{
        sizeof(RefactorDeviceStreams), create, destroy, synchronize, copy_from_host, copy_to_host, copy_within};
    return kTable;
}

}  // namespace refactor::cuda_emulator
