#pragma once
#include "common/cpu_features.h"
#include "common/thread_pool.h"

namespace refactor::kernel {

/// Arithmetic that cores reach on registers alone, in operations a second, a multiply-add counting two; 0 where the
/// instruction set has no such instruction.
struct Peak {
    double f32 = 0;   ///< fused multiply-adds
    double int8 = 0;  ///< dot products of bytes into i32, exact: of u8 by s8 (AMX, VNNI), else of words (AVX2)
    double bf16 = 0;  ///< dot products of pairs into f32
};

/// Measures for about 30 ms on all threads of the pool together. What is timed is the best of several stretches, for
/// neighbours on a shared machine only slow it down.
Peak measure_peak(Isa isa, ThreadPool& pool);

}  // namespace refactor::kernel
