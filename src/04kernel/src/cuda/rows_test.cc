// Kernels that combine many elements: on an emulated GPU against the host's reference, and through NVRTC.
#include "cuda/integer_cases.h"
#include "cuda/layer_cases.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "cuda/window_cases.h"
#include "mem_manager/device_plugin.h"

#include <cstdlib>

#include <dlfcn.h>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;

constexpr unsigned kSeed = 20261121;

/// The emulated GPU; throws if it cannot be loaded.
mem_manager::Device& emulated() {
    setenv("REFACTOR_GRAPH_PLUGIN_PATH", RG_CUDA_EMULATOR, 1);
    return mem_manager::find_device("nvidia", 0);
}

template <class Run>
void all_cases(std::mt19937& random, Run&& run) {
    reduce_cases(random, run), arg_reduce_cases(random, run), softmax_cases(random, run);
    normalize_cases(random, run), pool_cases(random, run), quantize_cases(random, run), convert_cases(random, run),
        recurrent_cases(random, run);
    integer_cases(random, run), linear_attention_cases(random, run), random_cases(random, run),
        matrix_cases(random, run), fourier_cases(random, run);
}

#define RG_EMULATED(NAME, CASES)             \
    TEST(CudaRows, NAME) {                   \
        std::mt19937 random(kSeed);          \
        CASES(random, OnDevice{emulated()}); \
    }
RG_EMULATED(Reduce, reduce_cases)
RG_EMULATED(FindPlaces, arg_reduce_cases)
RG_EMULATED(Softmax, softmax_cases)
RG_EMULATED(Normalize, normalize_cases)
RG_EMULATED(Pool, pool_cases)
RG_EMULATED(Quantize, quantize_cases)
RG_EMULATED(Convert, convert_cases)
RG_EMULATED(Recurrent, recurrent_cases)
RG_EMULATED(AttendLinearly, linear_attention_cases)
RG_EMULATED(Eliminate, matrix_cases)
RG_EMULATED(Transform, fourier_cases)
RG_EMULATED(Draw, random_cases)
RG_EMULATED(MultiplyBytes, integer_cases)

TEST(CudaPlugin, CompilesRows) {
    if (!*RG_CUDA_PLUGIN) GTEST_SKIP() << "the CUDA plugin is not part of this build: configure with RG_CUDA=ON";
    auto* library = dlopen(RG_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    auto entry = reinterpret_cast<RefactorDevicePluginEntry>(dlsym(library, RG_DEVICE_PLUGIN_ENTRY));
    char text[4096] = "";
    auto const* table = entry(RG_DEVICE_PLUGIN_ABI, text, sizeof text);
    ASSERT_TRUE(table) << text;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    SourceCollector collector;
    std::mt19937 random(kSeed);
    all_cases(random, collector);
    ASSERT_GT(collector.sources.size(), 100u);
    // All of them for one architecture, one in eight for the others.
    size_t number = 0;
    for (auto const& source : collector.sources) {
        for (auto const* architecture : {"sm_90a", "sm_80", "sm_100"}) {
            void* code = nullptr;
            size_t bytes = 0;
            ASSERT_EQ(kernels->compile(source.c_str(), architecture, &code, &bytes, text, sizeof text), 0)
                << architecture << ": " << text << source;
            kernels->release(code);
            if (number % 8) break;
        }
        ++number;
    }
}

}  // namespace

}  // namespace refactor::kernel::cuda
