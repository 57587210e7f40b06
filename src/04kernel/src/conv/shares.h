#pragma once
#include <cstdint>

// How threads share the tensors of a convolutional network. A line of the caches that two cores have read costs either
// of them 7 ns to write, 30 if they have an L3 each (Zen 4), so that what a thread writes should be what it reads in
// the next step: steps that agree on positions exchange the edges of windows only.

namespace refactor::kernel {

/// Whether images are cut at positions rather than at channels. Convolutions of smaller ones are cut at channels, for
/// they read weights more than anything else; several images are given out whole.
inline bool cut_at_positions(int64_t images, int64_t positions, int threads) {
    constexpr int64_t kLeast = 128;
    return threads > 1 && images < threads && positions >= kLeast;
}

/// The planes of blocks of channels, each cut into bands of rows, as tasks whose neighbours one thread takes.
struct PlaneShares {
    int64_t blocks;        ///< of an image
    int64_t bands = 1;     ///< of a plane
    bool by_rows = false;  ///< the same band of all blocks is together, not all bands of a block

    struct Task {
        int64_t plane, band;  ///< planes are counted over images
    };
    Task at(int64_t task) const {
        if (!by_rows) return {task / bands, task % bands};
        auto band = task / blocks;
        return {band / bands * blocks + task % blocks, band % bands};
    }
};

}  // namespace refactor::kernel
