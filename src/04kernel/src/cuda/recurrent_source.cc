#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kRecurrentSource = R"cuda(
enum rg_cell { rg_cell_rnn, rg_cell_gru, rg_cell_lstm };
// What a launch computes of a step: all of it, or the two parts of a GRU that resets the state before its product.
enum rg_part { rg_part_all, rg_part_reset, rg_part_state };

enum rg_activation {
    rg_act_sigmoid, rg_act_tanh, rg_act_relu, rg_act_affine, rg_act_leaky_relu, rg_act_thresholded_relu,
    rg_act_scaled_tanh, rg_act_hard_sigmoid, rg_act_elu, rg_act_softsign, rg_act_softplus
};
// Words: kind, bits (f32) of alpha and beta.
template <class W> RG_FN W rg_activate(rg_u64 const* f, W x) {
    W a = (W)rg_f32((unsigned)f[1]), b = (W)rg_f32((unsigned)f[2]);
    switch ((int)f[0]) {
        case rg_act_sigmoid: return m_sigmoid(x);
        case rg_act_tanh: return m_tanh(x);
        case rg_act_relu: return x < W(0) ? W(0) : x;
        case rg_act_affine: return a * x + b;
        case rg_act_leaky_relu: return x < W(0) ? a * x : x;
        case rg_act_thresholded_relu: return x > a ? x : W(0);
        case rg_act_scaled_tanh: return a * m_tanh(b * x);
        case rg_act_hard_sigmoid: return rg_Min(rg_Max(a * x + b, W(0)), W(1));
        case rg_act_elu: return x < W(0) ? a * m_expm1(x) : x;
        case rg_act_softsign: return x / (W(1) + m_fabs(x));
        default: return m_softplus(x);
    }
}

// Words: products of the inputs [D, rows, G·H], R, bias, lengths, peepholes, initial h and c, states h [2, D, N, H], c,
// update gates and reset states [D, N, H], Y, Y_h, Y_c; number of the step, steps, sequences, units, directions, whether
// the first direction runs backwards; steps in rows of the products along time and sequences; steps of Y along time,
// sequences and directions, of states along sequences and directions; bits (f32) of the clip, whether f = 1 - i; three
// activations of each direction.
template <class T, int cell> struct rg_layer {
    typedef rg_wide<T> W;
    static constexpr int gates = cell == rg_cell_lstm ? 4 : cell == rg_cell_gru ? 3 : 1;
    rg_u64 const* w;
    unsigned hidden, direction;
    RG_MEMBER rg_layer(rg_u64 const* words, unsigned direction_)
        : w(words), hidden((unsigned)words[17]), direction(direction_) {}

    RG_MEMBER unsigned steps() const { return (unsigned)w[15]; }
    RG_MEMBER unsigned sequences() const { return (unsigned)w[16]; }
    RG_MEMBER unsigned length(unsigned n) const {
        if (!w[3]) return steps();
        int length = ((int const*)w[3])[n];
        return length < 0 ? 0 : (unsigned)length < steps() ? (unsigned)length : steps();
    }
    RG_MEMBER unsigned position(unsigned n, unsigned t) const {
        unsigned end = length(n);
        return t < end && (direction == 1 || w[19]) ? end - 1 - t : t;
    }
    RG_MEMBER T const* weights() const { return (T const*)w[1] + (rg_u64)direction * gates * hidden * hidden; }
    RG_MEMBER rg_u64 state_at(unsigned n, unsigned unit) const {
        return direction * w[26] + n * w[25] + unit;
    }
    // Where a tile of sequences is in buffers [D, N, H].
    RG_MEMBER rg_u64 buffer_at(unsigned n) const { return ((rg_u64)direction * sequences() + n) * hidden; }
    RG_MEMBER W initial(int word, unsigned n, unsigned unit) const {
        if (!w[word] || (w[3] && length(n) == 0)) return W(0);
        return rg_widen(((T const*)w[word])[state_at(n, unit)]);
    }
    RG_MEMBER W bias(int gate, unsigned unit, bool of_state) const {
        if (!w[2]) return W(0);
        return rg_widen(((T const*)w[2])[((rg_u64)direction * 2 + of_state) * gates * hidden + gate * hidden + unit]);
    }
    RG_MEMBER W peephole(int which, unsigned unit) const {
        if (!w[4]) return W(0);
        return rg_widen(((T const*)w[4])[((rg_u64)direction * 3 + which) * hidden + unit]);
    }
    RG_MEMBER W activate(int which, W x) const {
        W limit = (W)rg_f32((unsigned)w[27]);
        if (limit > W(0)) x = rg_Min(rg_Max(x, -limit), limit);
        return rg_activate(w + 29 + direction * 9 + which * 3, x);
    }
    RG_MEMBER W input(int gate, unsigned n, unsigned position, unsigned unit) const {
        rg_u64 rows = (rg_u64)steps() * sequences(), row = position * w[20] + n * w[21];
        return rg_widen(((T const*)w[0])[(direction * rows + row) * gates * hidden + gate * hidden + unit]) +
               bias(gate, unit, false);
    }
    RG_MEMBER void store(unsigned n, unsigned position, unsigned unit, W h) const {
        if (w[11]) ((T*)w[11])[position * w[22] + n * w[23] + direction * w[24] + unit] = rg_narrow<T>(h);
    }
};

// Memory of the sequences of a tile, `hidden` apart.
template <class W> struct rg_tile_state {
    W const* h;
    W *next, *c, *update, *reset;
};

// The sums over k of R[gate, unit, k] * h[row, k], by a warp.
template <int kGates, int kRows, int kVector, class T, class W>
RG_FN void rg_gate_products(T const* r, W const* h, unsigned hidden, unsigned unit, unsigned rows,
                            W (&sums)[kGates][kRows]) {
    constexpr int kPart = kVector < 16 / (int)sizeof(W) ? kVector : 16 / (int)sizeof(W);
#pragma unroll
    for (int g = 0; g < kGates; ++g)
#pragma unroll
        for (int n = 0; n < kRows; ++n) sums[g][n] = W(0);
#pragma unroll 2
    for (unsigned k = threadIdx.x % 32 * kVector; k < hidden; k += 32 * kVector) {
        rg_vec<T, kVector> weights[kGates];
#pragma unroll
        for (int g = 0; g < kGates; ++g)
            weights[g] = *(rg_vec<T, kVector> const*)(r + ((rg_u64)g * hidden + unit) * hidden + k);
#pragma unroll
        for (int n = 0; n < kRows; ++n) {
            W const* row = h + ((unsigned)n < rows ? n : 0) * hidden + k;
#pragma unroll
            for (int part = 0; part < kVector / kPart; ++part) {
                rg_vec<W, kPart> values = *(rg_vec<W, kPart> const*)(row + part * kPart);
#pragma unroll
                for (int i = 0; i < kPart; ++i)
#pragma unroll
                    for (int g = 0; g < kGates; ++g)
                        sums[g][n] = m_fma(rg_widen(weights[g].v[part * kPart + i]), values.v[i], sums[g][n]);
            }
        }
    }
#pragma unroll
    for (int g = 0; g < kGates; ++g)
#pragma unroll
        for (int n = 0; n < kRows; ++n) sums[g][n] = rg_combined<32>(rg_sum<W>{sums[g][n]}).v;
}

// One unit of a tile of at most `kRows` sequences from `first` on, at step `t`, by a warp; lane n does the cell of
// sequence n.
template <int part, int kRows, int kVector, class T, int cell>
RG_FN void rg_step_unit(rg_layer<T, cell> const& layer, rg_tile_state<rg_wide<T>> const& s, unsigned t, unsigned unit,
                        unsigned first) {
    typedef rg_wide<T> W;
    constexpr int first_gate = part == rg_part_state ? 2 : 0;
    constexpr int gates = part == rg_part_reset ? 2 : part == rg_part_state ? 1 : rg_layer<T, cell>::gates;
    unsigned lane = threadIdx.x % 32, rows = layer.sequences() - first, n = first + lane;
    rows = rows < kRows ? rows : kRows;
    bool mine = lane < rows, runs = false;
    unsigned position = t;
    W in[gates];
    if (mine) {
        position = layer.position(n, t), runs = t < layer.length(n);
#pragma unroll
        for (int g = 0; g < gates; ++g) in[g] = layer.input(first_gate + g, n, position, unit);
    }
    W sums[gates][kRows], own[gates];
    rg_gate_products<gates, kRows, kVector>(layer.weights() + (rg_u64)first_gate * layer.hidden * layer.hidden,
                                            part == rg_part_state ? (W const*)s.reset : s.h, layer.hidden, unit, rows,
                                            sums);
    if (!mine) return;
#pragma unroll
    for (int g = 0; g < gates; ++g) {
        own[g] = sums[g][0];
#pragma unroll
        for (int i = 1; i < kRows; ++i)
            if (lane == i) own[g] = sums[g][i];
        own[g] += layer.bias(first_gate + g, unit, true);
    }
    unsigned at = lane * layer.hidden + unit;
    W old = s.h[at], h = old;
    if constexpr (part == rg_part_reset) {
        s.update[at] = layer.activate(0, in[0] + own[0]);
        s.reset[at] = layer.activate(0, in[1] + own[1]) * old;
        return;
    } else if constexpr (part == rg_part_state) {
        W z = s.update[at], candidate = layer.activate(1, in[0] + own[0]);
        h = (W(1) - z) * candidate + z * old;
    } else if constexpr (cell == rg_cell_gru) {
        W z = layer.activate(0, in[0] + own[0]), r = layer.activate(0, in[1] + own[1]);
        h = (W(1) - z) * layer.activate(1, in[2] + r * own[2]) + z * old;
    } else if constexpr (cell == rg_cell_rnn) {
        h = layer.activate(0, in[0] + own[0]);
    } else {
        W c = s.c[at], i = layer.activate(0, in[0] + own[0] + layer.peephole(0, unit) * c);
        W f = layer.w[28] ? W(1) - i : layer.activate(0, in[2] + own[2] + layer.peephole(2, unit) * c);
        c = f * c + i * layer.activate(1, in[3] + own[3]);
        W o = layer.activate(0, in[1] + own[1] + layer.peephole(1, unit) * c);
        h = o * rg_activate(layer.w + 29 + layer.direction * 9 + 6, c);
        if (runs) s.c[at] = c;
    }
    s.next[at] = runs ? h : old;
    layer.store(n, position, unit, runs ? h : W(0));
}

// A launch for each step: a warp for each unit, tile of sequences and direction.
template <class T, int cell, int part, int kRows, int kVector> RG_FN void rg_recurrent_step(rg_u64 const* w) {
    unsigned unit_blocks = ((unsigned)w[17] + 7) / 8, tiles = ((unsigned)w[16] + kRows - 1) / kRows;
    unsigned block = blockIdx.x, unit = block % unit_blocks * 8 + threadIdx.x / 32;
    block /= unit_blocks;
    unsigned first = block % tiles * kRows, t = (unsigned)w[14];
    rg_layer<T, cell> layer(w, block / tiles);
    if (unit >= layer.hidden) return;
    rg_u64 at = layer.buffer_at(first), size = w[18] * w[16] * w[17];
    rg_wide<T>* h = (rg_wide<T>*)w[7];
    rg_tile_state<rg_wide<T>> s = {h + (t % 2 ? size : 0) + at, h + (t % 2 ? 0 : size) + at, (rg_wide<T>*)w[8] + at,
                                   (rg_wide<T>*)w[9] + at, (rg_wide<T>*)w[10] + at};
    rg_step_unit<part, kRows, kVector>(layer, s, t, unit, first);
}

// Before the first step and after the last one: a thread for each unit.
template <class T, int cell, bool begin> RG_FN void rg_recurrent_states(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x, size = w[18] * w[16] * w[17];
    if (i >= size) return;
    unsigned unit = (unsigned)(i % w[17]), n = (unsigned)(i / w[17] % w[16]);
    rg_layer<T, cell> layer(w, (unsigned)(i / w[17] / w[16]));
    rg_wide<T> *h = (rg_wide<T>*)w[7], *c = (rg_wide<T>*)w[8];
    if constexpr (begin) {
        h[i] = layer.initial(5, n, unit);
        if (cell == rg_cell_lstm) c[i] = layer.initial(6, n, unit);
    } else {
        rg_u64 at = layer.state_at(n, unit);
        if (w[12]) ((T*)w[12])[at] = rg_narrow<T>(h[layer.steps() % 2 ? size + i : i]);
        if (w[13]) ((T*)w[13])[at] = rg_narrow<T>(c[i]);
    }
}

// All steps by one block for each tile of sequences and direction, its states in shared memory. `kUnits` is a power of
// two that holds the units.
template <class T, int cell, bool split, int kRows, int kVector, int kUnits>
RG_FN void rg_recurrent_sequence(rg_u64 const* w) {
    typedef rg_wide<T> W;
    struct alignas(16) Row { W values[kRows * kUnits]; };
    __shared__ Row rows[5];
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
        if constexpr (split) {
            for (unsigned unit = threadIdx.x / 32; unit < layer.hidden; unit += 8)
                rg_step_unit<rg_part_reset, kRows, kVector>(layer, s, t, unit, first);
            __syncthreads();
        }
        for (unsigned unit = threadIdx.x / 32; unit < layer.hidden; unit += 8)
            rg_step_unit<split ? rg_part_state : rg_part_all, kRows, kVector>(layer, s, t, unit, first);
        __syncthreads();
    }
    for (unsigned i = threadIdx.x; i < count * layer.hidden; i += 256) {
        rg_u64 at = layer.state_at(first + i / layer.hidden, i % layer.hidden);
        if (w[12]) ((T*)w[12])[at] = rg_narrow<T>(rows[layer.steps() % 2].values[i]);
        if (w[13]) ((T*)w[13])[at] = rg_narrow<T>(rows[2].values[i]);
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
