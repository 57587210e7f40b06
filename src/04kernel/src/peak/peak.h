#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Each executes `rounds` times kPeakChains independent instructions, and returns what keeps them from being optimised
/// away. 12 chains: the latency of 4 or 5 cycles times 2 instructions a cycle, within 16 registers.
inline constexpr int64_t kPeakChains = 12;

float multiply_add_avx2(int64_t rounds);
float multiply_add_avx512(int64_t rounds);
/// An instruction is a multiplication of words and an addition of its sums of two.
int32_t dot_avx2(int64_t rounds);
/// Of bytes.
int32_t dot_avx2vnni(int64_t rounds);
int32_t dot_avx512vnni(int64_t rounds);
/// Of pairs of bf16.
float dot_avx512bf16(int64_t rounds);
/// Products of whole tiles, one for so many rounds: they take 16 cycles, and many times as long where they are
/// emulated.
inline constexpr int64_t kPeakTileRounds = 64;
int64_t tile_pairs_avx512amx(int64_t rounds);
int64_t tile_bytes_avx512amx(int64_t rounds);

}  // namespace refactor::kernel
