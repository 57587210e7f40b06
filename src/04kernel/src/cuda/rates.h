#pragma once
#include <cstdint>

/// What estimates of kernels, and the cutting of their work, are made of: an H100 or H200. Only ratios between
/// candidates matter.
namespace refactor::kernel::cuda {

/// Processors that a launch should give work to, twice over so that one block computes while another waits. Fewer are
/// busy with fewer, larger parts.
inline constexpr int64_t kProcessors = 132, kFillingBlocks = 2 * kProcessors;
/// Multiply-adds in f32 a nanosecond of one processor (128 units at 1.7 GHz, of which generated tiles keep 60 % busy),
/// bytes a nanosecond of the memory, nanoseconds of a launch.
inline constexpr double kTiledRate = 0.6 * 128 * 1.7, kMemoryRate = 4800, kLaunchTime = 3000;
/// Multiply-adds a nanosecond of one processor whose blocks have one query of an attention: they wait for memory, which
/// they read 16 bytes at a time, or one element. Nanoseconds that such a block waits for it, and for its own threads.
inline constexpr double kRowRate = 32 * 1.7, kElementRate = 4 * 1.7, kRowTime = 2000;

}  // namespace refactor::kernel::cuda
