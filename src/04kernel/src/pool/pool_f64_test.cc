#include "kernel/ops/conv.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

TEST(PoolF64, AgreesWithTheReference) {
    std::mt19937 random(seed_of(411));
    struct Case {
        Dims x, y, kernel, strides, dilations, begin, end;
        bool vectors;  ///< the last stride is at most 2
    };
    Case const cases[]{
        {{2, 3, 40}, {2, 3, 20}, {3}, {2}, {1}, {1}, {0}, true},
        {{1, 5, 13, 17}, {1, 5, 13, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
        {{2, 4, 21, 30}, {2, 4, 7, 15}, {3, 2}, {3, 2}, {1, 1}, {0, 0}, {0, 0}, true},
        {{1, 3, 16, 15}, {1, 3, 14, 5}, {2, 4}, {1, 2}, {2, 2}, {0, 1}, {0, 0}, true},
        {{1, 2, 5, 9, 11}, {1, 2, 4, 5, 11}, {2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, true},
        {{1, 2, 9, 31}, {1, 2, 9, 10}, {1, 3}, {1, 3}, {1, 1}, {0, 0}, {0, 0}, false}};
    for (auto const& c : cases)
        for (auto kind : {PoolKind::Max, PoolKind::Average, PoolKind::Sum})
            for (bool count_padding : {false, true}) {
                PoolInfo info{kind, c.kernel, {c.strides, c.dilations, c.begin, c.end}, count_padding};
                auto x = doubles_of(random_f32(c.x, random));
                if (kind == PoolKind::Max) x.as<double>()[x.desc.count() / 2] = NAN;
                // A window of n values is added in another order, and multiplied by a rounded 1 / n.
                auto n = static_cast<double>(element_count(c.kernel));
                Tolerance tolerance{kind == PoolKind::Max ? 0 : 2.2e-16 * n * 4, kind == PoolKind::Max ? 0 : 4.5e-16};
                auto others = check_candidates(info, {x}, {Tensor(DataType::F64, c.y)}, tolerance);
                EXPECT_EQ(others, c.vectors ? wide_levels(cpu_features().isa) : 0);
                if (HasFatalFailure()) return;
            }
}

}  // namespace
}  // namespace refactor::kernel::test
