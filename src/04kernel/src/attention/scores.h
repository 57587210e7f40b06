#pragma once
#include "kernel/ops/matmul.h"

#include <cstdint>

namespace refactor::kernel {

/// Keys that are worked on at a time: with the rows of a block (at most 48) their scores take 96 KB of L2.
inline constexpr int64_t kScoreKeys = 512;
/// The same where products are by tiles, beside whose time that of each block and row shows: softmax brings a row down
/// to one number twice, and tiles are configured.
inline constexpr int64_t kMostScoreKeys = 2048;

/// Rows that are worked on together: the steps that bring a row down to one number wait for each other, those of the
/// next row do not.
inline constexpr int kScoreRows = 4;

/// Rows of a block of scores in the online softmax (arXiv 2205.14135, algorithm 1).
struct ScoreRows {
    int rows;
    float* scores;                             ///< in: scores; out: e^(scale * score + mask - maximum), the weights
    int64_t step;                              ///< between rows of scores
    float scale;                               ///< above 0
    float softcap;                             ///< above 0: of scaled scores; 0: none
    int64_t count, visible[kScoreRows];        ///< keys of the block; those that a query may see (the rest weighs 0)
    float const* mask[kScoreRows];             ///< added; null: none
    unsigned char const* allowed[kScoreRows];  ///< 0: not seen; null: no such mask
    float const* lanes;  ///< of rows that see all, unmasked: vectors with their largest; null: none
    bool one_mask;       ///< a mask has one value for all keys
    bool hides;          ///< a mask of `kHiddenBelow` and less takes the place of a score
    float* y;            ///< results so far, to be rescaled; null in the first block
    int64_t y_step, value_depth;
    float *maxima, *sums;  ///< running; a maximum may lag behind by 8
};

struct ScoreFunctions {
    void (*update)(ScoreRows const&);
    /// Likewise, but weights become pairs of bf16 at the begin of their rows, zeros up to a multiple of 32 of them;
    /// sums are of what has not been rounded. Null: not with this instruction set.
    void (*update_to_pairs)(ScoreRows const&);
    /// Where what an additive mask shows in [from, count) ends, up to a vector; `from` if it shows nothing there.
    int64_t (*end_of_shown)(float const* mask, int64_t from, int64_t count);
    /// Results of a row, if nothing has been seen (a sum of 0) `unseen`, if weights are NaN `of_nan`. False if one is
    /// not finite though all weights are.
    bool (*divide)(float* y, int64_t count, float sum, float unseen, float of_nan);
};

ScoreFunctions const& score_functions_avx2();
ScoreFunctions const& score_functions_avx512();
ScoreFunctions const& score_functions_avx512bf16();

}  // namespace refactor::kernel
