#include "recurrent/recurrent_chunks.h"

namespace refactor::kernel {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t ChunkedRecurrent::chunk_position(Direction const& d, int64_t step, int64_t count) const {
    return is_reverse(d) && s_.lengths < 0 ? s_.steps - step - count : step;
}

void ChunkedRecurrent::round_inputs(Direction const& d, int64_t step, int64_t count, int64_t part,
                                    int64_t parts) const {
    auto const* x = input(d.arguments, 0, chunk_position(d, step, count) * s_.x_step);
    auto sets = info_.batch_first ? s_.batch : 1, rows = info_.batch_first ? count : count * s_.batch;
    auto from = rows * part / parts, to = rows * (part + 1) / parts;
    for (int64_t i = 0; i < sets; ++i)
        functions_.rounded->round_rows(x + i * s_.x_batch + from * s_.inputs, s_.inputs, to - from, s_.inputs,
                                       d.base + p_.x_pairs + (i * rows + from) * p_.w.steps, p_.w.steps);
}

void ChunkedRecurrent::multiply_inputs(Direction const& d, int64_t step, int64_t count, int64_t column, int64_t columns,
                                       int worker) const {
    auto const* x = input(d.arguments, 0, chunk_position(d, step, count) * s_.x_step);
    auto* y = d.base + p_.gx + column;
    auto sets = info_.batch_first ? s_.batch : 1, rows = info_.batch_first ? count : count * s_.batch;
    auto x_set = s_.x_batch;
    if (functions_.rounded) x = d.base + p_.x_pairs, x_set = rows * p_.w.steps;
    for (int64_t i = 0; i < sets; ++i)
        multiply(
            d, Weights::W,
            {x + i * x_set, p_.w.steps, rows, column, columns, d.base + p_.bias + column, y + i * rows * p_.w.columns},
            worker);
}

CellBlock ChunkedRecurrent::chunk_cell(Direction const& d, int64_t chunk_step, int64_t count, int64_t step,
                                       int64_t first, int64_t rows) const {
    auto b = cell_of(d, step, first, rows);
    b.x_row = (info_.batch_first ? count : 1) * p_.w.columns;
    b.x_step = (info_.batch_first ? 1 : s_.batch) * p_.w.columns;
    b.x = d.base + p_.gx + first * b.x_row;
    b.first_position = chunk_position(d, chunk_step, count);
    return b;
}

float* ChunkedRecurrent::pairs_of_states(Direction const& d, int64_t step, int64_t first) const {
    return d.base + p_.h_pairs + ((step & 1 ? s_.batch : 0) + first) * p_.state_row;
}
void ChunkedRecurrent::round_states(float const* states, float* pairs, CellBlock const& b) const {
    auto from = b.first_block * p_.width, to = std::min(s_.hidden, b.last_block * p_.width);
    if (from < to)
        functions_.rounded->round_rows(states + from, p_.padded, b.rows, to - from, pairs + pairs_of(from),
                                       p_.state_row);
}

void ChunkedRecurrent::reset_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block,
                                  int64_t last_block, int worker) const {
    auto const* h = functions_.rounded ? pairs_of_states(d, b.step, first) : b.h;
    multiply_states(d, Weights::R, h, first, b.rows, first_block, last_block, worker);
    b.first_block = first_block, b.last_block = last_block;
    functions_.cell.reset(b);
    if (functions_.rounded) round_states(b.reset, d.base + p_.reset_pairs + first * p_.state_row, b);
}

/// R is read in turns forwards and backwards: what was read last is still in L2.
void ChunkedRecurrent::update_step(Direction const& d, CellBlock b, int64_t first, int64_t first_block,
                                   int64_t last_block, int worker) const {
    // Bytes are made of the states once for all blocks.
    auto wide = info_.quantized ? last_block - first_block : p_.blocks_at_once();
    auto groups = ceil_div(last_block - first_block, wide);
    auto const* h = p_.split ? b.reset : b.h;
    if (functions_.rounded)
        h = p_.split ? d.base + p_.reset_pairs + first * p_.state_row : pairs_of_states(d, b.step, first);
    for (int64_t i = 0; i < groups; ++i) {
        b.first_block = first_block + (b.step & 1 ? groups - 1 - i : i) * wide;
        b.last_block = std::min(last_block, b.first_block + wide);
        multiply_states(d, p_.split ? Weights::Part : Weights::R, h, first, b.rows, b.first_block, b.last_block,
                        worker);
        functions_.cell.update(b);
    }
    b.first_block = first_block, b.last_block = last_block;
    if (functions_.rounded) round_states(b.h_next, pairs_of_states(d, b.step + 1, first), b);
}

void ChunkedRecurrent::walk_together(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const {
    for (auto t = step; t < step + count; ++t) {
        auto parts = s_.directions * p_.column_parts;
        auto each = [&](auto&& body) {
            pool.parallel_for(parts, [&](int64_t i, int worker) {
                auto const& d = all[i / p_.column_parts];
                auto [from, to] = blocks_of(i % p_.column_parts);
                body(d, chunk_cell(d, step, count, t, 0, s_.batch), from, to, worker);
            });
        };
        if (p_.split)
            each([&](Direction const& d, CellBlock const& b, int64_t from, int64_t to, int worker) {
                reset_step(d, b, 0, from, to, worker);
            });
        each([&](Direction const& d, CellBlock const& b, int64_t from, int64_t to, int worker) {
            update_step(d, b, 0, from, to, worker);
        });
    }
}

void ChunkedRecurrent::walk_alone(Direction const& d, int64_t step, int64_t count, int64_t part, int worker) const {
    auto first = s_.batch * part / p_.batch_parts, last = s_.batch * (part + 1) / p_.batch_parts;
    for (auto t = step; t < step + count; ++t) {
        auto b = chunk_cell(d, step, count, t, first, last - first);
        if (p_.split) reset_step(d, b, first, 0, p_.blocks, worker);
        update_step(d, b, first, 0, p_.blocks, worker);
    }
}

void ChunkedRecurrent::run_chunk(Direction const* all, int64_t step, int64_t count, ThreadPool& pool) const {
    auto panel = p_.panel;
    auto panels = ceil_div(p_.w.columns, panel);
    auto work =
        2. * static_cast<double>(count * s_.batch * s_.directions * p_.w.columns) * static_cast<double>(s_.inputs);
    constexpr double kPartOperations = 1e6;  // some 20 µs
    auto wanted = std::min<int64_t>(4 * threads_, static_cast<int64_t>(work / kPartOperations));
    auto parts = threads_ <= 1 ? 1 : std::clamp<int64_t>(ceil_div(wanted, s_.directions), 1, panels);
    if (functions_.rounded)
        pool.parallel_for(s_.directions * parts,
                          [&](int64_t i, int) { round_inputs(all[i / parts], step, count, i % parts, parts); });
    pool.parallel_for(s_.directions * parts, [&](int64_t i, int worker) {
        auto part = i % parts;
        auto from = panels * part / parts * panel;
        auto to = std::min(p_.w.columns, panels * (part + 1) / parts * panel);
        multiply_inputs(all[i / parts], step, count, from, to - from, worker);
    });
    if (p_.column_parts > 1) return walk_together(all, step, count, pool);
    pool.parallel_for(s_.directions * p_.batch_parts, [&](int64_t i, int worker) {
        walk_alone(all[i / p_.batch_parts], step, count, i % p_.batch_parts, worker);
    });
}

void ChunkedRecurrent::walk(Direction const* all, ThreadPool& pool) const {
    for (int64_t step = 0; step < s_.steps; step += p_.chunk)
        run_chunk(all, step, std::min(p_.chunk, s_.steps - step), pool);
}

std::unique_ptr<runtime::Task> recurrent_task(RecurrentFunctions functions, RecurrentInfo const& info,
                                              RecurrentShape const& shape, PackedWeights packed, int threads) {
    if (RecurrentPlan::is_streamed(functions, info, shape))
        return streamed_recurrent_task(functions, info, shape, std::move(packed), threads);
    return std::make_unique<ChunkedRecurrent>(functions, info, shape, std::move(packed), threads);
}

}  // namespace refactor::kernel
