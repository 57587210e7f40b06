#pragma once
#include "common/cpu_features.h"
#include "common/half.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

inline bool has_rounded() { return cpu_features().isa >= Isa::Avx512Bf16; }
/// Levels whose candidates round operands: vectors, and tiles.
inline int rounded_levels() { return has_rounded() + (cpu_features().isa >= Isa::Avx512Amx); }

/// Random numbers of f32 that are numbers of bf16, which kernels that round leave as they are.
inline Tensor random_bf16(Dims dims, std::mt19937& random) {
    auto t = random_f32(std::move(dims), random);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<float>()[i] = f32_from_bf16(bf16_from_f32(t.as<float>()[i]));
    return t;
}

}  // namespace
}  // namespace refactor::kernel::test
