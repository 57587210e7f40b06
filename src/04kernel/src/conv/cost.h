#pragma once
#include "common/cpu_features.h"
#include "kernel/kernel.h"

#include <algorithm>

namespace refactor::kernel {

/// A machine as the estimates of convolutions see it. Only ratios between candidates matter.
struct CostModel {
    double flops;         ///< f32 operations per ns and core
    double l2, l3, dram;  ///< bytes per ns and core
    int threads;

    /// AVX-512: two multiply-adds of a vector a cycle at 2.5 GHz; AVX2: at 3.2 GHz, and memory as measured on Zen 3.
    CostModel(Isa isa, int threads_)
        : flops(isa >= Isa::Avx512 ? 150 : 100),
          l2(isa >= Isa::Avx512 ? 40 : 53),
          l3(isa >= Isa::Avx512 ? 12 : 16),
          dram(isa >= Isa::Avx512 ? 8 : 18),
          threads(std::max(1, threads_)) {}
    /// Bytes per ns from the cache that `bytes` fit into.
    double bandwidth(double bytes) const {
        auto const& cpu = cpu_features();
        if (bytes < 0.5 * static_cast<double>(cpu.l2)) return l2;
        return bytes < 0.5 * static_cast<double>(cpu.l3) ? l3 : dram;
    }
};

}  // namespace refactor::kernel
