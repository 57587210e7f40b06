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

/// Where one row of the step reads and writes.
struct Row {
    bool active;
    float const *x, *r, *part, *h;
    float *h_next, *c, *y;
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

RG_SIMD Vec rnn_cell(CellBlock const& b, Row const& row, int64_t k) {
    int64_t at = k * kWidth;
    return Activate{b.activations[0], b.clip}(Vec::load(row.x + at) + Vec::load(row.r + at));
}

RG_SIMD Vec gru_cell(CellBlock const& b, Row const& row, int64_t k) {
    Activate f{b.activations[0], b.clip}, g{b.activations[1], b.clip};
    int64_t at = k * 3 * kWidth;
    Vec z, part;
    if (b.linear_before_reset) {
        z = f(Vec::load(row.x + at) + Vec::load(row.r + at));
        Vec r = f(Vec::load(row.x + at + kWidth) + Vec::load(row.r + at + kWidth));
        part = r * (Vec::load(row.r + at + 2 * kWidth) + Vec::load(b.r_bias + k * kWidth));
    } else {
        z = Vec::load(row.r + k * 2 * kWidth), part = Vec::load(row.part + k * kWidth);
    }
    Vec candidate = g(Vec::load(row.x + at + 2 * kWidth) + part);
    return fma(z, Vec::load(row.h + k * kWidth) - candidate, candidate);
}

RG_SIMD Vec lstm_cell(CellBlock const& b, Row const& row, int64_t k) {
    Activate f{b.activations[0], b.clip}, g{b.activations[1], b.clip}, h{b.activations[2], 0};
    int64_t at = k * 4 * kWidth, unit = k * kWidth, padded = b.state_row;
    Vec c = Vec::load(row.c + unit);
    auto gate = [&](int i) __attribute__((always_inline)) {
        return Vec::load(row.x + at + i * kWidth) + Vec::load(row.r + at + i * kWidth);
    };
    Vec in = gate(0), out = gate(1), forget = gate(2);
    if (b.peepholes) {
        in = fma(Vec::load(b.peepholes + unit), c, in);
        forget = fma(Vec::load(b.peepholes + 2 * padded + unit), c, forget);
    }
    in = f(in);
    forget = b.input_forget ? Vec::set(1.f) - in : f(forget);
    c = fma(forget, c, in * g(gate(3)));
    c.store(row.c + unit);
    if (b.peepholes) out = fma(Vec::load(b.peepholes + padded + unit), c, out);
    return f(out) * h(c);
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

template <class Cell>
RG_SIMD void update_with(CellBlock const& b, Cell&& cell) {
    for (int64_t n = 0; n < b.rows; ++n) {
        Row row = row_of(b, n);
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

void update(CellBlock const& b) {
    if (b.cell == RecurrentCell::Lstm)
        update_with(b, [&](Row const& row, int64_t k) __attribute__((always_inline)) { return lstm_cell(b, row, k); });
    else if (b.cell == RecurrentCell::Gru)
        update_with(b, [&](Row const& row, int64_t k) __attribute__((always_inline)) { return gru_cell(b, row, k); });
    else
        update_with(b, [&](Row const& row, int64_t k) __attribute__((always_inline)) { return rnn_cell(b, row, k); });
}

constexpr CellFunctions kFunctions{kWidth, reset, update};

}  // namespace
}  // namespace refactor::kernel
