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
    W *next, *cells, *updates, *reset_states;
    RG_MEMBER W old(unsigned at) const { return h[at]; }
    RG_MEMBER W& c(unsigned at) const { return cells[at]; }
    RG_MEMBER W& update(unsigned at) const { return updates[at]; }
    RG_MEMBER void put_next(unsigned at, W x) const { next[at] = x; }
    RG_MEMBER void put_reset(unsigned at, W x) const { reset_states[at] = x; }
};

// The sums over k of R[gate, unit, k] * h[row, k] for `kUnits` units from `unit` on, by a warp.
template <int kGates, int kUnits, int kRows, int kVector, class T, class W>
RG_FN void rg_gate_products(T const* r, W const* h, unsigned hidden, unsigned unit, unsigned rows,
                            W (&sums)[kGates][kUnits][kRows]) {
    constexpr int kPart = kVector < 16 / (int)sizeof(W) ? kVector : 16 / (int)sizeof(W);
#pragma unroll
    for (int i = 0; i < kGates * kUnits * kRows; ++i) (&sums[0][0][0])[i] = W(0);
#pragma unroll 2
    for (unsigned k = threadIdx.x % 32 * kVector; k < hidden; k += 32 * kVector) {
        rg_vec<T, kVector> weights[kGates][kUnits];
#pragma unroll
        for (int g = 0; g < kGates; ++g)
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
                unsigned row = unit + u < hidden ? unit + u : unit;
                weights[g][u] = *(rg_vec<T, kVector> const*)(r + ((rg_u64)g * hidden + row) * hidden + k);
            }
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
#pragma unroll
                        for (int u = 0; u < kUnits; ++u)
                            sums[g][u][n] =
                                m_fma(rg_widen(weights[g][u].v[part * kPart + i]), values.v[i], sums[g][u][n]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kGates * kUnits * kRows; ++i) {
        W& sum = (&sums[0][0][0])[i];
        sum = rg_combined<32>(rg_sum<W>{sum}).v;
    }
}

// Which gates a part of a step computes.
template <class T, int cell, int part> struct rg_part_gates {
    static constexpr int first = part == rg_part_state ? 2 : 0;
    static constexpr int count = part == rg_part_reset ? 2 : part == rg_part_state ? 1 : rg_layer<T, cell>::gates;
};
// The share of the inputs in the gates of a unit at a step.
template <class T, int cell, int part> struct rg_step_inputs {
    typedef rg_part_gates<T, cell, part> Gates;
    rg_wide<T> of[Gates::count];
    unsigned position;
    bool runs;
    RG_MEMBER void load(rg_layer<T, cell> const& layer, unsigned t, unsigned n, unsigned unit) {
        position = layer.position(n, t), runs = t < layer.length(n);
#pragma unroll
        for (int g = 0; g < Gates::count; ++g) of[g] = layer.input(Gates::first + g, n, position, unit);
    }
};
// The cell of a unit: `sums` are the products of its gates with the state, `at` is its place in the tile.
template <int part, class T, int cell, class State, class W>
RG_FN void rg_cell_step(rg_layer<T, cell> const& layer, State& s, rg_step_inputs<T, cell, part> const& in,
                        W const* products, unsigned n, unsigned unit, unsigned at) {
    typedef rg_part_gates<T, cell, part> Gates;
    W sums[Gates::count];
#pragma unroll
    for (int g = 0; g < Gates::count; ++g) sums[g] = products[g] + layer.bias(Gates::first + g, unit, true);
    W old = s.old(at), h = old;
    if constexpr (part == rg_part_reset) {
        s.update(at) = layer.activate(0, in.of[0] + sums[0]);
        s.put_reset(at, layer.activate(0, in.of[1] + sums[1]) * old);
        return;
    } else if constexpr (part == rg_part_state) {
        W z = s.update(at);
        h = (W(1) - z) * layer.activate(1, in.of[0] + sums[0]) + z * old;
    } else if constexpr (cell == rg_cell_gru) {
        W z = layer.activate(0, in.of[0] + sums[0]), r = layer.activate(0, in.of[1] + sums[1]);
        h = (W(1) - z) * layer.activate(1, in.of[2] + r * sums[2]) + z * old;
    } else if constexpr (cell == rg_cell_rnn) {
        h = layer.activate(0, in.of[0] + sums[0]);
    } else {
        W c = s.c(at), i = layer.activate(0, in.of[0] + sums[0] + layer.peephole(0, unit) * c);
        W f = layer.w[28] ? W(1) - i : layer.activate(0, in.of[2] + sums[2] + layer.peephole(2, unit) * c);
        c = f * c + i * layer.activate(1, in.of[3] + sums[3]);
        W o = layer.activate(0, in.of[1] + sums[1] + layer.peephole(1, unit) * c);
        h = o * rg_activate(layer.w + 29 + layer.direction * 9 + 6, c);
        if (in.runs) s.c(at) = c;
    }
    s.put_next(at, in.runs ? h : old);
    layer.store(n, in.position, unit, in.runs ? h : W(0));
}

// Reports lengths outside of the sequence, which count as the nearest one inside. Words: lengths, fault; sequences, steps.
RG_FN void rg_check_lengths(rg_u64 const* w) {
    rg_u64 n = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (n >= w[2]) return;
    int length = ((int const*)w[0])[n];
    if (length < 0 || length > (rg_i64)w[3]) rg_report((rg_u64*)w[1], 3, length);
}

// A launch for each step: a warp for each unit, tile of sequences and direction.
template <class T, int cell, int part, int kRows, int kVector> RG_FN void rg_recurrent_step(rg_u64 const* w) {
    unsigned unit_blocks = ((unsigned)w[17] + 7) / 8, tiles = ((unsigned)w[16] + kRows - 1) / kRows;
    unsigned block = blockIdx.x, unit = block % unit_blocks * 8 + threadIdx.x / 32;
    block /= unit_blocks;
    unsigned first = block % tiles * kRows, t = (unsigned)w[14], lane = threadIdx.x % 32;
    rg_layer<T, cell> layer(w, block / tiles);
    if (unit >= layer.hidden) return;
    typedef rg_wide<T> W;
    typedef rg_part_gates<T, cell, part> Gates;
    rg_u64 at = layer.buffer_at(first), size = w[18] * w[16] * w[17];
    W* h = (W*)w[7];
    rg_tile_state<W> s = {h + (t % 2 ? size : 0) + at, h + (t % 2 ? 0 : size) + at, (W*)w[8] + at, (W*)w[9] + at,
                          (W*)w[10] + at};
    unsigned rows = layer.sequences() - first < kRows ? layer.sequences() - first : kRows;
    // Lane n does the cell of sequence n.
    rg_step_inputs<T, cell, part> in;
    if (lane < rows) in.load(layer, t, first + lane, unit);
    W sums[Gates::count][1][kRows], own[Gates::count];
    rg_gate_products<Gates::count, 1, kRows, kVector>(layer.weights() + (rg_u64)Gates::first * layer.hidden * layer.hidden,
                     part == rg_part_state ? (W const*)s.reset_states : s.h, layer.hidden, unit, rows, sums);
    if (lane >= rows) return;
#pragma unroll
    for (int g = 0; g < Gates::count; ++g) {
        own[g] = sums[g][0][0];
#pragma unroll
        for (int n = 1; n < kRows; ++n)
            if (lane == n) own[g] = sums[g][0][n];
    }
    rg_cell_step<part>(layer, s, in, own, first + lane, unit, lane * layer.hidden + unit);
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
)cuda";

}  // namespace refactor::kernel::cuda
