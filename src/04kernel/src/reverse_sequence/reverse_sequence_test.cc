#include "common/error.h"
#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

std::vector<int16_t> reversed(ReverseSequenceInfo info, std::vector<int64_t> const& lengths) {
    // [2, 3, 1]: 0 1 2 / 3 4 5
    std::vector<Tensor> in{Tensor::of<int16_t>(DataType::I16, {2, 3, 1}, {0, 1, 2, 3, 4, 5}),
                           Tensor::of(DataType::I64, {static_cast<int64_t>(lengths.size())}, lengths)};
    std::vector<Tensor> out{Tensor(DataType::I16, {2, 3, 1})};
    auto operands = operands_of(in), results = operands_of(out);
    auto found = candidates(info, request_of(operands, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.at(0), in, out, packs, pool);
    return {out[0].as<int16_t>(), out[0].as<int16_t>() + 6};
}

TEST(ReverseSequence, ReversesTheBeginning) {
    EXPECT_EQ(reversed({1, 0}, {3, 2}), (std::vector<int16_t>{2, 1, 0, 4, 3, 5}));
    EXPECT_EQ(reversed({1, 0}, {0, 1}), (std::vector<int16_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(reversed({0, 1}, {2, 1, 2}), (std::vector<int16_t>{3, 1, 5, 0, 4, 2}));
}

TEST(ReverseSequence, RefusesLengthsThatDoNotExist) {
    EXPECT_THROW(reversed({1, 0}, {4, 0}), InvalidInput);
    EXPECT_THROW(reversed({1, 0}, {0, -1}), InvalidInput);
}

}  // namespace
}  // namespace refactor::kernel::test
