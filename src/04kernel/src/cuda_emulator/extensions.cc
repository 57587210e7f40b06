#include "cuda_emulator/device.h"
#include "mem_manager/device_plugin.h"

#include <chrono>
#include <cstdlib>
#include <fstream>

namespace refactor::cuda_emulator {

namespace {

Stream& stream_of(void* stream) { return *static_cast<Stream*>(stream); }

// Host memory: the emulated device can read all of it.

int32_t host_allocate(void*, size_t bytes, void** address, char* text, size_t text_bytes) {
    *address = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *address ? 0 : Complaint{text, text_bytes}(RG_OUT_OF_MEMORY, "no memory of the host is left");
}

void host_deallocate(void*, void* address, size_t) { std::free(address); }

int32_t host_copy_from(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                       size_t text_bytes) {
    return stream_of(stream).perform(text, text_bytes, [=](char* t, size_t n) {
        return copy(device_of(device), target, host, bytes, true, false, {t, n});
    });
}

int32_t host_copy_to(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                     size_t text_bytes) {
    return stream_of(stream).perform(text, text_bytes, [=](char* t, size_t n) {
        return copy(device_of(device), host, source, bytes, false, true, {t, n});
    });
}

int32_t graph_begin(void*, void* stream, char* text, size_t text_bytes) {
    auto& s = stream_of(stream);
    if (s.recording) return Complaint{text, text_bytes}(kFailure, "the stream records already");
    s.recording = std::make_unique<std::vector<Work>>();
    std::lock_guard lock(s.device->mutex);
    s.device->recording.insert(&s), s.spoiled = false;
    return 0;
}

int32_t graph_end(void*, void* stream, void** graph, char* text, size_t text_bytes) {
    auto& s = stream_of(stream);
    if (!s.recording) return Complaint{text, text_bytes}(kFailure, "the stream does not record");
    auto work = std::move(s.recording);
    std::lock_guard lock(s.device->mutex);
    s.device->recording.erase(&s);
    if (s.spoiled) return Complaint{text, text_bytes}(kSpoiled, "the recording is spoiled");
    *graph = work.release();
    return 0;
}

int32_t graph_launch(void*, void*, void* graph, char* text, size_t text_bytes) {
    for (auto const& work : *static_cast<std::vector<Work>*>(graph))
        if (auto code = work(text, text_bytes)) return code;
    return 0;
}

void graph_destroy(void*, void* graph) { delete static_cast<std::vector<Work>*>(graph); }

using Clock = std::chrono::steady_clock;

int32_t event_create(void*, void** event, char*, size_t) {
    *event = new Clock::time_point;
    return 0;
}

void event_destroy(void*, void* event) { delete static_cast<Clock::time_point*>(event); }

int32_t event_record(void*, void*, void* event, char*, size_t) {
    *static_cast<Clock::time_point*>(event) = Clock::now();
    return 0;
}

int32_t event_elapsed(void*, void* first, void* last, double* nanoseconds, char*, size_t) {
    auto time = *static_cast<Clock::time_point*>(last) - *static_cast<Clock::time_point*>(first);
    *nanoseconds = std::chrono::duration<double, std::nano>(time).count();
    return 0;
}

// Interop: all work is done at once, so every order holds; streams of others need to be known to nobody. As with CUDA,
// who waits for the whole device fails while work is recorded, and spoils it.

uint64_t number_of(void* stream) { return reinterpret_cast<uint64_t>(stream); }

int32_t order(void*, void*, uint64_t, char*, size_t) { return 0; }

int32_t synchronize_device(void* device, char* text, size_t text_bytes) {
    auto& d = device_of(device);
    std::lock_guard lock(d.mutex);
    for (auto* stream : d.recording) stream->spoiled = true;
    if (d.recording.empty()) return 0;
    return Complaint{text, text_bytes}(kNotRecordable, "operation not permitted while a stream of the device records");
}

int32_t owner_of(void const* address, int32_t* ordinal, char*, size_t) {
    *ordinal = -1;
    for (auto const& device : devices())
        if (device->memory.host(address)) *ordinal = device->ordinal;
    return 0;
}

int32_t copy_from_peer(void* device, void* stream, void* target, void* source_device, void const* source, size_t bytes,
                       char* text, size_t text_bytes) {
    return stream_of(stream).perform(text, text_bytes, [=](char* t, size_t n) {
        auto const* from = device_of(source_device).memory.host(source, bytes);
        if (!from) return Complaint{t, n}(kIllegalAddress, "the source of a copy is not of the other device");
        return copy(device_of(device), target, from, bytes, true, false, {t, n});
    });
}

/// The file that takes the place of a profiler.
char const* range_file() { return std::getenv("REFACTOR_GRAPH_EMULATED_RANGES"); }

int32_t ranges_enabled() { return range_file() != nullptr; }

void range_push(char const* name) { std::ofstream(range_file(), std::ios::app) << name << '\n'; }

void range_pop() {}

}  // namespace

RefactorHostMemory const& host_memory_table() {
    static constexpr RefactorHostMemory kTable{sizeof(RefactorHostMemory), host_allocate, host_deallocate,
                                               host_copy_from, host_copy_to};
    return kTable;
}

RefactorDeviceGraphs const& graph_table() {
    static constexpr RefactorDeviceGraphs kTable{sizeof(RefactorDeviceGraphs), graph_begin, graph_end, graph_launch,
                                                 graph_destroy};
    return kTable;
}

RefactorDeviceEvents const& event_table() {
    static constexpr RefactorDeviceEvents kTable{sizeof(RefactorDeviceEvents), event_create, event_destroy,
                                                 event_record, event_elapsed};
    return kTable;
}

RefactorDeviceInterop const& interop_table() {
    static constexpr RefactorDeviceInterop kTable{
        sizeof(RefactorDeviceInterop), number_of, order, order, synchronize_device, owner_of, copy_from_peer};
    return kTable;
}

RefactorDeviceRanges const& range_table() {
    static constexpr RefactorDeviceRanges kTable{sizeof(RefactorDeviceRanges), ranges_enabled, range_push, range_pop};
    return kTable;
}

}  // namespace refactor::cuda_emulator
