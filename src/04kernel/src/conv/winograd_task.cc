#include "conv/winograd_task.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/shares.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Places of products of which one input of each tile takes `floats`: an odd number of cache lines apart, so that the
/// streams of a transform do not share a cache set.
std::vector<int64_t> places(WinogradForm const& form, int64_t floats) {
    std::vector<int64_t> result{0};
    for (int64_t p = 0; p < form.products(); ++p)
        result.push_back(result.back() + ceil_div(floats * form.sharing(p), 32) * 32 + 16);
    return result;
}

/// Tiles of one phase along an axis.
int64_t phase_tiles(Geometry const& g, WinogradForm const& form, int axis) {
    return ceil_div(ceil_div(g.out[axis], g.dilation[axis]), form.tile[axis - 1]);
}

}  // namespace

WinogradPlan::WinogradPlan(Geometry const& g, WinogradForm const& form, int threads) {
    tiles = g.batch * g.out[0] * g.dilation[1] * phase_tiles(g, form, 1) * g.dilation[2] * phase_tiles(g, form, 2);
    // Transformed inputs and products of a block fill L2 at most, but a block is at least two register tiles: it reads
    // all transformed weights, so that with fewer the L3 cache could not keep up.
    auto sources = g.kernel[0] * form.pieces();
    auto bytes = form.inputs() * (g.in_channels * sources + g.out_channels) * static_cast<int64_t>(sizeof(float));
    auto target = std::clamp<int64_t>(static_cast<int64_t>(cpu_features().l2) / bytes / 14 * 14, 28, 56);
    blocks = ceil_div(tiles, target);
    // Threads that can take whole groups do.
    bool even = g.group % std::max(1, threads) == 0;
    if (threads > 1 && blocks * g.group < 8 * threads && !even) blocks = ceil_div(blocks, threads) * threads;
    block_tiles = ceil_div(tiles, blocks);
    // Filters that L2 keeps may be read by every thread.
    auto filters = form.products() * g.in_channels * sources * g.out_channels * static_cast<int64_t>(sizeof(float));
    bool kept = filters <= static_cast<int64_t>(cpu_features().l2) && cut_at_positions(g.batch, g.out_size(), threads);
    shared = threads > 1 && block_tiles < (kept ? 6 : 12) && !even;
    if (shared) blocks = ceil_div(tiles, 112), block_tiles = ceil_div(tiles, blocks);
    blocks = ceil_div(tiles, block_tiles);
}

ChunkList winograd_chunks(Geometry const& g, WinogradForm const& form, int block) {
    auto sources = g.kernel[0] * form.pieces();
    auto in = sources == 1 ? g.in_channels : ceil_div(g.in_channels, block) * block * sources;
    return {block, false, in, g.out_channels, 1, 1};
}

WinogradTask::WinogradTask(Geometry const& g, WinogradForm const& form, Epilogue const& epilogue, TileIsa const& tile,
                           WinogradIsa const& isa, int threads, std::shared_ptr<mem_manager::Blob const> packed)
    : WinogradTask(g, form, epilogue, tile, isa, threads, std::move(packed),
                   {.out_rows = g.out[1], .out_cols = g.out[2], .blocks = ceil_div(g.out_channels, tile.block)},
                   g.out_channels,
                   2. * static_cast<double>(g.batch * g.group * g.out_channels * g.out_size()) *
                       static_cast<double>(g.in_channels * g.taps())) {}

WinogradTask::WinogradTask(Geometry const& g, WinogradForm const& form, Epilogue const& epilogue, TileIsa const& tile,
                           WinogradIsa const& isa, int threads, std::shared_ptr<mem_manager::Blob const> packed,
                           WinogradWeave const& weave, int64_t channels, double operations)
    : g_(g),
      form_(form),
      epilogue_(epilogue),
      operands_(epilogue),
      tile_(&tile),
      isa_(&isa),
      list_(winograd_chunks(g, form, tile.block)),
      plan_(g, form, threads),
      threads_(std::max(1, threads)),
      packed_(std::move(packed)),
      in_blocks_(ceil_div(g.in_channels, tile.block)),
      out_blocks_(ceil_div(g.out_channels, tile.block)),
      tile_rows_(g.dilation[1] * phase_tiles(g, form, 1)),
      tile_cols_(g.dilation[2] * phase_tiles(g, form, 2)),
      weave_(weave),
      channels_(channels),
      operations_(operations),
      v_(places(form, in_blocks_ * sources() * plan_.block_tiles * tile.block)),
      m_(places(form, out_blocks_ * plan_.block_tiles * tile.block)),
      reads_ahead_(g.kernel[0] == 1 && form.products() * list_.floats * static_cast<int64_t>(sizeof(float)) >
                                           static_cast<int64_t>(cpu_features().l2 / 2)),
      far_(!form.strided() &&
           are_far(g.batch * g.group * (g.in_channels * g.in_size() + g.out_channels * g.out_size()) *
                   static_cast<int64_t>(sizeof(float)))) {}

size_t WinogradTask::workspace_bytes() const {
    return plan_.shared ? static_cast<size_t>(scratch_floats()) * sizeof(float) : 0;
}

size_t WinogradTask::scratch_bytes() const {
    return plan_.shared ? 0 : static_cast<size_t>(scratch_floats()) * sizeof(float);
}

WinogradJob WinogradTask::job(void* const* arguments, int64_t group, int64_t block) const {
    auto input = [&](int i, int64_t offset) {
        return i < 0 ? nullptr : static_cast<float const*>(arguments[i]) + offset;
    };
    auto y = group * out_blocks_ * g_.out_size() * list_.block;
    auto first = block * plan_.block_tiles, tiles = std::min(plan_.block_tiles, plan_.tiles - first);
    // Planes of the kernel that some of the tiles see inside the input; one, of zeros, if there is none.
    auto plane_tiles = tile_rows_ * tile_cols_, first_plane = g_.kernel[0], end_plane = int64_t{0};
    for (auto p = first / plane_tiles; p <= (first + tiles - 1) / plane_tiles; ++p)
        for (int64_t k = 0; k < g_.kernel[0]; ++k)
            if (auto z = p % g_.out[0] * g_.stride[0] - g_.pad[0] + k * g_.dilation[0]; z >= 0 && z < g_.in[0])
                first_plane = std::min(first_plane, k), end_plane = std::max(end_plane, k + 1);
    if (first_plane >= end_plane) first_plane = 0, end_plane = 1;
    return {input(0, group * in_blocks_ * g_.in_size() * list_.block),
            static_cast<float*>(arguments[operands_.output]) + y,
            input(operands_.bias, group * g_.out_channels),
            input(operands_.residual, y),
            g_.in[1],
            g_.in[2],
            g_.pad[1],
            g_.pad[2],
            weave_,
            g_.in[0],
            g_.out[0],
            g_.stride[0],
            g_.dilation[0],
            g_.pad[0],
            tile_rows_,
            tile_cols_,
            phase_tiles(g_, form_, 1),
            phase_tiles(g_, form_, 2),
            g_.dilation[1],
            g_.dilation[2],
            form_.step,
            form_.step * g_.dilation[1],
            form_.step * g_.dilation[2],
            form_.kernel[0] > 1,
            form_.pieces(),
            form_.pieces(1),
            form_.first_tap(0, 1) * g_.dilation[1],
            form_.first_tap(1, 1) * g_.dilation[2],
            first,
            tiles,
            in_blocks_,
            in_blocks_ * g_.group,
            first_plane * form_.pieces() * in_blocks_,
            end_plane * form_.pieces() * in_blocks_,
            nullptr,
            v_[1],
            v_.data(),
            static_cast<int32_t>(channels_ - (weave_.blocks - 1) * list_.block),
            epilogue_.residual_last,
            epilogue_.activation,
            far_};
}

void WinogradTask::multiply(int64_t group, int64_t product, Chunk const& chunk, float const* v, float* m,
                            WinogradJob const& j) const {
    RowJob row{};
    int64_t const block = list_.block, tiles = j.tiles * form_.sharing(product);
    row.x = v + v_[product] + j.first_unit * tiles * block;
    list_.describe(chunk, row);
    // Units of several sources are full.
    if (sources() > 1) row.tap_count = row.full_taps = j.end_unit - j.first_unit;
    row.tap_step = tiles * block;
    row.w = static_cast<float const*>(packed_->data()) + (group * form_.products() + product) * list_.floats +
            chunk.weights + j.first_unit * block * chunk.blocks * block;
    row.y = m + m_[product] + chunk.first * tiles * block;
    row.y_block = tiles * block, row.y_step = block;
    row.rows = 1, row.cols = static_cast<int32_t>(tiles);
    bool const last = product + 1 == form_.products() && &chunk == &list_.chunks.back();
    if (reads_ahead_ && !last) row.ahead = row.w + row.tap_count * block * chunk.blocks * block;
    tile_->rows(row);
}

void WinogradTask::to_outputs(WinogradJob& j, float* m) const {
    j.transformed = m, j.product_stride = m_[1], j.products = m_.data();
    j.blocks = out_blocks_, j.image_blocks = weave_.blocks * g_.group;
}

void WinogradTask::run_private(void* const* arguments, runtime::RunContext const& context) const {
    context.pool.parallel_for(g_.group * plan_.blocks, [&](int64_t i, int worker) {
        auto* v = reinterpret_cast<float*>(context.scratch_of(worker));
        auto* m = v + v_[form_.products()];
        auto group = i / plan_.blocks;
        auto j = job(arguments, group, i % plan_.blocks);
        j.transformed = v;
        isa_->input(j);
        for (int64_t product = 0; product < form_.products(); ++product)
            for (auto const& chunk : list_.chunks) multiply(group, product, chunk, v, m, j);
        to_outputs(j, m);
        j.first_unit = 0, j.end_unit = out_blocks_;
        isa_->output(j);
    });
}

void WinogradTask::share_block(void* const* arguments, int64_t group, int64_t block,
                               runtime::RunContext const& context) const {
    auto* v = reinterpret_cast<float*>(context.workspace);
    auto* m = v + v_[form_.products()];
    auto const shared = job(arguments, group, block);
    context.pool.parallel_for(shared.end_unit - shared.first_unit, [&](int64_t i, int) {
        auto j = shared;
        j.transformed = v, j.first_unit = shared.first_unit + i, j.end_unit = j.first_unit + 1;
        isa_->input(j);
    });
    context.pool.parallel_for(form_.products(), [&](int64_t product, int) {
        for (auto const& chunk : list_.chunks) multiply(group, product, chunk, v, m, shared);
    });
    context.pool.parallel_for(out_blocks_, [&](int64_t b, int) {
        auto j = shared;
        to_outputs(j, m);
        j.first_unit = b, j.end_unit = b + 1;
        isa_->output(j);
    });
}

void WinogradTask::run(void* const* arguments, runtime::RunContext const& context) const {
    if (!plan_.shared) return run_private(arguments, context);
    for (int64_t group = 0; group < g_.group; ++group)
        for (int64_t block = 0; block < plan_.blocks; ++block) share_block(arguments, group, block, context);
}

}  // namespace refactor::kernel
