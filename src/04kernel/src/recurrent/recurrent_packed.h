#pragma once
#include "matmul/rounded_product.h"
#include "recurrent/cell.h"
#include "recurrent/recurrent.h"
#include "recurrent/row_product.h"
#include "recurrent/stream.h"

namespace refactor::kernel {

struct RecurrentFunctions {
    ProductFunctions const& product;
    CellFunctions const& cell;
    StreamFunctions const* stream;  ///< null: input products are not made beside steps
    RowProduct row_product;         ///< null: one row is multiplied as several are
    /// Makes the pairs of bf16 that `product`, which is its own, and `row_product` multiply; null: these multiply f32.
    RoundedFunctions const* rounded = nullptr;

    /// So many rows are multiplied by tiles.
    bool takes_tiles(int64_t count) const {
        return product.tiles.multiply && count >= rows_for_tiles(rounded != nullptr);
    }
    /// Rows of a packed matrix, and elements of one that it is multiplied by.
    int64_t steps_of(int64_t k) const { return rounded ? pairs_of(k) : k; }
};

/// Packed weights: the rows of `gates` gates (from `first_gate` on) of a matrix [directions, G·H, K], reordered so that
/// the gates of a block of units are neighbours.
struct GateMatrix {
    int64_t first_gate, gates;  ///< which of the layer's
    int64_t depth;              ///< K
    int64_t steps;              ///< rows of the packed matrix: K, or pairs of them
    int64_t columns;            ///< of the packed matrix: blocks of units * gates * width

    size_t floats() const { return static_cast<size_t>(columns * steps); }
};
/// Packs one direction; `rows` has room for `panel * depth` floats. `source`: [G·H, K] of that direction.
void pack_gates(ProductFunctions const&, GateMatrix const&, int64_t hidden, float const* source, float* target,
                float* rows);

/// Sizes in floats of everything that a run needs, and the places of its parts in the workspace.
struct RecurrentPlan {
    int64_t width = 0;                      ///< units in a block
    int64_t blocks = 0, padded = 0;         ///< blocks of units; units with padding
    int64_t panel = 0;                      ///< columns that input products are cut by
    int64_t group = 1;                      ///< blocks whose columns are whole panels of every matrix
    bool split = false;                     ///< GRU, reset first: two products a step
    GateMatrix w{}, r{}, r_part{};          ///< input, state, state of the gate h (`split`)
    bool streamed = false;                  ///< input products are made beside the steps before them
    int64_t state_row = 0;                  ///< elements between states that are multiplied
    int64_t chunk = 1;                      ///< otherwise: steps whose input products are kept at a time
    int64_t batch_parts = 1;                ///< independent parts of a direction
    int64_t column_parts = 1;               ///< parts of a direction that meet after every step
    bool packs_w = false, packs_r = false;  ///< not constant: packed by each run

    /// Offsets; of one direction unless it says otherwise.
    size_t gx = 0, gr = 0, part = 0, h = 0, c = 0, reset = 0, bias = 0, r_bias = 0, peepholes = 0, packed_w = 0,
           packed_r = 0, packed_part = 0, terms = 0, x_pairs = 0, h_pairs = 0, reset_pairs = 0, direction = 0;
    size_t rows = 0, total = 0;  ///< scratch of packing; all

    RecurrentPlan(RecurrentFunctions const&, RecurrentInfo const&, RecurrentShape const&, int threads, bool constant_w,
                  bool constant_r);
    /// One sequence whose end is known and whose steps need one product.
    static bool is_streamed(RecurrentFunctions const&, RecurrentInfo const&, RecurrentShape const&);
    /// Blocks of units that are multiplied before their cells, which then are computed while the weights after them
    /// arrive: at least two, whose chains of dependent instructions overlap.
    int64_t blocks_at_once() const { return group == 1 ? 2 : group; }
};

}  // namespace refactor::kernel
