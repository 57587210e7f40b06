#include "conv_chain/row_buffer_task.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/shares.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

float const* floats_of(void* const* arguments, int i) {
    return i < 0 ? nullptr : static_cast<float const*>(arguments[i]);
}

}  // namespace

RowBufferPlan::RowBufferPlan(Geometry const& g, Pointwise const* expand, Pointwise const* project, int block,
                             int threads) {
    auto blocks = ceil_div(g.in_channels, block), rows = g.out[1];
    reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
    kept = expand ? std::max<int64_t>(0, reach - g.stride[1]) : 0;
    chunk_blocks = std::min<int64_t>(2, blocks);
    chunk_tasks = project ? 1 : ceil_div(blocks, chunk_blocks);
    // A part begins with rows that the part before has made too, so that there are no more than it takes to give every
    // thread as much.
    auto units = g.batch * chunk_tasks;
    int64_t wanted = threads == 1 ? 1 : !expand ? 4 * threads : project ? threads : 2 * threads;
    if (expand && !project && cut_at_positions(g.batch, g.out_size(), threads))
        by_rows = true, units = 1, wanted = threads;
    auto even = threads / std::gcd(units, int64_t{threads});
    parts = std::clamp<int64_t>(ceil_div(ceil_div(wanted, units), even) * even, 1, rows);
    auto part_rows = ceil_div(rows, parts);

    auto in_row = g.in[2] * block, out_row = g.out[2] * block;
    auto x_row = (expand ? expand->list.in_units() : blocks) * in_row * g.stride[1];
    auto window = [&](int64_t n) {
        return expand ? std::min(g.in[1], (n - 1) * g.stride[1] + reach) * chunk_blocks * in_row : 0;
    };
    auto middle = [&](int64_t n) { return project ? n * blocks * out_row : 0; };
    kept_floats = kept * chunk_blocks * in_row * (project ? ceil_div(blocks, chunk_blocks) : 1);
    // Everything that a band touches stays in L2, as in `DirectTask`.
    auto budget = static_cast<int64_t>(cpu_features().l2 / sizeof(float)) * 4 / 5;
    auto floats = [&](int64_t n) { return kept_floats + window(n) + middle(n) + n * x_row; };
    band_rows = 1;
    if (floats(part_rows) <= budget)
        band_rows = part_rows;
    else if (floats(1) < budget)
        band_rows =
            std::clamp<int64_t>((budget - floats(1)) / std::max<int64_t>(1, floats(2) - floats(1)) + 1, 1, part_rows);
    band_rows = ceil_div(part_rows, ceil_div(part_rows, band_rows));
    window_floats = window(band_rows), middle_floats = middle(band_rows);
    work = expand ? 1 + static_cast<double>((parts - 1) * kept) / static_cast<double>(g.in[1]) : 1;
}

/// Rows [row, end) of the depthwise output of an image, and where everything is.
struct RowBufferTask::Band {
    void* const* arguments;
    float *kept, *window, *middle;
    int64_t image, row, end;
    int64_t first, last;  ///< rows under the windows of the band
    int64_t done;         ///< rows of `expand` before this are made, those from `first` on kept
    int64_t next_first;   ///< `first` of the band behind
};

RowBufferTask::RowBufferTask(Parts parts, TileIsa const& tile, DepthwiseIsa const& depthwise, int threads)
    : p_(std::move(parts)),
      tile_(&tile),
      depthwise_(&depthwise),
      block_(tile.block),
      blocks_(ceil_div(p_.depthwise.in_channels, block_)),
      plan_(p_.depthwise, p_.expand ? &*p_.expand : nullptr, p_.project ? &*p_.project : nullptr, tile.block,
            std::max(1, threads)) {}

size_t RowBufferTask::scratch_bytes() const { return static_cast<size_t>(plan_.scratch_floats()) * sizeof(float); }

uint64_t RowBufferTask::unread_inputs() const {
    auto unread = uint64_t{1} << p_.operands.weights;
    if (p_.expand) unread |= uint64_t{1} << p_.expand->operands.weights;
    if (p_.project) unread |= uint64_t{1} << p_.project->operands.weights;
    return unread;
}

double RowBufferTask::operations() const {
    auto const& g = p_.depthwise;
    auto channels = static_cast<double>(g.batch * g.in_channels), out = static_cast<double>(g.out_size());
    auto sum = out * static_cast<double>(g.taps());
    if (p_.expand) sum += static_cast<double>(g.in_size() * p_.expand->list.in_channels);
    if (p_.project) sum += out * static_cast<double>(p_.project->list.out_channels);
    return 2 * channels * sum;
}

void RowBufferTask::run(void* const* arguments, runtime::RunContext const& context) const {
    context.pool.parallel_for(p_.depthwise.batch * plan_.parts * plan_.chunk_tasks, [&](int64_t task, int worker) {
        run_task(task, arguments, reinterpret_cast<float*>(context.scratch_of(worker)));
    });
}

void RowBufferTask::run_task(int64_t task, void* const* arguments, float* scratch) const {
    auto const& g = p_.depthwise;
    Band band{};
    auto [chunk, part] = PlaneShares{plan_.chunk_tasks, plan_.parts, plan_.by_rows}.at(task);
    band.image = chunk / plan_.chunk_tasks, chunk %= plan_.chunk_tasks;
    auto end = g.out[1] * (part + 1) / plan_.parts;
    auto first_of = [&](int64_t row) { return std::clamp<int64_t>(row * g.stride[1] - g.pad[1], 0, g.in[1]); };
    band.arguments = arguments;
    band.kept = scratch, band.window = band.kept + plan_.kept_floats, band.middle = band.window + plan_.window_floats;
    for (band.row = g.out[1] * part / plan_.parts; band.row < end; band.row = band.end) {
        band.end = std::min(end, band.row + plan_.band_rows);
        band.first = first_of(band.row), band.next_first = first_of(band.end);
        band.last = std::clamp((band.end - 1) * g.stride[1] - g.pad[1] + plan_.reach, band.first, g.in[1]);
        band.done = std::max(band.done, band.first);
        if (p_.project) {
            for (int64_t c = 0; c * plan_.chunk_blocks < blocks_; ++c) run_chunk(band, c);
            project(band);
        } else {
            run_chunk(band, chunk);
        }
        band.done = band.last;
    }
}

float* RowBufferTask::kept_rows(Band const& band, int64_t chunk) const {
    auto rows = plan_.kept * plan_.chunk_blocks * (p_.project ? chunk : 0);
    return band.kept + rows * p_.depthwise.in[2] * block_;
}

void RowBufferTask::run_chunk(Band const& band, int64_t chunk) const {
    auto const& g = p_.depthwise;
    auto first_block = chunk * plan_.chunk_blocks, end_block = std::min(blocks_, first_block + plan_.chunk_blocks);
    auto in_row = g.in[2] * block_, out_row = g.out[2] * block_;
    if (p_.expand) expand(band, chunk);
    auto* residual = floats_of(band.arguments, p_.residual);
    auto* output = static_cast<float*>(band.arguments[p_.output]);
    for (auto b = first_block; b < end_block; ++b) {
        auto plane = band.image * blocks_ + b;
        // Rows are numbered as in the whole tensors, of which a window holds those from `first` on, and `middle` those
        // from `row` on.
        auto* x = p_.expand ? band.window + (b - first_block) * window_block() - band.first * in_row
                            : floats_of(band.arguments, 0) + plane * g.in[1] * in_row;
        auto* y =
            p_.project ? band.middle + (b * plan_.band_rows - band.row) * out_row : output + plane * g.out[1] * out_row;
        depthwise(band, b, x, y, p_.project || !residual ? nullptr : residual + plane * g.out[1] * out_row);
    }
    if (p_.expand) keep(band, chunk);
}

void RowBufferTask::expand(Band const& band, int64_t chunk) const {
    auto const& g = p_.depthwise;
    auto const& list = p_.expand->list;
    auto const& part = list.chunks[static_cast<size_t>(chunk)];
    auto in_row = g.in[2] * block_;
    auto held = static_cast<size_t>((band.done - band.first) * in_row);
    auto* kept = kept_rows(band, chunk);
    for (int32_t b = 0; held && b < part.blocks; ++b)
        std::memcpy(band.window + b * window_block(), kept + b * plan_.kept * in_row, held * sizeof(float));
    if (band.last <= band.done) return;
    RowJob job{};
    job.x = floats_of(band.arguments, 0) + (band.image * list.in_units() * g.in[1] + band.done) * in_row;
    job.tap_step = g.in[1] * in_row;
    job.rows = 1, job.cols = static_cast<int32_t>((band.last - band.done) * g.in[2]);
    job.y = band.window + (band.done - band.first) * in_row;
    job.y_block = window_block(), job.y_step = block_;
    run_tile(*p_.expand, part, band.arguments, job);
}

void RowBufferTask::keep(Band const& band, int64_t chunk) const {
    auto in_row = p_.depthwise.in[2] * block_;
    if (band.last <= band.next_first) return;
    auto count = static_cast<size_t>((band.last - band.next_first) * in_row);
    auto* kept = kept_rows(band, chunk);
    for (int32_t b = 0; b < p_.expand->list.chunks[static_cast<size_t>(chunk)].blocks; ++b)
        std::memcpy(kept + b * plan_.kept * in_row,
                    band.window + b * window_block() + (band.next_first - band.first) * in_row, count * sizeof(float));
}

void RowBufferTask::depthwise(Band const& band, int64_t b, float const* x, float* y, float const* residual) const {
    auto const& g = p_.depthwise;
    auto* bias = floats_of(band.arguments, p_.operands.bias);
    depthwise_->rows({x,
                      static_cast<float const*>(p_.weights->data()) + b * g.taps() * block_,
                      bias ? bias + b * block_ : nullptr,
                      residual,
                      y,
                      g.in[1],
                      g.in[2],
                      g.out[2],
                      band.row,
                      band.end,
                      g.kernel[1],
                      g.kernel[2],
                      g.stride[1],
                      g.stride[2],
                      g.dilation[1],
                      g.dilation[2],
                      g.pad[1],
                      g.pad[2],
                      1,
                      static_cast<int32_t>(std::min(block_, g.out_channels - b * block_)),
                      p_.residual_last,
                      p_.activation});
}

void RowBufferTask::project(Band const& band) const {
    auto const& g = p_.depthwise;
    auto out_row = g.out[2] * block_;
    auto* residual = floats_of(band.arguments, p_.residual);
    auto* output = static_cast<float*>(band.arguments[p_.output]);
    for (auto const& part : p_.project->list.chunks) {
        auto at = ((band.image * ceil_div(p_.project->list.out_channels, block_) + part.first) * g.out[1] + band.row) *
                  out_row;
        RowJob job{};
        job.x = band.middle, job.tap_step = plan_.band_rows * out_row;
        job.rows = 1, job.cols = static_cast<int32_t>((band.end - band.row) * g.out[2]);
        job.y = output + at, job.residual = residual ? residual + at : nullptr, job.residual_last = p_.residual_last;
        job.y_block = g.out[1] * out_row, job.y_step = block_;
        run_tile(*p_.project, part, band.arguments, job);
    }
}

void RowBufferTask::run_tile(Pointwise const& stage, Chunk const& chunk, void* const* arguments, RowJob& job) const {
    stage.list.describe(chunk, job);
    auto* bias = floats_of(arguments, stage.operands.bias);
    job.w = static_cast<float const*>(stage.weights->data()) + chunk.weights;
    job.bias = bias ? bias + chunk.first * block_ : nullptr;
    job.activation = stage.activation;
    tile_->rows(job);
}

}  // namespace refactor::kernel
