#pragma once
#include "cuda_plugin/device.h"

#include <cstddef>

namespace refactor::cuda_plugin {

/// A stream with pinned memory through which pageable host memory is copied: the driver's own staging would make the
/// host wait for transfers in both directions.
struct StagedStream {
    /// 1 MiB: the transfer takes about 20 µs at 50 GB/s, well above the cost of starting it, and the part stays in L2.
    static constexpr size_t kPartBytes = size_t(1) << 20;
    struct Part {
        void* memory = nullptr;
        cudaEvent_t done = nullptr;  ///< the last transfer from or to this memory
    };
    Gpu* gpu = nullptr;
    cudaStream_t stream = nullptr;
    Part parts[2];

    ~StagedStream();
};

inline Gpu& gpu_of_stream(void* stream) { return *static_cast<StagedStream*>(stream)->gpu; }
inline cudaStream_t native(void* stream) { return static_cast<StagedStream*>(stream)->stream; }

}  // namespace refactor::cuda_plugin
