#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace refactor::cuda_emulator {

/// As `rg_grid_state` of the built-ins.
struct Grid {
    struct Unit {
        uint32_t x = 0, y = 1, z = 1;
    };
    Unit thread, block, threads, blocks;
    void (*wait_for_block)() = nullptr;
    void (*wait_for_warp)(uint32_t lanes) = nullptr;
    void (*wait_for_cluster)() = nullptr;
    /// Where an address in the shared memory of the running block lies in another block of its cluster.
    void* (*in_block)(void* address, uint32_t block) = nullptr;
    uint64_t exchange[1024] = {};
};

/// A kernel as it was loaded.
struct Function {
    void (*start)(void const* argument) = nullptr;
    Grid** grid = nullptr;    ///< the kernel's pointer to the running grid
    bool cooperates = false;  ///< its threads wait for each other
    uint32_t cluster = 1;     ///< blocks that see each other's shared memory
    std::span<char> zeros;    ///< the shared memory of the kernel's library, and `*grid`
};

/// In which order blocks, and threads between two barriers, take their turn: upwards, or downwards if
/// REFACTOR_GRAPH_EMULATED_ORDER is "down". What a missing barrier leaves to chance differs between the two.
bool runs_downwards();

/// Runs all blocks (clusters) of a launch, one after another, with new content of the shared memory; the threads of a
/// block take turns at barriers, the blocks of a cluster at those of the cluster. Returns what was wrong, empty for
/// nothing: a barrier that some threads of a cluster, block or warp never reach.
std::string run_grid(Function const& function, uint32_t blocks, uint32_t threads, void const* argument);

}  // namespace refactor::cuda_emulator
