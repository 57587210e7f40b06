#include "kernel/peak.h"

#include <gtest/gtest.h>

namespace refactor::kernel {

namespace {

TEST(Peak, GrowsWithTheInstructionSet) {
    ThreadPool pool(1);
    EXPECT_EQ(measure_peak(Isa::Scalar, pool).f32, 0);
    auto isa = cpu_features().isa;
    auto peak = measure_peak(isa, pool);
    // A cycle has at least one vector, and no core is below 500 MHz.
    EXPECT_GT(peak.f32, isa >= Isa::Avx2 ? 16 * 5e8 : -1);
    EXPECT_EQ(peak.int8 > 0, isa >= Isa::Avx2);
    EXPECT_EQ(peak.bf16 > 0, isa >= Isa::Avx512Bf16);
}

}  // namespace

}  // namespace refactor::kernel
