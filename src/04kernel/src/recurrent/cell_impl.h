#pragma once
// The cell of a recurrent layer, written against `Vec`; include `vec_*.h` and `math.h` first.
#include "recurrent/cell.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width;

RG_SIMD Vec apply(CellActivation const& a, Vec x) {
    Vec zero = Vec::zero(), one = Vec::set(1.f), alpha = Vec::set(a.alpha), beta = Vec::set(a.beta);
    using enum CellFunction;
    switch (a.function) {
        case Sigmoid:
            return sigmoid(x);
        case Tanh:
            return tanh(x);
        case Relu:
            return max(zero, x);
        case Affine:
            return fma(alpha, x, beta);
        case LeakyRelu:
            return select(x < zero, alpha * x, x);
        case ThresholdedRelu:
            return select(x > alpha, x, zero);
        case ScaledTanh:
            return alpha * tanh(beta * x);
        case HardSigmoid:
            return hard_sigmoid(x, alpha, beta);
        case Elu:
            return select(x < zero, alpha * (exp(x) - one), x);
        case Softsign:
            return x / (one + abs(x));
        case Softplus:
            return max(zero, x) + log(one + exp_of_negative(-abs(x)));
    }
    return x;
}

/// An activation and the clip before it.
struct Activate {
    CellActivation const& activation;
    float clip;
    RG_SIMD Vec operator()(Vec x) const {
        if (clip > 0) x = min(Vec::set(clip), max(Vec::set(-clip), x));
        return apply(activation, x);
    }
};

/// Activations as a layer gives them.
struct GivenFunctions {
    Activate f, g, h;
    bool input_forget;
    float const* peepholes;
    explicit GivenFunctions(CellBlock const& b)
        : f{b.activations[0], b.clip},
          g{b.activations[b.cell == RecurrentCell::Rnn ? 0 : 1], b.clip},
          h{b.activations[b.cell == RecurrentCell::Lstm ? 2 : 0], 0},
          input_forget(b.input_forget),
          peepholes(b.peepholes) {}
};

/// The usual layer. Nothing depends on what is known only now, so that the activations of all gates overlap.
struct UsualFunctions {
    static constexpr bool input_forget = false;
    static constexpr float const* peepholes = nullptr;
    explicit UsualFunctions(CellBlock const&) {}
    RG_SIMD Vec f(Vec x) const { return sigmoid(x); }
    RG_SIMD Vec g(Vec x) const { return tanh(x); }
    RG_SIMD Vec h(Vec x) const { return tanh(x); }

    static bool fits(CellBlock const& b) {
        if (b.cell == RecurrentCell::Rnn || b.clip > 0 || b.input_forget || b.peepholes) return false;
        auto is = [&](int i, CellFunction function) { return b.activations[i].function == function; };
        return is(0, CellFunction::Sigmoid) && is(1, CellFunction::Tanh) &&
               (b.cell == RecurrentCell::Gru || is(2, CellFunction::Tanh));
    }
};

/// Where one row of the step reads and writes.
struct Row {
    bool active;
    float const *x, *part, *h;
    float *r, *h_next, *c, *y;
};

RG_SIMD Row row_of(CellBlock const& b, int64_t n) {
    Row row;
    int64_t position = b.position;
    row.active = true;
    if (b.lengths) {
        row.active = b.step < b.lengths[n];
        position = row.active && b.reverse ? b.lengths[n] - 1 - b.step : b.step;
    }
    row.x = b.x + n * b.x_row + (position - b.first_position) * b.x_step;
    row.r = b.r + n * b.r_row, row.part = b.part ? b.part + n * b.part_row : nullptr;
    row.h = b.h + n * b.state_row, row.h_next = b.h_next + n * b.state_row;
    row.c = b.c ? b.c + n * b.state_row : nullptr;
    row.y = b.y ? b.y + n * b.y_row + position * b.y_step : nullptr;
    return row;
}

template <class Functions>
RG_SIMD Vec rnn_cell(CellBlock const&, Row const& row, int64_t k, Functions const& to) {
    int64_t at = k * kWidth;
    return to.f(Vec::load(row.x + at) + Vec::load(row.r + at));
}

/// Replaces the first `count` of the `gates` sums of all blocks of a row by gates. One function at a time: its
/// constants stay in registers, and the processor works on more blocks than if it waited for all that becomes of one.
template <int gates, int count, class Functions>
RG_SIMD void open_gates(CellBlock const& b, Row const& row, Functions const& to) {
    for (int64_t k = b.first_block; k < b.last_block; ++k)
#pragma GCC unroll 3
        for (int i = 0; i < count; ++i) {
            int64_t at = (k * gates + i) * kWidth;
            to.f(Vec::load(row.x + at) + Vec::load(row.r + at)).store(row.r + at);
        }
}

/// z and, if it is linear, r are gates already.
template <class Functions>
RG_SIMD Vec gru_cell(CellBlock const& b, Row const& row, int64_t k, Functions const& to) {
    int64_t at = k * 3 * kWidth;
    Vec z, part;
    if (b.linear_before_reset) {
        z = Vec::load(row.r + at);
        part = Vec::load(row.r + at + kWidth) * (Vec::load(row.r + at + 2 * kWidth) + Vec::load(b.r_bias + k * kWidth));
    } else {
        z = Vec::load(row.r + k * 2 * kWidth), part = Vec::load(row.part + k * kWidth);
    }
    Vec candidate = to.g(Vec::load(row.x + at + 2 * kWidth) + part);
    return fma(z, Vec::load(row.h + k * kWidth) - candidate, candidate);
}

/// Gates that see c, or that are one: the new c of a block, and the gate o in the place of its sum.
template <class Functions>
RG_SIMD void lstm_coupled(CellBlock const& b, Row const& row, int64_t k, Functions const& to) {
    int64_t at = k * 4 * kWidth, unit = k * kWidth, padded = b.state_row;
    Vec c = Vec::load(row.c + unit);
    auto gate = [&](int i) __attribute__((always_inline)) {
        return Vec::load(row.x + at + i * kWidth) + Vec::load(row.r + at + i * kWidth);
    };
    Vec in = gate(0), out = gate(1), forget = gate(2);
    if (to.peepholes) {
        in = fma(Vec::load(to.peepholes + unit), c, in);
        forget = fma(Vec::load(to.peepholes + 2 * padded + unit), c, forget);
    }
    in = to.f(in);
    forget = to.input_forget ? Vec::set(1.f) - in : to.f(forget);
    c = fma(forget, c, in * to.g(gate(3)));
    c.store(row.c + unit);
    if (to.peepholes) out = fma(Vec::load(to.peepholes + padded + unit), c, out);
    to.f(out).store(row.r + at + kWidth);
}

/// The new c of a row, and its gates o.
template <class Functions>
RG_SIMD void lstm_gates(CellBlock const& b, Row const& row, Functions const& to) {
    if (to.peepholes || to.input_forget) {
        for (int64_t k = b.first_block; k < b.last_block; ++k) lstm_coupled(b, row, k, to);
        return;
    }
    open_gates<4, 3>(b, row, to);
    for (int64_t k = b.first_block; k < b.last_block; ++k) {
        int64_t at = k * 4 * kWidth, last = at + 3 * kWidth;
        Vec added = Vec::load(row.r + at) * to.g(Vec::load(row.x + last) + Vec::load(row.r + last));
        fma(Vec::load(row.r + at + 2 * kWidth), Vec::load(row.c + k * kWidth), added).store(row.c + k * kWidth);
    }
}
template <class Functions>
RG_SIMD Vec lstm_cell(Row const& row, int64_t k, Functions const& to) {
    return Vec::load(row.r + (4 * k + 1) * kWidth) * to.h(Vec::load(row.c + k * kWidth));
}

void reset(CellBlock const& b) {
    Activate f{b.activations[0], b.clip};
    for (int64_t n = 0; n < b.rows; ++n) {
        Row row = row_of(b, n);
        if (!row.active) continue;
        float* z = b.r + n * b.r_row;
        for (int64_t k = b.first_block; k < b.last_block; ++k) {
            Vec r = f(Vec::load(row.x + (3 * k + 1) * kWidth) + Vec::load(z + (2 * k + 1) * kWidth));
            (r * Vec::load(row.h + k * kWidth)).store(b.reset + n * b.state_row + k * kWidth);
            f(Vec::load(row.x + 3 * k * kWidth) + Vec::load(z + 2 * k * kWidth)).store(z + 2 * k * kWidth);
        }
    }
}

/// `gates` comes before the cells of a row.
template <class Gates, class Cell>
RG_SIMD void update_with(CellBlock const& b, Gates&& gates, Cell&& cell) {
    for (int64_t n = 0; n < b.rows; ++n) {
        Row row = row_of(b, n);
        if (row.active) gates(row);
        for (int64_t k = b.first_block; k < b.last_block; ++k) {
            Vec h = row.active ? cell(row, k) : Vec::load(row.h + k * kWidth);
            h.store(row.h_next + k * kWidth);
            if (!row.y) continue;
            if (!row.active) h = Vec::zero();
            int64_t left = b.hidden - k * kWidth;
            if (left >= kWidth)
                h.store(row.y + k * kWidth);
            else if (left > 0)
                h.store_first(row.y + k * kWidth, static_cast<int>(left));
        }
    }
}

template <class Functions>
void update_all(CellBlock const& b) {
    Functions const to(b);
    if (b.cell == RecurrentCell::Lstm)
        update_with(
            b, [&](Row const& row) __attribute__((always_inline)) { lstm_gates(b, row, to); },
            [&](Row const& row, int64_t k) __attribute__((always_inline)) { return lstm_cell(row, k, to); });
    else if (b.cell == RecurrentCell::Gru)
        update_with(
            b,
            [&](Row const& row) __attribute__((always_inline)) {
                if (b.linear_before_reset) open_gates<3, 2>(b, row, to);
            },
            [&](Row const& row, int64_t k) __attribute__((always_inline)) { return gru_cell(b, row, k, to); });
    else
        update_with(
            b, [](Row const&) __attribute__((always_inline)){},
            [&](Row const& row, int64_t k) __attribute__((always_inline)) { return rnn_cell(b, row, k, to); });
}

void update(CellBlock const& b) {
    UsualFunctions::fits(b) ? update_all<UsualFunctions>(b) : update_all<GivenFunctions>(b);
}

constexpr CellFunctions kFunctions{kWidth, reset, update};

}  // namespace
}  // namespace refactor::kernel
