// Kernels that move, index and resample: on an emulated GPU against the host's reference, and through NVRTC.
#include "common/half.h"
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

/// Every combination of up to two types that a whole is written in.
template <class Run>
void converting_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    for (int64_t width : {4, 6, 3})
        for (auto first : {F32, F16, BF16})
            for (auto second : {Undefined, F32, F16, BF16}) {
                std::vector<Tensor> pieces, wholes{Tensor(first, {3, 3 * width})};
                for (auto type : {F32, F16, BF16}) pieces.push_back(numbers(type, {3, width}, random));
                if (second != Undefined) wholes.emplace_back(second, Dims{3, 3 * width});
                run(ConcatInfo{1}, pieces, wholes);
            }
}

TEST(CudaMovement, JoinsPiecesOfSeveralTypes) {
    std::mt19937 random(kSeed);
    converting_cases(random, [](ConcatInfo const& info, std::vector<Tensor>& pieces, std::vector<Tensor> const& like) {
        auto wholes = run_on_device(info, pieces, like, {}, emulated(), false);
        ASSERT_EQ(wholes.size(), like.size());
        for (auto& whole : wholes) {
            auto count = pieces[0].count(), width = pieces[0].dims[1];
            auto size = static_cast<size_t>(movement::element_bytes(whole.dtype));
            for (size_t piece = 0; piece < pieces.size(); ++piece) {
                std::vector<std::byte> wanted(static_cast<size_t>(count) * size);
                ASSERT_TRUE(convert(pieces[piece].dtype, pieces[piece].data(), whole.dtype, wanted.data(), count));
                for (int64_t i = 0; i < count; ++i) {
                    auto at = i / width * 3 * width + static_cast<int64_t>(piece) * width + i % width;
                    auto const* written = static_cast<std::byte const*>(whole.data()) + static_cast<size_t>(at) * size;
                    ASSERT_EQ(std::memcmp(written, wanted.data() + static_cast<size_t>(i) * size, size), 0)
                        << name_of(whole.dtype) << ", piece " << piece << ", element " << i;
                }
            }
        }
    });
}

/// Rows that are moved, of lengths for every width of words, from each type into one or two.
template <class Run>
void moving_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    for (int64_t depth : {8, 6, 5})
        for (auto from : {F32, F16, BF16})
            for (auto first : {F32, F16, BF16})
                for (auto second : {Undefined, F32, F16, BF16}) {
                    if (from == first && second == Undefined) continue;
                    std::vector<Tensor> x{numbers(from, {2, 7, 3, depth}, random)}, y{Tensor(first, {2, 3, 7, depth})};
                    if (second != Undefined) y.emplace_back(second, Dims{2, 3, 7, depth});
                    run(TransposeInfo{{0, 2, 1, 3}}, x, y);
                }
}

TEST(CudaMovement, TransposesIntoOtherTypes) {
    std::mt19937 random(kSeed);
    moving_cases(random, [](TransposeInfo const& info, std::vector<Tensor>& x, std::vector<Tensor> const& like) {
        auto results = run_on_device(info, x, like, {}, emulated(), false);
        ASSERT_EQ(results.size(), like.size());
        for (auto& y : results) {
            auto size = static_cast<size_t>(movement::element_bytes(y.dtype)), depth = static_cast<size_t>(y.dims[3]);
            std::vector<std::byte> wanted(static_cast<size_t>(y.count()) * size);
            ASSERT_TRUE(convert(x[0].dtype, x[0].data(), y.dtype, wanted.data(), y.count()));
            for (size_t row = 0; row < 42; ++row) {
                auto batch = row / 21, head = row / 7 % 3, position = row % 7;
                auto from = (batch * 7 + position) * 3 + head;
                ASSERT_EQ(std::memcmp(static_cast<std::byte const*>(y.data()) + row * depth * size,
                                      wanted.data() + from * depth * size, depth * size),
                          0)
                    << name_of(x[0].dtype) << " as " << name_of(y.dtype) << ", depth " << depth << ", row " << row;
            }
        }
    });
}

TEST(CudaMovement, RefusesTransposesThatItCannotConvert) {
    auto reason = [](Dims perm, DataType to) {
        Operand x, y;
        x.dtype = DataType::F16, y.dtype = to, x.dims = {2, 3, 4}, y.dims = {2, 3, 4};
        for (size_t i = 0; i < 3; ++i) y.dims[i] = x.dims[static_cast<size_t>(perm[i])];
        Request request{{&x, 1}, {&y, 1}, "nvidia", Isa::Scalar, 1, Precision::Default, &emulated()};
        auto found = candidates(TransposeInfo{perm}, request);
        return found.kernels.empty() ? found.rejections[0].reason : found.kernels[0]->id();
    };
    EXPECT_EQ(reason({1, 0, 2}, DataType::F32), "transpose:nvidia:converting:f32");
    EXPECT_EQ(reason({1, 2, 0}, DataType::F32),
              "transpose:nvidia:nvrtc: perm (1, 2, 0) moves the last axis of what is converted");
    EXPECT_EQ(reason({1, 0, 2}, DataType::I32),
              "transpose:nvidia:nvrtc: an operand of i32 among others, expected f32, f16 or bf16");
}

TEST(CudaMovement, RefusesPiecesThatItCannotConvert) {
    Operand x[2], y;
    x[0].dtype = y.dtype = DataType::F32, x[1].dtype = DataType::I32;
    x[0].dims = x[1].dims = {2, 3}, y.dims = {2, 6};
    Request request{{x, 2}, {&y, 1}, "nvidia", Isa::Scalar, 1, Precision::Default, &emulated()};
    auto found = candidates(ConcatInfo{1}, request);
    ASSERT_TRUE(found.kernels.empty());
    EXPECT_EQ(found.rejections[0].reason,
              "concat:nvidia:nvrtc: an operand of i32 among others, expected f32, f16 or bf16");
}

TEST(CudaPlugin, CompilesMovement) {
    SourceCollector collector;
    std::mt19937 random(kSeed);
    all_movement_cases(random, collector), all_sampling_cases(random, collector);
    lookup_cases(random, collector), table_cases(random, collector), converting_cases(random, collector),
        moving_cases(random, collector);
    ASSERT_GT(collector.sources.size(), 200u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
