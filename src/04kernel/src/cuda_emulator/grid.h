#pragma once
#include <cstdint>
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
    uint64_t exchange[1024] = {};
};

/// A kernel as it was loaded.
struct Function {
    void (*start)(void const* argument) = nullptr;
    Grid** grid = nullptr;    ///< the kernel's pointer to the running grid
    bool cooperates = false;  ///< its threads wait for each other
};

/// Runs all blocks of a launch, one after another; the threads of a block take turns at barriers. Returns what was
/// wrong, empty for nothing: a barrier that some threads of a block or warp never reach.
std::string run_grid(Function const& function, uint32_t blocks, uint32_t threads, void const* argument);

}  // namespace refactor::cuda_emulator
