#pragma once
#include "cuda/library.h"

#include <map>
#include <mutex>

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
/// Most blocks of a launch whose threads walk over elements with the grid's stride.
inline constexpr int64_t kMostWalkingBlocks = int64_t(1) << 20;

/// Blocks of 256 threads for an element each.
inline uint32_t walking_blocks(int64_t elements) {
    return static_cast<uint32_t>(std::min((elements + 255) / 256, kMostWalkingBlocks));
}

}  // namespace refactor::kernel::cuda
