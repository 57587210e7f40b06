#include "kernel/ops/movement.h"
#include "movement/movement_test.h"

namespace refactor::kernel {
namespace {

using namespace testing;

template <class T>
void check_range(DataType type, int64_t start, int64_t delta) {
    std::vector<Tensor> none;
    for (int64_t n : {0, 1, 7, 8, 9, 31, 1003})
        for (auto& answer : run_all(RangeInfo{}, none, {Tensor(type, {n})}, {start, delta}))
            for (int64_t i = 0; i < n; ++i) {
                auto wrapped = static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta);
                auto expected = std::is_integral_v<T>
                                    ? static_cast<T>(wrapped)
                                    : static_cast<T>(start) + static_cast<T>(i) * static_cast<T>(delta);
                ASSERT_EQ(answer.outputs[0].template as<T>()[i], expected)
                    << answer.id << " element " << i << " of " << n;
            }
}

TEST(Range, OfAnyLength) {
    for (auto [start, delta] : {std::pair<int64_t, int64_t>{0, 1}, {5, -2}, {-30000, 77}, {100, 0}}) {
        check_range<int16_t>(DataType::I16, start, delta);
        check_range<int32_t>(DataType::I32, start, delta);
        check_range<int64_t>(DataType::I64, start, delta);
        check_range<float>(DataType::F32, start, delta);
        check_range<double>(DataType::F64, start, delta);
    }
    check_range<int64_t>(DataType::I64, INT64_MAX - 40, 3);
}

}  // namespace
}  // namespace refactor::kernel
