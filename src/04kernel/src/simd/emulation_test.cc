#include "common/cpu_features.h"
#include "simd/emulation_probe.h"

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

TEST(EmulatedAvx512, GivesWhatTheInstructionsGive) {
#if RG_X86
    if (cpu_features().isa < Isa::Avx512Bf16) GTEST_SKIP() << "this processor has no AVX-512 BF16";
    char const* name = differing_emulation(20250101);
    EXPECT_EQ(name, nullptr) << name;
#endif
}

}  // namespace
}  // namespace refactor::kernel
