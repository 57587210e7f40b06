#pragma once
#include "kernel/ops/recurrent.h"

// The boundary between the walk over a sequence (baseline code) and the vectors of the cell (one file for each
// instruction set).
//
// The units of a layer are cut into blocks of one vector; the gates of a block are neighbours: [block][gate][width].

namespace refactor::kernel {

/// One step of some sequences and some blocks of units. Rows are sequences; steps in elements.
struct CellBlock {
    RecurrentCell cell;
    bool linear_before_reset, input_forget;
    CellActivation const* activations;
    float clip;  ///< 0: none
    int64_t rows, hidden, first_block, last_block;

    /// Gates: products with the input (bias included) and with the state. `x` is at the row's position.
    float const* x;
    int64_t x_row, x_step;
    float* r;
    int64_t r_row;
    float const* part;  ///< GRU, reset first: the product of R and r ∘ h for the gate h
    int64_t part_row;
    float const* r_bias;     ///< GRU, linear: bias of R for the gate h
    float const* peepholes;  ///< null: none; i, o, f

    /// States, all with the same steps between rows. `reset`: GRU, r ∘ h.
    float const* h;
    float *h_next, *c, *reset;
    int64_t state_row;

    float* y;  ///< null: not wanted
    int64_t y_row, y_step;
    int64_t step;            ///< from the beginning of the sequence in the order of reading
    int64_t position;        ///< of all sequences, where there are no lengths
    int64_t first_position;  ///< where `x` begins
    int32_t const* lengths;  ///< null: none
    bool reverse;
};

struct CellFunctions {
    int width;
    /// GRU, reset first: replaces the gate z in `r` by its value and fills `reset`.
    void (*reset)(CellBlock const&);
    /// New states, and the row of Y.
    void (*update)(CellBlock const&);
};

CellFunctions const& cell_functions_avx2();
CellFunctions const& cell_functions_avx512();

}  // namespace refactor::kernel
