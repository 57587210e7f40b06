#pragma once
#include "cuda/expression_source.h"
#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

/// Rows that threads hold in registers between reading and writing them.
struct RowsInRegisters {
    /// Of 255 registers of a thread; the rest is for addresses and a few values for each item under way.
    static constexpr int64_t kMostValues = 64;

    int vector;
    int64_t rows, length;  ///< in vectors
    int64_t lanes, items;  ///< threads of a row, vectors of a thread
    bool fit;

    /// `count` rows of `elements`; no vector reaches over a multiple of `period`. A warp holds a row of up to 8 vectors
    /// a thread if rows are many; else the block.
    RowsInRegisters(DataType type, int64_t count, int64_t elements, int64_t period)
        : vector(vector_width(type, std::span(&period, 1))), rows(count), length(elements / vector) {
        auto most = kMostValues / vector;
        bool many = ceil_div(rows, kBlockThreads / 32) >= kBusyBlocks;
        lanes = length <= 32 ? power_of_two(length) : length <= 32 * (many ? 8 : 2) ? 32 : kBlockThreads;
        items = power_of_two(ceil_div(length, lanes));
        fit = items <= most;
    }
    int64_t blocks() const { return ceil_div(rows, kBlockThreads / lanes); }
};

}  // namespace refactor::kernel::cuda
