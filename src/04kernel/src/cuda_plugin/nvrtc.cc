#include "cuda_plugin/code_cache.h"
#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"
#include "mem_manager/device_plugin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <nvrtc.h>

namespace refactor::cuda_plugin {

void load_builtins() {
    static bool const once = [] {
        Dl_info self;
        if (!dladdr(reinterpret_cast<void*>(&nvrtcVersion), &self) || !self.dli_fname) return true;
        int major = 0, minor = 0;
        nvrtcVersion(&major, &minor);
        std::string folder = self.dli_fname;
        folder.resize(folder.rfind('/') + 1);
        auto name = "libnvrtc-builtins.so." + std::to_string(major) + '.' + std::to_string(minor);
        if (!dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
        return true;
    }();
    (void)once;
}

namespace {

struct Program {
    nvrtcProgram native = nullptr;
    ~Program() {
        if (native) nvrtcDestroyProgram(&native);
    }
};

int32_t fail(nvrtcResult result, char const* call, nvrtcProgram program, Complaint complaint) {
    std::string log;
    size_t bytes = 0;
    if (program && nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
        log.resize(bytes);
        nvrtcGetProgramLog(program, log.data());
    }
    complaint.write("%s: %s\n%s", call, nvrtcGetErrorString(result), log.c_str());
    return static_cast<int32_t>(result);
}

/// `architecture` "sm_90" gives machine code, "compute_90" PTX.
int32_t build(char const* source, std::string const& architecture, std::string& code, Complaint complaint) {
    load_builtins();
    Program program;
    auto result = nvrtcCreateProgram(&program.native, source, "refactor_graph.cu", 0, nullptr, nullptr);
    if (result != NVRTC_SUCCESS) return fail(result, "nvrtcCreateProgram", nullptr, complaint);
    auto target = "--gpu-architecture=" + architecture;
    // Contracted multiply-adds would differ from what the CPU computes; these kernels are bound by memory.
    char const* options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
    result = nvrtcCompileProgram(program.native, std::size(options), options);
    if (result != NVRTC_SUCCESS) return fail(result, "nvrtcCompileProgram", program.native, complaint);
    bool machine = architecture.starts_with("sm_");
    size_t bytes = 0;
    result = machine ? nvrtcGetCUBINSize(program.native, &bytes) : nvrtcGetPTXSize(program.native, &bytes);
    if (result != NVRTC_SUCCESS) return fail(result, "nvrtcGetCUBINSize", program.native, complaint);
    code.resize(bytes);
    result = machine ? nvrtcGetCUBIN(program.native, code.data()) : nvrtcGetPTX(program.native, code.data());
    return result == NVRTC_SUCCESS ? 0 : fail(result, "nvrtcGetCUBIN", program.native, complaint);
}

/// What to compile for on this device: its machine code if NVRTC knows the architecture, else PTX of the newest that it
/// knows, which the driver translates.
std::string target_of(Gpu const& gpu) {
    int count = 0;
    std::vector<int> known;
    if (nvrtcGetNumSupportedArchs(&count) == NVRTC_SUCCESS && count > 0) {
        known.resize(static_cast<size_t>(count));
        nvrtcGetSupportedArchs(known.data());
    }
    auto own = std::atoi(gpu.architecture.c_str() + 3);
    if (known.empty() || std::find(known.begin(), known.end(), own) != known.end()) return gpu.architecture;
    int best = 0;
    for (auto arch : known)
        if (arch <= own) best = std::max(best, arch);
    return "compute_" + std::to_string(best);
}

int32_t compile(char const* source, char const* architecture, void** code, size_t* code_bytes, char* text,
                size_t text_bytes) {
    std::string built;
    if (auto status = build(source, architecture, built, {text, text_bytes})) return status;
    *code = std::malloc(built.size());
    if (!*code) return RG_OUT_OF_MEMORY;
    std::memcpy(*code, built.data(), built.size());
    *code_bytes = built.size();
    return 0;
}

void release(void* code) { std::free(code); }

/// Of devices that can launch a kernel before the one ahead of it has ended.
constexpr int kWaitingCapability = 90;

bool may_overlap() {
    static bool const may = [] {
        auto const* value = std::getenv("REFACTOR_GRAPH_CUDA_OVERLAP");
        return !value || std::string_view(value) != "0";
    }();
    return may;
}

/// Whether a kernel says `RG_WAIT();` before it touches what others write.
bool waits_at_once(std::string_view source, std::string_view name) {
    constexpr std::string_view kBegin = "RG_GLOBAL ";
    auto const call = std::string(name) + '(';
    for (auto at = source.find(kBegin); at != source.npos;) {
        auto next = source.find(kBegin, at + 1);
        auto kernel = source.substr(at, next == source.npos ? next : next - at);
        auto head = kernel.substr(0, kernel.find('{'));
        if (head.find(call) != head.npos) return kernel.find("RG_WAIT();") != kernel.npos;
        at = next;
    }
    return false;
}

int32_t load(void* device, char const* source, char const* name, void** function, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    auto& gpu = *static_cast<Gpu*>(device);
    auto key = std::string(name) + '\n' + source;
    auto find = [&] {
        std::lock_guard lock(gpu.mutex);
        auto found = gpu.functions.find(key);
        *function = found == gpu.functions.end() ? nullptr : &found->second;
        return *function != nullptr;
    };
    if (find()) return 0;
    Turns::Turn turn(gpu.compiling, key);
    if (find()) return 0;
    auto target = target_of(gpu);
    int major = 0, minor = 0;
    nvrtcVersion(&major, &minor);
    CodeCache cache("nvrtc" + std::to_string(major) + '.' + std::to_string(minor) + '-' + target, source);
    auto code = cache.find();
    if (code.empty()) {
        if (auto status = build(source, target, code, complaint)) return status;
        cache.store(code);
    }
    CurrentGpu current(gpu);
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr;
    RG_CUDA_CALL(cudaLibraryLoadData(&library, code.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    RG_CUDA_CALL(cudaLibraryGetKernel(&kernel, library, name));
    bool waits = gpu.capability >= kWaitingCapability && may_overlap() && waits_at_once(source, name);
    std::lock_guard lock(gpu.mutex);
    auto& loaded = gpu.functions[key] = {kernel, waits};
    *function = &loaded;
    return 0;
}

int32_t launch(void*, void* stream, void* function, uint32_t blocks, uint32_t threads, void const* argument, char* text,
               size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    // Functions belong to no device: the stream's counts.
    CurrentGpu current(gpu_of_stream(stream));
    void* arguments[] = {const_cast<void*>(argument)};
    auto const& [kernel, waits] = *static_cast<Function const*>(function);
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.stream = native(stream);
    config.attrs = &early, config.numAttrs = waits;
    RG_CUDA_CALL(cudaLaunchKernelExC(&config, kernel, arguments));
    return 0;
}

}  // namespace

RefactorDeviceKernels const& kernel_table() {
    static constexpr RefactorDeviceKernels kTable{sizeof(RefactorDeviceKernels),
                                                  compile,
                                                  release,
                                                  load,
                                                  launch,
                                                  matmul_create,
                                                  matmul_destroy,
                                                  matmul_run,
                                                  capability};
    return kTable;
}

}  // namespace refactor::cuda_plugin
