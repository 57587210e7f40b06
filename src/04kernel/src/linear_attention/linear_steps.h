#pragma once
#include <cstdint>

// The boundary between the choice of parts (baseline code) and the loops over them (one file for each instruction set).

namespace refactor::kernel {

/// All positions of one key head, for some columns of its values, a few positions and a block of columns at a time.
///
/// With the state S before some positions and the products F of the factors that it decays by, what position i adds is
/// u_i = beta_i (v_i - k_i · F S - sum over j < i of (k_i · F k_j) u_j), and its result alike: the state is passed over
/// once for all of them. Source: Yang et al., arXiv 2412.06464, the form in chunks of the gated delta rule.
struct LinearSteps {
    static constexpr int64_t kMostDepth = 256;

    int64_t steps, depth;
    int columns;
    float const *q, *k, *v;
    int64_t q_step, k_step, v_step;  ///< floats between positions
    int64_t group;                   ///< query heads, `depth` floats after each other
    float const *decay, *beta;       ///< null: none
    int64_t decay_step, beta_step;
    bool decay_each;    ///< one for each element of a key
    float const* past;  ///< null: zeros
    float* present;
    int64_t state_row;  ///< floats between rows of both
    float* y;
    int64_t y_step, y_head;  ///< floats between positions and heads
    float scale;
    float* scratch;  ///< `linear_scratch` floats, aligned to a cache line
};

struct LinearStepsFunctions {
    int columns;  ///< of a block
    int at_once;  ///< positions
    void (*run)(LinearSteps const&);
};
/// Coefficients of positions: of keys and queries that read, of keys that are added, and factors.
inline constexpr int64_t kCoefficientRow = LinearSteps::kMostDepth + 16;
/// These, then for each block the state and what positions add.
inline int64_t linear_scratch(LinearStepsFunctions const& f, int64_t depth, int64_t columns) {
    auto blocks = (columns + f.columns - 1) / f.columns;
    return (3 * f.at_once + 1) * kCoefficientRow + blocks * (depth + f.at_once) * f.columns;
}

LinearStepsFunctions const& linear_steps_avx2();
LinearStepsFunctions const& linear_steps_avx512();

}  // namespace refactor::kernel
