#include "kernel/ops/movement.h"
#include "movement/block_shuffle.h"
#include "movement/movement_test.h"

#include <numeric>

namespace refactor::kernel {
namespace {

using namespace testing;
using movement::BlockShuffle;

/// `count` blocks of `sizes` elements that are `steps` elements apart, from memory that ends where the last one does.
void check_blocks(Dims const& sizes, Dims const& steps, int64_t element, Isa isa) {
    Dims bytes;
    for (auto step : steps) bytes.push_back(step * element);
    BlockShuffle blocks(sizes, bytes, element, isa);
    if (!blocks) return;
    constexpr int64_t kCount = 5, kGap = 3;
    auto elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < sizes.size(); ++i) (steps[i] < 0 ? low : high) += steps[i] * (sizes[i] - 1);
    auto in = (high - low + 1) * element, out = elements * element;
    ASSERT_EQ(blocks.begin(), low * element);
    std::vector<std::byte> from(static_cast<size_t>(kCount * in)), to(static_cast<size_t>(kCount * (out + kGap)));
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
    auto expected = to;
    for (int64_t block = 0; block < kCount; ++block)
        for (int64_t i = 0; i < elements; ++i) {
            int64_t at = -low, rest = i;
            for (auto axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) at += rest % sizes[axis] * steps[axis];
            std::memcpy(expected.data() + block * (out + kGap) + i * element, from.data() + block * in + at * element,
                        static_cast<size_t>(element));
        }
    blocks.run(from.data(), in, to.data(), out + kGap, kCount);
    ASSERT_EQ(to, expected) << movement::to_string(sizes) << " by " << movement::to_string(steps) << " of " << element
                            << " bytes, " << name_of(isa);
}

TEST(BlockShuffle, MovesElementsAndNothingElse) {
    for (auto isa : {Isa::Avx2, Isa::Avx512}) {
        if (isa > cpu_features().isa) continue;
        for (int64_t element : {1, 2, 4, 8, 3, 12})
            for (int64_t rows = 1; rows * element <= 64; ++rows)
                for (int64_t columns = 1; columns * rows * element <= 64; ++columns) {
                    check_blocks({columns, rows}, {1, columns}, element, isa);
                    check_blocks({rows, columns}, {-columns, 1}, element, isa);
                    check_blocks({rows, 3, columns}, {columns, 0, 1}, element, isa);
                    if (HasFatalFailure()) return;
                }
    }
}

TEST(BlockShuffle, HasNoneForLargeBlocks) {
    auto isa = cpu_features().isa;
    EXPECT_FALSE(BlockShuffle(Dims{17}, Dims{4}, 4, isa));
    EXPECT_FALSE(BlockShuffle(Dims{129}, Dims{0}, 4, isa));
    EXPECT_FALSE(BlockShuffle(Dims{4, 4}, Dims{4, 16}, 4, Isa::Scalar));
}

/// The last axes are blocks, of which several lie together, and some are left.
TEST(StridedCopy, SmallBlocks) {
    for_seeds(30, [](auto& random, DataType type) {
        Dims x{pick(random, 1, 3), pick(random, 1, 70)}, perm{0, 1};
        auto inner = pick(random, 2, 4);
        for (int64_t i = 0; i < inner; ++i) x.push_back(pick(random, 1, 4)), perm.push_back(2 + i);
        std::shuffle(perm.begin() + 2, perm.end(), random);
        Dims y;
        for (auto axis : perm) y.push_back(x[axis]);
        expect_equal(TransposeInfo{perm}, {Tensor(type, x).fill(random)}, {Tensor(type, y)});
        auto tiled = x;
        for (auto& size : tiled) size *= pick(random, 1, 3);
        expect_equal(ExpandInfo{true}, {Tensor(type, x).fill(random)}, {Tensor(type, tiled)});
        Dims steps, part;
        std::vector<int64_t> starts;
        for (auto size : x) {
            auto step = pick(random, -2, 3), first = pick(random, 0, size - 1);
            step = step == 0 ? 1 : step;
            starts.push_back(first), steps.push_back(step);
            part.push_back(step > 0 ? (size - 1 - first) / step + 1 : first / -step + 1);
        }
        expect_equal(SliceInfo{steps}, {Tensor(type, x).fill(random)}, {Tensor(type, part)}, starts);
    });
}

TEST(StridedCopy, RepeatedRowsOfEveryLength) {
    for_seeds(1, [](auto& random, DataType type) {
        for (int64_t row : {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 50, 63, 65, 100, 127, 129, 300, 1025}) {
            expect_equal(ExpandInfo{}, {Tensor(type, {1, row}).fill(random)}, {Tensor(type, {301, row})});
            expect_equal(ExpandInfo{}, {Tensor(type, {67, 1, row}).fill(random)}, {Tensor(type, {67, 2, row})});
            expect_equal(ExpandInfo{}, {Tensor(type, {131, 1}).fill(random)}, {Tensor(type, {131, row})});
            expect_equal(SliceInfo{{1, 1}}, {Tensor(type, {45, row + 3}).fill(random)}, {Tensor(type, {45, row})},
                         {0, 2});
        }
    });
}

/// Long enough for threads, each of which has the end of its part.
TEST(StridedCopy, BlocksOnThreads) {
    for_seeds(1, [](auto& random, DataType type) {
        expect_equal(TransposeInfo{{0, 2, 1}}, {Tensor(type, {60001, 2, 3}).fill(random)},
                     {Tensor(type, {60001, 3, 2})});
        expect_equal(ExpandInfo{true}, {Tensor(type, {7, 9001, 2}).fill(random)}, {Tensor(type, {14, 9001, 6})});
    });
}

TEST(StridedCopy, PlanesOfLessThanAVector) {
    for_seeds(1, [](auto& random, DataType type) {
        for (int64_t planes : {5, 6, 7, 8, 9, 11, 14, 15, 16, 17})
            for (int64_t pixels : {1, 2, 7, 15, 16, 17, 33, 40, 100, 1000, 20001}) {
                expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {planes, pixels}).fill(random)},
                             {Tensor(type, {pixels, planes})});
                expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {pixels, planes}).fill(random)},
                             {Tensor(type, {planes, pixels})});
            }
    });
}

}  // namespace
}  // namespace refactor::kernel
