#include "conv/shares.h"
#include "elementwise/tile_task.h"

namespace refactor::kernel::elementwise {

namespace {

constexpr int64_t kLeastTile = 256, kMostTile = 4096;
/// Shorter rows than this are packed, several to a tile: a row costs about 20 ns however short it is.
constexpr int64_t kShortRow = 160;
/// A fork-join costs about 1 µs; less work than this is not worth sharing, and pieces should last this long, in ns.
constexpr double kShareWork = 40e3, kPieceWork = 10e3;
/// ns for a byte that comes from or goes to the outer caches.
constexpr double kByteTime = 0.05;

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

TileTask::TileTask(std::shared_ptr<TileProgram const> program, LoopNest nest, int threads)
    : program_(std::move(program)), nest_(std::move(nest)) {
    auto const& p = *program_;
    packed_ = nest_.rows > 1 && nest_.row < kShortRow && nest_.block == 1;
    slot_of_.resize(p.values.size()), repeated_.resize(p.values.size()), padded_.resize(p.values.size());
    first_constant_ = static_cast<int32_t>(p.input_bytes.size() + p.output_bytes.size());
    first_block_ = first_constant_ + static_cast<int32_t>(p.constants.size());
    widest_ = p.temporary_bytes;
    assign_inputs();
    assign_steps();
    choose_tile(threads);
    find_in_place();
    slots_ = first_buffer_ + buffers_;
    worker_bytes_ = static_cast<size_t>(round_up(slots_ * int64_t{sizeof(void*)}, 64) + blocks_ * kRepeatBytes +
                                        round_up(buffers_ * buffers_bytes(), 64));
}

void TileTask::assign_inputs() {
    auto const& p = *program_;
    for (size_t v = 0; v < p.values.size(); ++v) {
        auto const& value = p.values[v];
        if (value.kind == Value::Kind::Constant) {
            slot_of_[v] = static_cast<uint16_t>(first_constant_ + value.index);
            repeated_[v] = padded_[v] = true;
        }
        if (value.kind != Value::Kind::Input) continue;
        auto const& input = nest_.inputs[value.index];
        if (input.access == Access::Unused) continue;
        auto size = static_cast<uint8_t>(input.bytes);
        slot_of_[v] = value.index;
        if (input.access == Access::Linear) {
            streams_.push_back({value.index, size});
        } else if (input.access == Access::Position || (packed_ && input.access != Access::Uniform)) {
            padded_[v] = true;
            widest_ = std::max<int64_t>(widest_, size);
            spreads_.push_back({value.index, static_cast<uint16_t>(v), false, Spread(nest_, input, p.isa)});
        } else {
            repeated_[v] = padded_[v] = input.access != Access::Row;
            if (repeated_[v]) slot_of_[v] = add_block();
            fills_.push_back({value.index, slot_of_[v], input.access, size});
        }
    }
    for (size_t i = 0; i < p.output_bytes.size(); ++i)
        streams_.push_back({static_cast<uint16_t>(p.input_bytes.size() + i), static_cast<uint16_t>(p.output_bytes[i])});
}

/// Gives a block to every step whose operands are repeated; `uniform` becomes true of values that are the same
/// everywhere, `repeats` of steps that are made once for a row at most.
void TileTask::assign_blocks(Flags& uniform, Flags& repeats) {
    auto const& p = *program_;
    for (size_t v = 0; v < p.values.size(); ++v) {
        auto const& value = p.values[v];
        uniform[v] = value.kind == Value::Kind::Constant ||
                     (value.kind == Value::Kind::Input && nest_.inputs[value.index].access == Access::Uniform);
    }
    for (auto const& step : p.steps) {
        bool all = p.values[step.result].output < 0, everywhere = all;
        for (int k = 0; k < step.arity; ++k) {
            all = all && repeated_[step.operands[k]];
            everywhere = everywhere && uniform[step.operands[k]];
        }
        if (!all) continue;
        uniform[step.result] = everywhere, repeats[step.result] = true;
        repeated_[step.result] = padded_[step.result] = true;
        slot_of_[step.result] = add_block();
    }
}

void TileTask::assign_steps() {
    auto const& p = *program_;
    Flags uniform(p.values.size()), repeats(p.values.size());
    assign_blocks(uniform, repeats);
    first_buffer_ = first_block_ + blocks_;
    for (auto& [input, slot, once, spread] : spreads_) {
        auto value = slot;
        slot = slot_of_[value] = static_cast<uint16_t>(first_buffer_ + buffers_++);
    }

    SmallVector<uint16_t, 16> idle;
    for (size_t i = 0; i < p.steps.size(); ++i) {
        auto const& step = p.steps[i];
        auto const& result = p.values[step.result];
        auto release = [&](uint16_t v, bool same_size) {
            auto const& value = p.values[v];
            if (value.kind != Value::Kind::Step || value.output >= 0 || repeats[v]) return;
            if (value.last_use != static_cast<int32_t>(i)) return;
            if ((bits_of(value.type) == bits_of(result.type)) != same_size) return;
            for (auto buffer : idle)
                if (buffer == slot_of_[v]) return;
            idle.push_back(slot_of_[v]);
        };
        if (!repeats[step.result]) {
            // An operand of the same size that ends here may be overwritten block by block.
            for (int k = 0; k < step.arity; ++k) release(step.operands[k], true);
            padded_[step.result] = result.output < 0;
            if (result.output >= 0) {
                slot_of_[step.result] = static_cast<uint16_t>(p.input_bytes.size() + result.output);
            } else if (idle.empty()) {
                slot_of_[step.result] = static_cast<uint16_t>(first_buffer_ + buffers_++);
            } else {
                slot_of_[step.result] = idle.back();
                idle.pop_back();
            }
            for (int k = 0; k < step.arity; ++k) release(step.operands[k], false);
        }
        TileOp op{step.run, slot_of_[step.result], {}, 0, padded_[step.result] != 0, step.alpha, step.beta};
        for (int k = 0; k < step.arity; ++k) {
            op.in[k] = slot_of_[step.operands[k]];
            op.repeated |= static_cast<uint8_t>((repeated_[step.operands[k]] ? 1 : 0) << k);
            op.padded = op.padded && padded_[step.operands[k]];
        }
        (uniform[step.result] ? prologue_ : repeats[step.result] ? row_prologue_ : body_).push_back(op);
    }
}

double TileTask::work() const {
    int64_t bytes = 0;
    for (auto const& stream : streams_) bytes += stream.bytes;
    return static_cast<double>(nest_.count()) * (program_->cost + static_cast<double>(bytes) * kByteTime);
}

/// Whether rows are, or could be, planes of a blocked layout that are cut as those of the convolutions around.
bool TileTask::has_planes(int threads) const {
    auto const& p = nest_.positions;
    if (packed_ || p.size() < 3) return false;
    int64_t positions = 1;
    for (size_t i = 2; i < p.size(); ++i) positions *= p[i];
    auto plane = positions * nest_.block;
    return cut_at_positions(p[0], positions, threads) && plane / kLeastTile >= threads &&
           (nest_.linear || nest_.row == plane);
}

void TileTask::choose_tile(int threads) {
    // Half of L1 for the streams and the temporaries of one tile.
    int64_t bytes = buffers_ * widest_;
    for (auto const& stream : streams_) bytes += stream.bytes;
    auto l1 = static_cast<int64_t>(cpu_features().l1d) / 2;
    auto most = std::clamp(l1 / std::max<int64_t>(bytes, 1) / 64 * 64, kLeastTile, kMostTile);
    auto count = nest_.count();
    if (count == 0) return;
    bool const shared = threads > 1 && work() >= kShareWork;
    by_columns_ = shared && has_planes(threads);
    if (by_columns_ && nest_.linear) nest_.rows = nest_.positions[0] * nest_.positions[1], nest_.row /= nest_.rows;
    if (packed_) {
        tile_ = std::min(std::max<int64_t>(1, most / nest_.row), nest_.rows);
        // Of operands that start again, whole periods where a tile holds them: shorter periods divide longer ones.
        int64_t period = 1;
        for (auto const& input : spreads_)
            if (auto rows = input.spread.period(); rows <= tile_) period = std::max(period, rows);
        tile_ -= tile_ % period;
        for (auto& input : spreads_) input.once = tile_ % input.spread.period() == 0;
        units_ = (nest_.rows + tile_ - 1) / tile_;
        tile_padded_ = round_up(tile_ * nest_.row, kBlock);
    } else {
        tiles_per_row_ = std::max<int64_t>(1, (nest_.row + most - 1) / most);
        if (by_columns_)
            tiles_per_row_ =
                round_up(tiles_per_row_, nest_.row / kLeastTile >= 2 * threads ? 2 * threads : int64_t{threads});
        tile_ = round_up((nest_.row + tiles_per_row_ - 1) / tiles_per_row_, kRepeat);
        tiles_per_row_ = std::max<int64_t>(1, (nest_.row + tile_ - 1) / tile_);
        units_ = nest_.rows * tiles_per_row_;
        tile_padded_ = tile_;
    }
    if (!shared) return;
    auto pieces = std::min(static_cast<int64_t>(work() / kPieceWork), int64_t{8} * threads);
    // As many for every thread, so that all steps give it the same positions.
    if (by_columns_) pieces = std::max<int64_t>(1, pieces / threads) * threads;
    chunks_ = std::min(by_columns_ ? tiles_per_row_ : units_, pieces);
}

void TileTask::find_in_place() {
    // Conservative: output 0 may only overwrite what no later step reads, and any input of that size may be the same
    // memory.
    auto const& p = *program_;
    auto bytes = p.output_bytes[0];
    int32_t written = -1, read = -1;
    for (size_t i = 0; i < p.steps.size(); ++i)
        if (p.values[p.steps[i].result].output == 0) written = static_cast<int32_t>(i);
    for (auto const& value : p.values)
        if (value.kind == Value::Kind::Input && nest_.inputs[value.index].access == Access::Linear)
            read = std::max(read, value.last_use);
    if (read > written) return;
    for (auto const& value : p.values) {
        if (value.kind != Value::Kind::Input || value.index >= 64) continue;
        auto const& input = nest_.inputs[value.index];
        if (input.access == Access::Linear && input.bytes == bytes) in_place_ |= uint64_t{1} << value.index;
    }
}

double TileTask::operations() const { return static_cast<double>(nest_.count()) * static_cast<double>(body_.size()); }

}  // namespace refactor::kernel::elementwise
