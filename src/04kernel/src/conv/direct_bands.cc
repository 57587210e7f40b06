// How a direct convolution is divided: bands of positions for the threads, and parts of the units of input.
#include "common/cpu_features.h"
#include "conv/direct_task.h"
#include "conv/shares.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Positions of a band whose products take longer than the parts of weights.
constexpr int64_t kLeastInParts = 128;

/// Bytes of two panels of weights in parts that stay in L2 beside the band.
constexpr int64_t kPanelBytes = 512 << 10;

/// Weights of so many times the input are read by two threads in the time that it takes to write over an input which
/// both have read.
constexpr int64_t kWeightsPerInput = 8;

}  // namespace

void DirectTask::plan_input() {
    bool flat = g_.taps() == 1 && !g_.padded() && g_.stride[2] == 1 && std::equal(g_.in, g_.in + 3, g_.out);
    bool one_plane = g_.kernel[0] == 1 && g_.pad[0] == 0 && g_.pad_end[0] == 0;
    // Of the other axes no padding is read.
    bool in_place = skipped_.any() && one_plane && (skipped_.columns || (g_.pad[2] == 0 && g_.pad_end[2] == 0));
    copies_ = (isa_->channels > 1 && !rounded_.x) || in_parts() || g_.stride[2] != 1 || (g_.padded() && !in_place);
    planes_ = g_.out[0], rows_ = g_.out[1], columns_ = g_.out[2];
    if (flat) {
        planes_ = rows_ = 1, columns_ = g_.out_size();
        for (int axis = 0; axis < 2; ++axis) g_.in[2] *= g_.in[axis], g_.in[axis] = g_.out[axis] = 1;
        g_.out[2] = columns_;
    } else if (copies_ && isa_->read_behind > 0 && (g_.stride[1] > 1 || (g_.stride[2] > 1 && g_.dilation[1] == 1))) {
        phases_are_planes_ = true;
        row_phases_ = phases_of(1), column_phases_ = phases_of(2);
        phases_ = static_cast<int64_t>(row_phases_.size() * column_phases_.size());
        row_reach_ = (g_.kernel[1] - 1) * g_.dilation[1] / g_.stride[1];
        reach_ = (g_.kernel[2] - 1) * g_.dilation[2] / g_.stride[2];
    } else if (copies_) {
        phases_ = g_.stride[2], phase_mask_ = 0;
        for (int64_t v = 0; v < g_.kernel[2]; ++v) phase_mask_ |= int64_t{1} << v * g_.dilation[2] % phases_ % 64;
        reach_ = (g_.kernel[2] - 1) * g_.dilation[2] / phases_;
        if (!skipped_.any() && g_.stride[1] == 1 && g_.kernel[1] > 1) row_step_ = g_.dilation[1];
        rows_ = ceil_div(g_.out[1], row_step_);
    }
}

/// Of the input positions modulo the stride of an axis, those that taps read, in order of taps.
SmallVector<int64_t, 8> DirectTask::phases_of(int axis) const {
    SmallVector<int64_t, 8> phases;
    for (int64_t tap = 0; tap < g_.kernel[axis]; ++tap) {
        auto phase = tap * g_.dilation[axis] % g_.stride[axis];
        if (std::find(phases.begin(), phases.end(), phase) == phases.end()) phases.push_back(phase);
    }
    return phases;
}

/// Blocks from the begin of the copy to what tap (h, v) reads for the first position of a plane of a unit.
int64_t DirectTask::offset_in_planes(int64_t plane, int64_t h, int64_t v) const {
    auto index_of = [&](SmallVector<int64_t, 8> const& phases, int64_t phase) {
        return static_cast<int64_t>(std::find(phases.begin(), phases.end(), phase) - phases.begin());
    };
    auto row = h * g_.dilation[1], column = v * g_.dilation[2];
    auto phase = index_of(row_phases_, row % g_.stride[1]) * static_cast<int64_t>(column_phases_.size()) +
                 index_of(column_phases_, column % g_.stride[2]);
    auto at = (plane * phases_ + phase) * input_rows(band_rows_) + row / g_.stride[1];
    return at * (band_columns_ + reach_) + column / g_.stride[2];
}

int64_t DirectTask::input_rows(int64_t rows) const {
    if (phases_are_planes_) return rows + row_reach_;
    if (row_step_ > 1) return rows + g_.kernel[1] - 1;
    if (g_.kernel[1] == 1) return rows;
    auto all = (rows - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1;
    return copies_ ? all : std::min(all, rows * g_.kernel[1]);
}

int64_t DirectTask::band_floats(int64_t rows, int64_t columns) const {
    return band_units() * g_.kernel[0] * input_rows(rows) * phases_ * (columns + reach_) * unit_;
}

/// The largest number of bands up to `most` that gives the threads as much as any, but for 2 %.
int64_t DirectTask::even_bands(int64_t extent, int64_t most) const {
    constexpr double kBand = 0.1;  ///< what a band costs by itself, in units of the extent
    auto cost = [&](int64_t count) {
        auto size = ceil_div(extent, count);
        return static_cast<double>(ceil_div(ceil_div(extent, size), threads_)) * (static_cast<double>(size) + kBand);
    };
    most = std::min(most, extent);
    auto least = cost(most);
    for (auto count = most; count >= std::min<int64_t>(threads_, most); --count) least = std::min(least, cost(count));
    while (cost(most) > 1.02 * least) --most;
    return most;
}

void DirectTask::plan_bands() {
    auto l2 = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
    int64_t panel = 0;
    for (auto const& chunk : list_.chunks)
        panel = std::max(
            panel, std::min<int64_t>(chunk.in_blocks, part_units_) * unit_ * g_.taps() * chunk.blocks * list_.block);
    if (in_parts()) panel = 2 * panel_steps_ * PanelsInParts::kStepFloats;
    // The weights of a part and the input of a band stay in L2 together.
    auto budget = std::max(l2 * 4 / 5 - panel, l2 / 4);
    if (in_parts()) budget = std::min(budget, std::max(l2 / 4, band_floats(1, 2 * kLeastInParts)));
    bool by_columns = rows_ == 1;
    // Bands of weights in parts are few, and end where those of other steps do rather than with a tile.
    auto const unit = int64_t{in_parts() ? 2 : isa_->columns};
    auto extent = by_columns ? ceil_div(columns_, unit) : rows_;
    auto floats = [&](int64_t n) { return by_columns ? band_floats(1, n * unit) : band_floats(n, columns_); };
    int64_t size = extent;
    // Weights that L2 does not hold are read from it by rows of the window, each of which serves many rows of outputs.
    if (floats(size) > budget && !(by_window_rows_ && !copies_)) {
        auto marginal = std::max<int64_t>(1, floats(2) - floats(1));
        size = std::clamp<int64_t>((budget - floats(1)) / marginal + 1, 1, extent);
    }
    auto count = ceil_div(extent, size), images = g_.batch * planes_ * row_step_;
    auto wanted = int64_t{threads_ == 1 ? 1 : 4 * threads_};
    // Of weights in parts bands make all again.
    if (in_parts() && threads_ > 1)
        wanted = std::clamp<int64_t>(images * rows_ * columns_ / kLeastInParts, threads_, wanted);
    // With few tasks, divide what costs less to read twice: the input between chunks, or the weights between bands.
    auto most = cut_at_positions(g_.batch, g_.out_size(), threads_) ? kWeightsPerInput : 1;
    if (images * count < wanted && list_.floats <= most * band_floats(rows_, columns_))
        count = even_bands(extent, ceil_div(wanted, images));
    size = ceil_div(extent, count), count = ceil_div(extent, size);
    splits_ = std::clamp<int64_t>(ceil_div(wanted, images * count), 1, static_cast<int64_t>(list_.chunks.size()));
    band_rows_ = by_columns ? 1 : size, band_columns_ = by_columns ? std::min(columns_, size * unit) : columns_;
    row_bands_ = by_columns ? 1 : count, column_bands_ = by_columns ? count : 1;
    if (by_columns || size > 1 || floats(1) <= budget) return;
    // Even one row is too much, so that it is cut as well; at least four tiles long, for what bands read twice.
    int64_t const tile = isa_->columns;
    auto tiles = ceil_div(columns_, tile), first = band_floats(1, tile);
    auto fit = (budget - first) / std::max<int64_t>(1, band_floats(1, 2 * tile) - first) + 1;
    auto cuts = ceil_div(tiles, std::clamp<int64_t>(fit, std::min<int64_t>(4, tiles), tiles));
    band_columns_ = std::min(columns_, ceil_div(tiles, cuts) * tile);
    column_bands_ = ceil_div(columns_, band_columns_);
}

void DirectTask::plan_parts() {
    part_units_ = list_.in_units();
    if (in_parts()) {
        auto most = std::max<int64_t>(1, kPanelBytes / 2 / 4 / (PanelsInParts::kStepFloats * g_.taps()));
        auto pairs = ceil_div(part_units_, 2);
        part_units_ = 2 * ceil_div(pairs, ceil_div(pairs, most));
        panel_steps_ = part_units_ / 2 * g_.taps();
        return;
    }
    if (skipped_.any() || isa_->columns > 8) return;
    // AVX2: a vector of weights serves so few positions that it is read again all the time: as much of them as two L1
    // hold, which stays in L2 beside the input and arrives in time from there.
    auto unit_floats = unit_ * g_.taps() * 2 * list_.block;
    auto most = static_cast<int64_t>(cpu_features().l1d * 2 / sizeof(float)) / unit_floats;
    // Sums are stored and loaded once more for each part, which at least 128 multiply-adds repay.
    most = std::max(most, ceil_div(128, unit_ * g_.taps()));
    part_units_ = ceil_div(part_units_, ceil_div(part_units_, most));
}

}  // namespace refactor::kernel
