#pragma once
#include "cuda_emulator/grid.h"
#include "cuda_emulator/memory.h"
#include "kernel/device_dnn.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device_events.h"
#include "mem_manager/device_graphs.h"
#include "mem_manager/device_host_memory.h"
#include "mem_manager/device_interop.h"
#include "mem_manager/device_ranges.h"
#include "mem_manager/device_streams.h"

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace refactor::cuda_emulator {

struct Stream;

/// One emulated GPU.
struct Device {
    int32_t ordinal = 0, capability = 0;
    std::string name;
    Memory memory;
    std::mutex mutex;  ///< of what follows, and of `Stream::spoiled`
    std::set<Stream*> recording;

    Device(int32_t ordinal_, int32_t capability_, size_t bytes)
        : ordinal(ordinal_), capability(capability_), name("emulated GPU " + std::to_string(ordinal_)), memory(bytes) {}
};

/// Writes its complaint and returns 0 or a code, as the functions of the tables.
using Work = std::function<int32_t(char* text, size_t text_bytes)>;

/// Work is done when it is asked for, or kept if the stream records.
struct Stream {
    Device* device;
    std::unique_ptr<std::vector<Work>> recording = nullptr;
    bool spoiled = false;  ///< what is recorded: somebody has waited for the whole device meanwhile

    int32_t perform(char* text, size_t text_bytes, Work work);
};

inline Device& device_of(void* device) { return *static_cast<Device*>(device); }

/// Where the text of an error goes.
struct Complaint {
    char* text;
    size_t bytes;
    /// Returns `code`.
    int32_t operator()(int32_t code, std::string const& message) const;
};

/// What devices would report for an address that is not theirs, for work that cannot be recorded, for a recording that
/// such work has spoiled, and for everything else.
inline constexpr int32_t kIllegalAddress = 700, kNotRecordable = 900, kSpoiled = 901, kFailure = 999;

RefactorDeviceStreams const& stream_table();
RefactorDeviceKernels const& kernel_table();
/// Answers like a missing library unless the environment has REFACTOR_GRAPH_EMULATED_DNN.
RefactorDeviceDnn const& dnn_table();
RefactorHostMemory const& host_memory_table();
RefactorDeviceGraphs const& graph_table();
RefactorDeviceEvents const& event_table();
RefactorDeviceInterop const& interop_table();
RefactorDeviceRanges const& range_table();

std::vector<std::unique_ptr<Device>>& devices();

/// Copies between host memory and a device's, as the flags tell.
int32_t copy(Device& device, void* target, void const* source, size_t bytes, bool to_device, bool from_device,
             Complaint complain);

/// The parts of the table of kernels that matmul.cc implements.
int32_t matmul_create(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes);
void matmul_destroy(void* plan);
int32_t matmul_run(void* plan, void* stream, RefactorMatMulOperands const* operands, char* text, size_t text_bytes);
int32_t capability(void* device);

}  // namespace refactor::cuda_emulator
