// Kernels that move, index and resample: on an emulated GPU against the host's reference, and through NVRTC.
#include "cuda/plugin_compiler.h"
#include "cuda/sampling_cases.h"
#include "cuda/source_collector.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;

constexpr unsigned kSeed = 20261121;

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
    SourceCollector collector;
    std::mt19937 random(kSeed);
    all_movement_cases(random, collector), all_sampling_cases(random, collector);
    lookup_cases(random, collector), table_cases(random, collector);
    ASSERT_GT(collector.sources.size(), 200u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
