#include "kernel/ops/movement.h"
#include "movement/movement_test.h"

#include <cmath>

namespace refactor::kernel {
namespace {

using namespace testing;

/// Classes on either side of the range, fractions and more elements than a copy of 4 KiB has.
template <class T, class W>
void check_one_hot(DataType index_type, DataType value_type, int64_t depth) {
    int64_t const outer = 3, inner = 35;
    std::vector<Tensor> inputs{Tensor(index_type, {outer, inner}), Tensor(value_type, {2}).set<W>({W(3), W(7)})};
    auto* index = inputs[0].as<T>();
    for (int64_t i = 0; i < outer * inner; ++i) {
        index[i] = static_cast<T>(i % (2 * depth + 5) - (std::is_signed_v<T> ? depth + 2 : 0));
        if (!std::is_integral_v<T> && i % 7 == 0) index[i] += T(0.5);
    }
    for (int64_t axis : {0, 1, 2}) {
        Dims dims{outer, inner};
        dims.insert(dims.begin() + axis, depth);
        auto before = axis == 0 ? 1 : axis == 1 ? outer : outer * inner, behind = outer * inner / before;
        for (auto& answer : run_all(OneHotInfo{axis}, inputs, {Tensor(value_type, dims)}))
            for (int64_t b = 0; b < before; ++b)
                for (int64_t c = 0; c < depth; ++c)
                    for (int64_t i = 0; i < behind; ++i) {
                        auto value = static_cast<double>(index[b * behind + i]);
                        auto hot = value == static_cast<double>(c) || value == static_cast<double>(c - depth);
                        ASSERT_EQ(answer.outputs[0].template as<W>()[(b * depth + c) * behind + i], W(hot ? 7 : 3))
                            << answer.id << " axis " << axis << " class " << c << " of " << value;
                    }
    }
}

TEST(OneHot, FollowsTheDefinition) {
    check_one_hot<int64_t, float>(DataType::I64, DataType::F32, 21);
    check_one_hot<int32_t, int64_t>(DataType::I32, DataType::I64, 1);
    check_one_hot<uint8_t, uint8_t>(DataType::U8, DataType::U8, 100);
    check_one_hot<int8_t, int16_t>(DataType::I8, DataType::I16, 5);
    check_one_hot<uint64_t, float>(DataType::U64, DataType::F32, 9);
    check_one_hot<float, double>(DataType::F32, DataType::F64, 12);
}

TEST(OneHot, ExtremeIndicesAreNoClass) {
    std::vector<Tensor> inputs{Tensor(DataType::I64, {4}).set<int64_t>({INT64_MIN, INT64_MAX, -3, 2}),
                               Tensor(DataType::F32, {2}).set<float>({0, 1})};
    for (auto& answer : run_all(OneHotInfo{-1}, inputs, {Tensor(DataType::F32, {4, 3})})) {
        auto* y = answer.outputs[0].as<float>();
        EXPECT_EQ(std::vector<float>(y, y + 12), (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
    }
}

}  // namespace
}  // namespace refactor::kernel
