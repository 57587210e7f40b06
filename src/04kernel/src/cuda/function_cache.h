#pragma once
#include "cuda/library.h"

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

namespace refactor::kernel::cuda {

/// The compiled functions of one kernel by kind and name, so that binding a known kind writes no source. Thread-safe.
class FunctionCache {
    std::mutex mutex_;
    std::map<std::string, void*, std::less<>> functions_;

public:
    /// `write()` gives the source of `name` for a kind that is asked for the first time.
    template <class F>
    void* get(Library const& library, std::string const& kind, std::string const& name, F&& write) {
        std::lock_guard lock(mutex_);
        auto& function = functions_[name + '/' + kind];
        if (!function) function = library.load(write(), name);
        return function;
    }
};

/// Processors that a launch should give work to, twice over so that one block computes while another waits: those of
/// an H100 or H200. Fewer are busy with fewer, larger parts.
inline constexpr int64_t kProcessors = 132, kFillingBlocks = 2 * kProcessors;
/// Most blocks of a grid.
inline constexpr int64_t kMostGrid = (int64_t(1) << 31) - 1;
/// What estimates of kernels are made of, for the same cards; only ratios between candidates matter. Multiply-adds in
/// f32 a nanosecond of one processor (128 units at 1.7 GHz, of which generated tiles keep 60 % busy), bytes a
/// nanosecond of the memory, nanoseconds of a launch.
inline constexpr double kTiledRate = 0.6 * 128 * 1.7, kMemoryRate = 4800, kLaunchTime = 3000;

/// A struct of 64-bit numbers as the words of a launch.
template <class T>
std::vector<uint64_t> words_of(T const& numbers) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
    std::vector<uint64_t> words(sizeof(T) / sizeof(uint64_t));
    std::memcpy(words.data(), &numbers, sizeof(T));
    return words;
}

}  // namespace refactor::kernel::cuda
