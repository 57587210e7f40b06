#pragma once
#include "common/cpu_features.h"
#include "kernel/kernel.h"

#include <algorithm>

namespace refactor::kernel {

/// A machine as the estimates of convolutions see it. Only ratios between candidates matter.
struct CostModel {
    double flops;  ///< f32 operations per ns and core: two multiply-adds of a vector a cycle at 2.5 GHz
    double l2 = 40, l3 = 12, dram = 8;  ///< bytes per ns and core
    int threads;

    CostModel(Isa isa, int threads_) : flops(isa >= Isa::Avx512 ? 150 : 75), threads(std::max(1, threads_)) {}
    /// Bytes per ns from the cache that `bytes` fit into.
    double bandwidth(double bytes) const {
        auto const& cpu = cpu_features();
        if (bytes < 0.5 * static_cast<double>(cpu.l2)) return l2;
        return bytes < 0.5 * static_cast<double>(cpu.l3) ? l3 : dram;
    }
};

}  // namespace refactor::kernel
