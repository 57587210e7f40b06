#include "kernel/peak.h"

#include "peak/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace refactor::kernel {

namespace {

/// Instructions a second of all threads together, the best of `kStretches` of about a millisecond.
template <class F>
double rate(ThreadPool& pool, F&& chains) {
    constexpr int64_t kRounds = 1 << 18;
    constexpr int kStretches = 8;
    using Clock = std::chrono::steady_clock;
    std::atomic<double> unused{0};
    double best = 0;
    for (int stretch = 0; stretch < kStretches; ++stretch) {
        auto start = Clock::now();
        pool.parallel_for(pool.threads(), [&](int64_t, int) { unused = static_cast<double>(chains(kRounds)); });
        std::chrono::duration<double> seconds = Clock::now() - start;
        best = std::max(best, static_cast<double>(kRounds * kPeakChains * pool.threads()) / seconds.count());
    }
    return best;
}

}  // namespace

Peak measure_peak(Isa isa, ThreadPool& pool) {
    Peak peak;
    // Lanes, times two operations; a dot product adds four products to each lane, or two where they are of words.
    if (isa >= Isa::Avx512)
        peak.f32 = 16 * 2 * rate(pool, multiply_add_avx512);
    else if (isa >= Isa::Avx2)
        peak.f32 = 8 * 2 * rate(pool, multiply_add_avx2);
    // A tile has 256 sums of 16 dwords each.
    constexpr double kTile = 256. * 16 / kPeakTileRounds;
    if (isa >= Isa::Avx512Amx)
        peak.int8 = kTile * 4 * 2 * rate(pool, tile_bytes_avx512amx);
    else if (isa >= Isa::Avx512Vnni)
        peak.int8 = 16 * 4 * 2 * rate(pool, dot_avx512vnni);
    else if (isa == Isa::Avx2Vnni)
        peak.int8 = 8 * 4 * 2 * rate(pool, dot_avx2vnni);
    else if (isa >= Isa::Avx2)
        peak.int8 = 8 * 2 * 2 * rate(pool, dot_avx2);
    if (isa >= Isa::Avx512Amx)
        peak.bf16 = kTile * 2 * 2 * rate(pool, tile_pairs_avx512amx);
    else if (isa >= Isa::Avx512Bf16)
        peak.bf16 = 16 * 2 * 2 * rate(pool, dot_avx512bf16);
    return peak;
}

}  // namespace refactor::kernel
