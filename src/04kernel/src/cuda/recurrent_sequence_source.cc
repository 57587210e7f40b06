#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kRecurrentSequenceSource = R"cuda(
// One part of a step of a tile by a block: warps make the products, two units at a time; then a thread does the cell of
// each unit and sequence.
template <int part, int kRows, int kVector, int kUnits, class T, int cell, class W>
RG_FN void rg_block_step(rg_layer<T, cell> const& layer, rg_tile_state<W> const& s, W* products, unsigned t, unsigned first,
                         unsigned rows) {
    typedef rg_part_gates<T, cell, part> Gates;
    constexpr int kItems = kRows * kUnits > 256 ? kRows * kUnits / 256 : 1;
    unsigned hidden = layer.hidden, lane = threadIdx.x % 32, states = rows * hidden;
    rg_step_inputs<T, cell, part> in[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        unsigned at = threadIdx.x + i * 256;
        if (at < states) in[i].load(layer, t, first + at / hidden, at % hidden);
    }
    T const* r = layer.weights() + (rg_u64)Gates::first * hidden * hidden;
    for (unsigned unit = threadIdx.x / 32 * 2; unit < hidden; unit += 16) {
        W sums[Gates::count][2][kRows];
        rg_gate_products<Gates::count, 2, kRows, kVector>(r, part == rg_part_state ? (W const*)s.reset_states : s.h, hidden, unit,
                                                          rows, sums);
        W own = W(0);
#pragma unroll
        for (int i = 0; i < Gates::count * 2 * kRows; ++i)
            if (lane == i) own = (&sums[0][0][0])[i];
        unsigned n = lane % kRows, u = lane / kRows % 2, g = lane / kRows / 2;
        if (g < Gates::count && n < rows && unit + u < hidden) products[(g * kRows + n) * kUnits + unit + u] = own;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        unsigned at = threadIdx.x + i * 256;
        if (at >= states) continue;
        unsigned n = at / hidden, unit = at % hidden;
        W own[Gates::count];
#pragma unroll
        for (int g = 0; g < Gates::count; ++g) own[g] = products[(g * kRows + n) * kUnits + unit];
        rg_cell_step<part>(layer, s, in[i], own, first + n, unit, at);
    }
    __syncthreads();
}

// All steps by one block for each tile of sequences and direction, its states in shared memory. `kUnits` is a power of
// two that holds the units.
template <class T, int cell, bool split, int kRows, int kVector, int kUnits>
RG_FN void rg_recurrent_sequence(rg_u64 const* w) {
    typedef rg_wide<T> W;
    struct alignas(16) Row { W values[kRows * kUnits]; };
    __shared__ Row rows[5], products[rg_layer<T, cell>::gates];
    unsigned tiles = ((unsigned)w[16] + kRows - 1) / kRows, first = blockIdx.x % tiles * kRows;
    rg_layer<T, cell> layer(w, blockIdx.x / tiles);
    unsigned count = layer.sequences() - first < kRows ? layer.sequences() - first : kRows;
    for (unsigned i = threadIdx.x; i < count * layer.hidden; i += 256) {
        rows[0].values[i] = layer.initial(5, first + i / layer.hidden, i % layer.hidden);
        if (cell == rg_cell_lstm) rows[2].values[i] = layer.initial(6, first + i / layer.hidden, i % layer.hidden);
    }
    __syncthreads();
    for (unsigned t = 0; t < layer.steps(); ++t) {
        rg_tile_state<W> s = {rows[t % 2].values, rows[1 - t % 2].values, rows[2].values, rows[3].values,
                              rows[4].values};
        if constexpr (split)
            rg_block_step<rg_part_reset, kRows, kVector, kUnits>(layer, s, products[0].values, t, first, count);
        rg_block_step<split ? rg_part_state : rg_part_all, kRows, kVector, kUnits>(layer, s, products[0].values, t, first,
                                                                                   count);
    }
    for (unsigned i = threadIdx.x; i < count * layer.hidden; i += 256) {
        rg_u64 at = layer.state_at(first + i / layer.hidden, i % layer.hidden);
        if (w[12]) ((T*)w[12])[at] = rg_narrow<T>(rows[layer.steps() % 2].values[i]);
        if (w[13]) ((T*)w[13])[at] = rg_narrow<T>(rows[2].values[i]);
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
