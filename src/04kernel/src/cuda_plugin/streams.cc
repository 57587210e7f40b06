#include "cuda_plugin/streams.h"

#include "cuda_plugin/device.h"
#include "cuda_plugin/tables.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace refactor::cuda_plugin {

StagedStream::~StagedStream() {
    for (auto& part : parts) {
        if (part.done) cudaEventDestroy(part.done);
        if (part.memory) cudaFreeHost(part.memory);
    }
    if (stream) cudaStreamDestroy(stream);
}

namespace {

StagedStream& staged(void* stream) { return *static_cast<StagedStream*>(stream); }

int32_t create(void* device, void** stream, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    auto fresh = std::make_unique<StagedStream>();
    fresh->gpu = static_cast<Gpu*>(device);
    RG_CUDA_CALL(cudaStreamCreateWithFlags(&fresh->stream, cudaStreamNonBlocking));
    for (auto& part : fresh->parts) {
        RG_CUDA_CALL(cudaMallocHost(&part.memory, StagedStream::kPartBytes));
        RG_CUDA_CALL(cudaEventCreateWithFlags(&part.done, cudaEventDisableTiming));
    }
    *stream = fresh.release();
    return 0;
}

void destroy(void* device, void* stream) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    cudaStreamSynchronize(native(stream));
    delete static_cast<StagedStream*>(stream);
}

int32_t synchronize(void* device, void* stream, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaStreamSynchronize(native(stream)));
    return 0;
}

int32_t copy_from_host(void* device, void* stream, void* target, void const* host, size_t bytes, char* text,
                       size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    auto& s = staged(stream);
    for (size_t begin = 0, i = 0; begin < bytes; begin += StagedStream::kPartBytes, ++i) {
        auto& part = s.parts[i % 2];
        auto size = std::min(bytes - begin, StagedStream::kPartBytes);
        RG_CUDA_CALL(cudaEventSynchronize(part.done));
        std::memcpy(part.memory, static_cast<char const*>(host) + begin, size);
        RG_CUDA_CALL(
            cudaMemcpyAsync(static_cast<char*>(target) + begin, part.memory, size, cudaMemcpyHostToDevice, s.stream));
        RG_CUDA_CALL(cudaEventRecord(part.done, s.stream));
    }
    return 0;
}

/// While one part is copied out of the pinned memory, the next is on its way.
int32_t copy_to_host(void* device, void* stream, void* host, void const* source, size_t bytes, char* text,
                     size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    auto& s = staged(stream);
    auto count = (bytes + StagedStream::kPartBytes - 1) / StagedStream::kPartBytes;
    auto size_of = [&](size_t i) { return std::min(bytes - i * StagedStream::kPartBytes, StagedStream::kPartBytes); };
    for (size_t i = 0; i <= count; ++i) {
        if (i < count) {
            auto& part = s.parts[i % 2];
            RG_CUDA_CALL(cudaMemcpyAsync(part.memory, static_cast<char const*>(source) + i * StagedStream::kPartBytes,
                                         size_of(i), cudaMemcpyDeviceToHost, s.stream));
            RG_CUDA_CALL(cudaEventRecord(part.done, s.stream));
        }
        if (i > 0) {
            auto& part = s.parts[(i - 1) % 2];
            RG_CUDA_CALL(cudaEventSynchronize(part.done));
            std::memcpy(static_cast<char*>(host) + (i - 1) * StagedStream::kPartBytes, part.memory, size_of(i - 1));
        }
    }
    return 0;
}

int32_t copy_within(void* device, void* stream, void* target, void const* source, size_t bytes, char* text,
                    size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, native(stream)));
    return 0;
}

}  // namespace

RefactorDeviceStreams const& stream_table() {
    static constexpr RefactorDeviceStreams kTable{
        sizeof(RefactorDeviceStreams), create, destroy, synchronize, copy_from_host, copy_to_host, copy_within};
    return kTable;
}

}  // namespace refactor::cuda_plugin
