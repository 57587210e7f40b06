#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Keys that are worked on at a time: with the rows of a block (at most 96) their scores take 96 KB of L2.
inline constexpr int64_t kScoreKeys = 256;

/// Rows that are worked on together: the steps that bring a row down to one number wait for each other, those of the
/// next row do not.
inline constexpr int kScoreRows = 4;

/// One row of a block of scores in the online softmax (arXiv 2205.14135, algorithm 1).
struct ScoreRow {
    float* scores;                 ///< in: scores; out: e^(scale * score + mask - new maximum)
    float scale;                   ///< above 0
    int64_t count, visible;        ///< keys of the block; those that the query may see (the rest weighs 0)
    float const* mask;             ///< added; null: none
    unsigned char const* allowed;  ///< 0: not seen; null: no such mask
    bool one_mask;                 ///< the mask has one value for all keys
    float* y;                      ///< the row of results so far, to be rescaled; null in the first block
    int64_t value_depth;
    float *maximum, *sum;  ///< running
};

struct ScoreFunctions {
    /// At most `kScoreRows` rows.
    void (*update)(ScoreRow const* rows, int count);
    void (*divide)(float* y, int64_t count, float sum, bool nan_to_zero);
};

ScoreFunctions const& score_functions_avx2();
ScoreFunctions const& score_functions_avx512();

}  // namespace refactor::kernel
