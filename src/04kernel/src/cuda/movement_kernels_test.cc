// Kernels that move, index and resample: on an emulated GPU against the host's reference, and through NVRTC.
#include "cuda/sampling_cases.h"
#include "cuda/source_collector.h"
#include "mem_manager/device_plugin.h"

#include <cstdlib>

#include <dlfcn.h>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;

constexpr unsigned kSeed = 20261121;

/// The emulated GPU; throws if it cannot be loaded.
mem_manager::Device& emulated() {
    setenv("REFACTOR_GRAPH_PLUGIN_PATH", RG_CUDA_EMULATOR, 1);
    return mem_manager::find_device("nvidia", 0);
}

#define RG_EMULATED(NAME, CASES)             \
    TEST(CudaMovement, NAME) {               \
        std::mt19937 random(kSeed);          \
        CASES(random, OnDevice{emulated()}); \
    }
RG_EMULATED(CopiesByStrides, strided_cases)
RG_EMULATED(JoinsAndCutsPieces, piece_cases)
RG_EMULATED(Pads, pad_cases)
RG_EMULATED(Gathers, gather_cases)
RG_EMULATED(Scatters, scatter_cases)
RG_EMULATED(ScattersSeveralToOnePlace, collision_cases)
RG_EMULATED(WritesSlots, slot_cases)
RG_EMULATED(WritesPatterns, pattern_cases)
RG_EMULATED(Scans, scan_cases)
RG_EMULATED(SelectsTheGreatest, top_k_cases)
RG_EMULATED(Resizes, resize_cases)
RG_EMULATED(SamplesGrids, grid_cases)
RG_EMULATED(PoolsRegions, region_cases)
RG_EMULATED(MakesAndAddsColumns, column_cases)
RG_EMULATED(LooksUp, lookup_cases)
RG_EMULATED(WalksTreesAndVotes, table_cases)

TEST(CudaMovement, RefusesWhatTheHostRefuses) {
    auto& device = emulated();
    Operand x, y;
    x.dtype = y.dtype = DataType::F32, x.dims = y.dims = {2, 3};
    Request request{{&x, 1}, {&y, 1}, "nvidia", Isa::Scalar, 1, Precision::Default, &device};
    auto found = candidates(TransposeInfo{{0, 0}}, request);
    ASSERT_TRUE(found.kernels.empty());
    EXPECT_EQ(found.rejections[0].reason, "transpose:nvidia:nvrtc: perm (0, 0) is not a permutation");
    x.layout = Layout::Blocked8;
    EXPECT_TRUE(candidates(TransposeInfo{{1, 0}}, request).kernels.empty());
    x.layout = Layout::Plain, x.dtype = y.dtype = DataType::String;
    EXPECT_TRUE(candidates(TransposeInfo{{1, 0}}, request).kernels.empty());
}

TEST(CudaPlugin, CompilesMovement) {
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
    all_movement_cases(random, collector), all_sampling_cases(random, collector);
    lookup_cases(random, collector), table_cases(random, collector);
    ASSERT_GT(collector.sources.size(), 200u);
    // All families on one architecture, one in eight on the others.
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
