#include "elementwise/tile_task.h"

#include "common/thread_pool.h"
#include "movement/movement.h"

#include <cstring>

namespace refactor::kernel::elementwise {

namespace {

/// `n` copies of one element of 1, 2, 4 or 8 bytes.
void repeat(std::byte* to, std::byte const* from, int64_t n, int size) {
    switch (size) {
        case 1:
            return static_cast<void>(std::memset(to, static_cast<int>(*from), n));
        case 2:
            return movement::fill_words(to, movement::load<uint16_t>(from), n);
        case 4:
            return movement::fill_words(to, movement::load<uint32_t>(from), n);
        default:
            return movement::fill_words(to, movement::load<uint64_t>(from), n);
    }
}

}  // namespace

/// Where a row is: its coordinates on the outer axes.
struct TileTask::Cursor {
    LoopNest const& nest;
    Dims at;

    Cursor(LoopNest const& n, int64_t row) : nest(n), at(n.outer.size()) {
        for (auto i = at.size(); i-- > 0; row /= nest.outer[i]) at[i] = row % nest.outer[i];
    }
    void next() {
        for (auto i = at.size(); i-- > 0 && ++at[i] == nest.outer[i];) at[i] = 0;
    }
    int64_t offset(Dims const& strides) const {
        int64_t sum = 0;
        for (size_t i = 0; i < at.size(); ++i) sum += at[i] * strides[i];
        return sum;
    }
};

void TileTask::run(void* const* arguments, runtime::RunContext const& context) const {
    if (context.pool.threads() == 1 || chunks_ <= 1) return run_chunk(arguments, context.scratch_of(0), 0, 1);
    context.pool.parallel_for(
        chunks_, [&](int64_t i, int worker) { run_chunk(arguments, context.scratch_of(worker), i, chunks_); });
}

std::byte** TileTask::prepare(void* const* arguments, std::byte* scratch) const {
    auto** slots = reinterpret_cast<std::byte**>(scratch);
    scratch += (slots_ * sizeof(void*) + 63) / 64 * 64;
    for (int32_t i = 0; i < first_constant_; ++i) slots[i] = static_cast<std::byte*>(arguments[i]);
    auto const& constants = program_->constants;
    // Constants are only read.
    for (size_t i = 0; i < constants.size(); ++i)
        slots[first_constant_ + i] = const_cast<std::byte*>(constants[i].bytes);
    for (int32_t i = 0; i < blocks_; ++i, scratch += kRepeatBytes) slots[first_block_ + i] = scratch;
    for (int32_t i = 0; i < buffers_; ++i, scratch += buffers_bytes()) slots[first_buffer_ + i] = scratch;
    for (auto const& fill : fills_)
        if (fill.access == Access::Uniform)
            repeat(slots[fill.slot], static_cast<std::byte*>(arguments[fill.input]), kRepeat, fill.size);
    for (auto const& op : prologue_) op.run(op, slots, kRepeat);
    return slots;
}

void TileTask::run_chunk(void* const* arguments, std::byte* scratch, int64_t chunk, int64_t chunks) const {
    if (units_ == 0) return;
    auto** slots = prepare(arguments, scratch);
    if (!by_columns_) return run_units(arguments, slots, units_ * chunk / chunks, units_ * (chunk + 1) / chunks);
    auto first = tiles_per_row_ * chunk / chunks, last = tiles_per_row_ * (chunk + 1) / chunks;
    for (int64_t unit = 0; unit < units_; unit += tiles_per_row_)
        run_units(arguments, slots, unit + first, unit + last);
}

void TileTask::run_units(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const {
    if (nest_.linear)
        run_linear(arguments, slots, begin, end);
    else if (packed_)
        run_packed(arguments, slots, begin, end);
    else
        run_rows(arguments, slots, begin, end);
}

void TileTask::move_streams(void* const* arguments, std::byte** slots, int64_t element) const {
    for (auto const& stream : streams_)
        slots[stream.slot] = static_cast<std::byte*>(arguments[stream.slot]) + element * stream.bytes;
}

void TileTask::run_linear(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const {
    if (units_ == 1) return run_body(slots, nest_.row);
    auto row = begin / tiles_per_row_, part = begin % tiles_per_row_;
    for (auto unit = begin; unit < end; ++unit) {
        auto column = part * tile_;
        move_streams(arguments, slots, row * nest_.row + column);
        run_body(slots, std::min(tile_, nest_.row - column));
        if (++part == tiles_per_row_) part = 0, ++row;
    }
}

/// Whether a row of a blocked layout has channels that do not exist.
bool TileTask::in_last_block(Cursor const& at) const { return nest_.valid && at.at[1] == nest_.outer[1] - 1; }

/// The block of a RowScalar or Pattern for the row at `at`.
void TileTask::fill_row(Fill const& fill, std::byte const* input, std::byte* block, Cursor const& at) const {
    auto const& nest_input = nest_.inputs[fill.input];
    auto* from = input + at.offset(nest_input.strides) * fill.size;
    if (fill.access == Access::RowScalar) return repeat(block, from, kRepeat, fill.size);
    auto bytes = int64_t{nest_.block} * fill.size, valid = bytes;
    if (nest_input.partial && in_last_block(at)) valid = int64_t{nest_.valid} * fill.size;
    for (auto* to = block; to < block + kRepeat * fill.size; to += bytes) {
        std::memcpy(to, from, static_cast<size_t>(valid));
        if (valid < bytes) std::memset(to + valid, 0, static_cast<size_t>(bytes - valid));
    }
}

/// What zeros become is the same at all positions, unless an operand has one value for a position.
void TileTask::clear_padding(std::byte** slots, int64_t n) const {
    static constexpr std::byte kZeros[kRepeatBytes]{};
    auto inputs = program_->input_bytes.size();
    for (size_t i = 0; i < program_->output_bytes.size(); ++i) {
        auto size = program_->output_bytes[i];
        auto const* first = slots[inputs + i] + nest_.valid * size;
        if (spreads_.empty() && std::memcmp(first, kZeros, (nest_.block - nest_.valid) * size) == 0) continue;
        for (int64_t at = nest_.valid; at < n; at += nest_.block)
            std::memset(slots[inputs + i] + at * size, 0, (nest_.block - nest_.valid) * size);
    }
}

void TileTask::run_rows(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const {
    auto row = begin / tiles_per_row_, part = begin % tiles_per_row_;
    Cursor at(nest_, row);
    bool fresh = true;
    for (auto unit = begin; unit < end; ++unit) {
        auto column = part * tile_, n = std::min(tile_, nest_.row - column);
        move_streams(arguments, slots, row * nest_.row + column);
        for (auto const& fill : fills_) {
            auto* input = static_cast<std::byte*>(arguments[fill.input]);
            if (fill.access == Access::Row)
                slots[fill.slot] = input + (at.offset(nest_.inputs[fill.input].strides) + column) * fill.size;
            else if (fresh && fill.access != Access::Uniform)
                fill_row(fill, input, slots[fill.slot], at);
        }
        for (auto const& op : row_prologue_)
            if (fresh) op.run(op, slots, kRepeat);
        for (auto const& operand : spreads_)
            operand.spread.run(static_cast<std::byte*>(arguments[operand.input]), slots[operand.slot],
                               (row * nest_.row + column) / nest_.block, n / nest_.block);
        run_body(slots, n);
        if (in_last_block(at)) clear_padding(slots, n);
        fresh = ++part == tiles_per_row_;
        if (fresh) part = 0, ++row, at.next();
    }
}

void TileTask::run_packed(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const {
    for (auto unit = begin; unit < end; ++unit) {
        auto row = unit * tile_, rows = std::min(tile_, nest_.rows - row);
        move_streams(arguments, slots, row * nest_.row);
        for (auto const& operand : spreads_)
            if (!operand.once || unit == begin)
                operand.spread.run(static_cast<std::byte*>(arguments[operand.input]), slots[operand.slot], row, rows);
        run_body(slots, rows * nest_.row);
    }
}

}  // namespace refactor::kernel::elementwise
