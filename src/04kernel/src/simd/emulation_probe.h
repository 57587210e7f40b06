#pragma once
#include <cstdint>

namespace refactor::kernel {

/// The first function of `tools/emulated_avx512` that gives other bits for random vectors than its instruction does, or
/// null. Needs AVX-512 BF16; null in a build that emulates, or by Clang.
char const* differing_emulation(uint32_t seed);

}  // namespace refactor::kernel
