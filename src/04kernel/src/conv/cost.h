#pragma once
#include "common/cpu_features.h"
#include "kernel/kernel.h"

#include <algorithm>

namespace refactor::kernel {

/// A machine as the estimates of convolutions see it. Only ratios between candidates matter.
struct CostModel {
    double flops;         ///< f32 operations per ns and core
    double l2, l3, dram;  ///< bytes per ns and core
    double stream;        ///< bytes per ns that one core reads in sequence from memory
    int threads;

    /// AVX-512: two multiply-adds of a vector a cycle at 2.9 GHz; 150 where they take a cycle each (Zen 4), as chosen
    /// beside the bandwidths below. AVX2: two at 3.2 GHz, and memory as measured on Zen 3.
    CostModel(Isa isa, int threads_)
        : flops(isa < Isa::Avx512           ? 100
                : cpu_features().halves_512 ? 150
                                            : 185),
          l2(isa >= Isa::Avx512 ? 40 : 53),
          l3(isa >= Isa::Avx512 ? 12 : 16),
          dram(isa >= Isa::Avx512 ? 8 : 18),
          stream(isa >= Isa::Avx512 ? 25 : 18),
          threads(std::max(1, threads_)) {}
    /// Bytes per ns from the cache that `bytes` fit into.
    double bandwidth(double bytes) const {
        auto const& cpu = cpu_features();
        if (bytes < 0.5 * static_cast<double>(cpu.l2)) return l2;
        return bytes < 0.5 * static_cast<double>(cpu.l3) ? l3 : dram;
    }
    /// Bytes per ns that all threads together read in sequence from the cache that `bytes` fit into. Memory gives two
    /// cores 1.1 (Zen 4) to 1.6 times (Zen 3) what it gives one.
    double reading(double bytes) const {
        bool beyond = bytes >= 0.5 * static_cast<double>(cpu_features().l3);
        return beyond ? stream * (threads > 1 ? 1.5 : 1) : bandwidth(bytes) * threads;
    }
};

}  // namespace refactor::kernel
