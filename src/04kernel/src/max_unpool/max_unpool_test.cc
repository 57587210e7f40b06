#include "common/error.h"
#include "kernel/ops/vision.h"
#include "movement/movement_test.h"

namespace refactor::kernel {
namespace {

using testing::run_all;
using testing::Tensor;

TEST(MaxUnpool, PutsElementsWhereTheyWere) {
    std::vector<Tensor> in{Tensor(DataType::F32, {1, 1, 2}), Tensor(DataType::I64, {1, 1, 2})};
    in[0].set<float>({5, 7}), in[1].set<int64_t>({3, 0});
    for (auto& answer : run_all(MaxUnpoolInfo{}, in, {Tensor(DataType::F32, {1, 2, 5})}, {1, 1, 4})) {
        auto* y = answer.outputs[0].as<float>();
        EXPECT_EQ(std::vector<float>(y, y + 10), (std::vector<float>{7, 0, 0, 5, 0, 0, 0, 0, 0, 0})) << answer.id;
    }
    // Rows of 2 inside rows of 3; the later one of two equal places stays.
    in = {Tensor(DataType::F32, {1, 1, 1, 3}), Tensor(DataType::I64, {1, 1, 1, 3})};
    in[0].set<float>({5, 7, 9}), in[1].set<int64_t>({3, 2, 3});
    for (auto& answer : run_all(MaxUnpoolInfo{}, in, {Tensor(DataType::F32, {1, 1, 2, 3})}, {1, 1, 2, 2})) {
        auto* y = answer.outputs[0].as<float>();
        EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{0, 0, 0, 7, 9, 0})) << answer.id;
    }
}

TEST(MaxUnpool, RefusesPlacesOutside) {
    std::vector<Tensor> in{Tensor(DataType::F32, {1, 1, 1}), Tensor(DataType::I64, {1, 1, 1})};
    in[0].set<float>({5}), in[1].set<int64_t>({4});
    EXPECT_THROW(run_all(MaxUnpoolInfo{}, in, {Tensor(DataType::F32, {1, 1, 5})}, {1, 1, 4}), InvalidInput);
}

}  // namespace
}  // namespace refactor::kernel
