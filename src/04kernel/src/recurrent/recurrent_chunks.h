#pragma once
#include "recurrent/recurrent_task.h"

namespace refactor::kernel {

/// Any batch: the input products of a chunk of steps as one product, then the steps.
class ChunkedRecurrent : public RecurrentTask {
    /// Position of the first row of the chunk that begins at `step`.
    int64_t chunk_position(Direction const& d, int64_t step, int64_t count) const;
    /// Rounds the inputs of a chunk, one of `parts` parts of its rows.
    void round_inputs(Direction const& d, int64_t step, int64_t count, int64_t part, int64_t parts) const;
    /// Input products of a chunk for some columns.
    void multiply_inputs(Direction const& d, int64_t step, int64_t count, int64_t column, int64_t columns,
                         int worker) const;
    CellBlock chunk_cell(Direction const& d, int64_t chunk_step, int64_t count, int64_t step, int64_t first,
                         int64_t rows) const;
    /// Where the rounded states are that a step multiplies, from the sequence `first` on.
    float* pairs_of_states(Direction const& d, int64_t step, int64_t first) const;
    /// Rounds states of the rows and blocks of `b`.
    void round_states(float const* states, float* pairs, CellBlock const& b) const;
    /// First half of a step that needs two products.
    void reset_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block, int64_t last_block,
                    int worker) const;
    void update_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block, int64_t last_block,
                     int worker) const;
    void walk_together(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const;
    void walk_alone(Direction const& d, int64_t step, int64_t count, int64_t part, int worker) const;
    void run_chunk(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const;
    void walk(Direction const* all, ThreadPool& pool) const override;

public:
    using RecurrentTask::RecurrentTask;
};

}  // namespace refactor::kernel
