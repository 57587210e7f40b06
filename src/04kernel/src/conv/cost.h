#pragma once
#include "common/cpu_features.h"
#include "conv/tile.h"
#include "kernel/kernel.h"

#include <algorithm>

namespace refactor::kernel {

/// A machine as the estimates of convolutions see it. Only ratios between candidates matter.
struct CostModel {
    double flops;         ///< f32 operations per ns and core
    double l2, l3, dram;  ///< bytes per ns and core
    double stream;        ///< bytes per ns that one core reads in sequence from memory
    int threads;

    /// AVX-512: two multiply-adds of a vector a cycle at 2.9 GHz. Zen 4, where they take a cycle each: kernels reach
    /// 118, 0.85 of what stands here; of the bandwidths those with which its models are fastest (higher ones describe
    /// `conv_bench`, whose weights stay in caches). AVX2: two at 3.2 GHz, and memory as measured on Zen 3. Zen 5: two a
    /// cycle at 4.2 GHz are 270, of which kernels reach 262, 0.85 of what stands here; transforms of Winograd's
    /// algorithm move 117 bytes a ns, half of what L2 gives, and one core reads L3 at 110, memory at 40.
    CostModel(Isa isa, int threads_) : threads(std::max(1, threads_)) {
        auto const& cpu = cpu_features();
        if (isa < Isa::Avx512)
            flops = 100, l2 = 53, l3 = 16, dram = 18, stream = 18;
        else if (cpu.whole_512)
            flops = 308, l2 = 234, l3 = 60, dram = 20, stream = 40;
        else if (cpu.halves_512)
            flops = 139, l2 = 60, l3 = 16, dram = 10, stream = 25;
        else
            flops = 185, l2 = 40, l3 = 12, dram = 8, stream = 25;
    }
    /// How many vectors of lanes that hold so many channels are multiplied in the time of a multiply-add.
    static double share_of_multiply_add(int channels) { return channels == 1 || cpu_features().fast_bf16 ? 1 : 0.25; }
    /// Time of the products of so many output channels over that of whole blocks. Of a last block that is half empty,
    /// half a vector is multiplied where that takes half the time; three tenths less in all, since inputs are broadcast
    /// all the same.
    static double share_of_blocks(int block, int64_t channels) {
        auto blocks = (channels + block - 1) / block;
        return ends_in_half(block, channels) ? 1 - 0.3 / static_cast<double>(blocks) : 1;
    }
    /// f32 operations per ns and core that tiles of positions make.
    double multiply_adds(TileIsa const& isa) const {
        return flops * (isa.speed > 1 ? isa.speed : share_of_multiply_add(isa.channels));
    }
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

/// Whether a convolution asks ahead for tensors of so many bytes, which L3 does not keep beside weights and what other
/// steps read: two multiply-adds of 512 bits a cycle leave little time to wait for memory. Where caches hold
/// them, asking takes 1 % of the time.
inline bool are_far(int64_t bytes) {
    auto const& cpu = cpu_features();
    return cpu.whole_512 && bytes > static_cast<int64_t>(cpu.l3 / 4);
}

}  // namespace refactor::kernel
