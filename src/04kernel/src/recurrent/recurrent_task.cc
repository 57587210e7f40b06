#include "recurrent/recurrent_task.h"

#include <cstring>

namespace refactor::kernel {

RecurrentTask::Direction RecurrentTask::direction_of(void* const* arguments, runtime::RunContext const& context,
                                                     int64_t d) const {
    auto* base = reinterpret_cast<float*>(context.workspace) + static_cast<size_t>(d) * p_.direction;
    auto pick = [&](std::shared_ptr<mem_manager::Blob const> const& blob, size_t at, GateMatrix const& m) {
        return blob && !info_.quantized ? static_cast<float const*>(blob->data()) + static_cast<size_t>(d) * m.floats()
                                        : base + at;
    };
    return {d,
            base,
            arguments,
            &context,
            pick(packed_.w, p_.packed_w, p_.w),
            pick(packed_.r, p_.packed_r, p_.r),
            pick(packed_.part, p_.packed_part, p_.r_part)};
}

void RecurrentTask::pack(Direction const& d, float* rows) const {
    auto weights = s_.gates * s_.hidden;
    auto const* w = input(d.arguments, 1, d.index * weights * s_.inputs);
    auto const* r = input(d.arguments, 2, d.index * weights * s_.hidden);
    if (p_.packs_w) pack_gates(functions_.product, p_.w, s_.hidden, w, d.base + p_.packed_w, rows);
    if (!p_.packs_r) return;
    pack_gates(functions_.product, p_.r, s_.hidden, r, d.base + p_.packed_r, rows);
    if (p_.split) pack_gates(functions_.product, p_.r_part, s_.hidden, r, d.base + p_.packed_part, rows);
}

/// Both biases as one, in the order of the packed columns; that of R for the gate h apart where r multiplies it.
void RecurrentTask::gather_bias(Direction const& d) const {
    auto rows = s_.gates * s_.hidden, columns = p_.w.columns;
    auto *bias = d.base + p_.bias, *r_bias = d.base + p_.r_bias;
    std::fill_n(bias, columns, 0.f), std::fill_n(r_bias, p_.padded, 0.f);
    auto const* b = input(d.arguments, s_.bias, d.index * 2 * rows);
    if (!b) return;
    bool apart = info_.cell == RecurrentCell::Gru && info_.linear_before_reset;
    for (int64_t g = 0; g < s_.gates; ++g)
        for (int64_t u = 0; u < s_.hidden; ++u) {
            auto from_r = b[rows + g * s_.hidden + u];
            auto at = (u / p_.width * s_.gates + g) * p_.width + u % p_.width;
            bool last = apart && g == 2;
            bias[at] = b[g * s_.hidden + u] + (last ? 0 : from_r);
            if (last) r_bias[u] = from_r;
        }
}

void RecurrentTask::prepare(Direction const& d, float* rows) const {
    pack(d, rows);
    gather_bias(d);
    std::fill_n(d.base + p_.peepholes, 3 * p_.padded, 0.f);
    for (int64_t g = 0; g < 3 && s_.peepholes >= 0; ++g)
        std::memcpy(d.base + p_.peepholes + g * p_.padded,
                    input(d.arguments, s_.peepholes, (d.index * 3 + g) * s_.hidden),
                    static_cast<size_t>(s_.hidden) * sizeof(float));
    auto const* lengths = lengths_of(d.arguments);
    for (int64_t n = 0; n < s_.batch; ++n) {
        auto fill = [&](size_t at, int i) {
            auto* state = d.base + at + n * p_.padded;
            std::fill_n(state, p_.padded, 0.f);
            if (i >= 0 && !(lengths && lengths[n] == 0))
                std::memcpy(state, input(d.arguments, i, d.index * s_.state_direction + n * s_.state_batch),
                            static_cast<size_t>(s_.hidden) * sizeof(float));
        };
        fill(p_.h, s_.initial_h), fill(p_.c, s_.initial_c);
    }
    if (functions_.rounded)
        functions_.rounded->round_rows(d.base + p_.h, p_.padded, s_.batch, s_.hidden, d.base + p_.h_pairs,
                                       p_.state_row);
}

ProductBlock RecurrentTask::product_of(GateMatrix const& m, int64_t rows, float const* b, int64_t column,
                                       int64_t columns) const {
    ProductBlock t{};
    t.m = rows, t.k = m.steps, t.n = columns, t.a_k = 1, t.b = b + column * m.steps, t.source = ProductSource::Packed;
    t.y_row = m.columns, t.alpha = 1;
    auto floats = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
    t.block_k = std::max<int64_t>(64, std::min(m.steps, floats / 8 / functions_.product.panel));
    t.block_m =
        std::min(std::max<int64_t>(1, rows), std::max<int64_t>(functions_.product.rows, floats / 2 / t.block_k));
    return t;
}

size_t RecurrentTask::scratch_bytes() const {
    int64_t floats = 0;
    for (auto weights : {Weights::W, Weights::R, Weights::Part}) {
        if (!functions_.takes_tiles(most_rows(weights))) continue;
        auto t = product_of(matrix_of(weights), most_rows(weights), nullptr, 0, 0);
        floats = std::max(floats, functions_.product.tiles.scratch(t.block_m, t.block_k, false));
    }
    return static_cast<size_t>(floats) * sizeof(float);
}

void RecurrentTask::multiply(Direction const& d, Weights weights, Rows const& rows, int worker) const {
    auto const& m = matrix_of(weights);
    auto const* b = weights == Weights::W ? d.w : weights == Weights::R ? d.r : d.part;
    auto t = product_of(m, rows.count, b, rows.column, rows.columns);
    t.a = rows.a, t.a_row = rows.a_row, t.bias = rows.bias, t.y = rows.y;
    if (functions_.takes_tiles(rows.count)) {
        t.scratch = reinterpret_cast<float*>(d.context->scratch_of(worker));
        functions_.product.tiles.multiply(t);
    } else {
        functions_.product.multiply(t);
    }
}

void RecurrentTask::multiply_states(Direction const& d, Weights weights, float const* h, int64_t first, int64_t rows,
                                    int64_t first_block, int64_t last_block, int worker) const {
    auto const& m = matrix_of(weights);
    auto column = first_block * m.gates * p_.width, columns = (last_block - first_block) * m.gates * p_.width;
    auto* y = d.base + (weights == Weights::Part ? p_.part : p_.gr) + first * m.columns + column;
    if (functions_.row_product && rows == 1 && !info_.quantized) {
        auto panels = columns / functions_.product.panel, whole = panels * functions_.product.panel;
        functions_.row_product(panels, m.steps, h, (weights == Weights::Part ? d.part : d.r) + column * m.steps, y);
        column += whole, columns -= whole, y += whole;
        if (columns == 0) return;
    }
    multiply(d, weights, {h, p_.state_row, rows, column, columns, nullptr, y}, worker);
}

CellBlock RecurrentTask::cell_of(Direction const& d, int64_t step, int64_t first, int64_t rows) const {
    CellBlock b{};
    b.cell = info_.cell, b.linear_before_reset = info_.linear_before_reset, b.input_forget = info_.input_forget;
    b.activations = info_.activations.data() + d.index * static_cast<int64_t>(info_.activations.size()) / s_.directions;
    b.clip = info_.clip, b.rows = rows, b.hidden = s_.hidden;
    b.r = d.base + p_.gr + first * p_.r.columns, b.r_row = p_.r.columns;
    if (p_.split) b.part = d.base + p_.part + first * p_.r_part.columns, b.part_row = p_.r_part.columns;
    b.r_bias = d.base + p_.r_bias;
    b.peepholes = s_.peepholes < 0 ? nullptr : d.base + p_.peepholes;
    auto* states = d.base + p_.h + first * p_.padded;
    auto other = s_.batch * p_.padded;
    b.h = states + (step & 1 ? other : 0), b.h_next = states + (step & 1 ? 0 : other);
    b.c = d.base + p_.c + first * p_.padded, b.reset = d.base + p_.reset + first * p_.padded;
    b.state_row = p_.padded;
    if (s_.y >= 0) b.y = static_cast<float*>(d.arguments[s_.y]) + d.index * s_.y_direction + first * s_.y_batch;
    b.y_row = s_.y_batch, b.y_step = s_.y_step;
    b.step = step, b.reverse = is_reverse(d), b.position = b.reverse ? s_.steps - 1 - step : step;
    b.lengths = lengths_of(d.arguments) ? lengths_of(d.arguments) + first : nullptr;
    return b;
}

std::pair<int64_t, int64_t> RecurrentTask::blocks_of(int64_t part) const {
    auto groups = (p_.blocks + p_.group - 1) / p_.group;
    auto at = [&](int64_t i) { return std::min(p_.blocks, groups * i / p_.column_parts * p_.group); };
    return {at(part), at(part + 1)};
}

void RecurrentTask::store_states(Direction const& d) const {
    auto store = [&](int output, float const* states) {
        if (output < 0) return;
        auto* y = static_cast<float*>(d.arguments[output]) + d.index * s_.state_direction;
        for (int64_t n = 0; n < s_.batch; ++n)
            std::memcpy(y + n * s_.state_batch, states + n * p_.padded, static_cast<size_t>(s_.hidden) * sizeof(float));
    };
    store(s_.y_h, d.base + p_.h + (s_.steps & 1 ? s_.batch * p_.padded : 0));
    store(s_.y_c, d.base + p_.c);
}

void RecurrentTask::run(void* const* arguments, runtime::RunContext const& context) const {
    if (auto const* lengths = lengths_of(arguments)) s_.check_lengths(lengths);
    auto* workspace = reinterpret_cast<float*>(context.workspace);
    Direction all[2];
    for (int64_t d = 0; d < s_.directions; ++d) {
        all[d] = direction_of(arguments, context, d);
        prepare(all[d], workspace + p_.rows);
    }
    walk(all, context.pool);
    for (int64_t d = 0; d < s_.directions; ++d) store_states(all[d]);
}

}  // namespace refactor::kernel
