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

std::vector<WinogradPart> winograd_parts(ChunkList const& list, int64_t sources) {
    std::vector<WinogradPart> parts;
    auto const& chunks = list.chunks;
    auto const out_group = list.out_channels / list.group;
    for (size_t first = 0, end = 0; first < chunks.size(); first = end) {
        do ++end;
        while (end < chunks.size() && chunks[end].in_first < chunks[end - 1].in_first + chunks[end - 1].in_blocks);
        auto const &front = chunks[first], &back = chunks[end - 1];
        auto out_end = back.first + back.blocks;
        auto last = std::min<int64_t>(int64_t{out_end} * list.block, list.out_channels) - 1;
        auto weights_end = end < chunks.size() ? chunks[end].weights : list.floats;
        parts.push_back({last / out_group - front.first * int64_t{list.block} / out_group + 1, front.in_first / sources,
                         (back.in_first + back.in_blocks - front.in_first) / sources, front.first,
                         out_end - front.first, static_cast<int64_t>(first), static_cast<int64_t>(end), front.weights,
                         weights_end - front.weights});
    }
    return parts;
}

WinogradPlan::WinogradPlan(Geometry const& g, WinogradForm const& form, ChunkList const& list,
                           std::vector<WinogradPart> const& parts, int threads) {
    auto const count = std::ssize(parts), groups = parts.front().groups;  // the first part is the largest
    tiles = g.batch * g.out[0] * g.dilation[1] * phase_tiles(g, form, 1) * g.dilation[2] * phase_tiles(g, form, 2);
    // Transformed inputs and products of a block fill L2 at most, but a block is at least two register tiles: it reads
    // all transformed weights, so that with fewer the L3 cache could not keep up.
    auto sources = g.kernel[0] * form.pieces();
    auto bytes = form.inputs() * (g.in_channels * sources + g.out_channels) / g.group * groups *
                 static_cast<int64_t>(sizeof(float));
    auto target = std::clamp<int64_t>(static_cast<int64_t>(cpu_features().l2) / bytes / 14 * 14, 28, 56);
    blocks = ceil_div(tiles, target);
    // Threads that can take whole parts do.
    bool even = count % std::max(1, threads) == 0;
    if (threads > 1 && blocks * count < 8 * threads && !even) blocks = ceil_div(blocks, threads) * threads;
    block_tiles = ceil_div(tiles, blocks);
    // Filters that L2 keeps may be read by every thread.
    auto filters = form.products() * list.floats / count * static_cast<int64_t>(sizeof(float));
    bool kept = filters <= static_cast<int64_t>(cpu_features().l2) && cut_at_positions(g.batch, g.out_size(), threads);
    shared = threads > 1 && block_tiles < (kept ? 6 : 12) && !even;
    if (shared) blocks = ceil_div(tiles, 112), block_tiles = ceil_div(tiles, blocks);
    blocks = ceil_div(tiles, block_tiles);
}

ChunkList winograd_chunks(Geometry const& g, WinogradForm const& form, int block) {
    auto sources = g.kernel[0] * form.pieces();
    auto of_group = g.in_channels / g.group;
    if (sources > 1) of_group = ceil_div(of_group, block) * block * sources;
    return {block, false, of_group * g.group, g.out_channels, g.group, 1};
}

WinogradTask::WinogradTask(Geometry const& g, WinogradForm const& form, Epilogue const& epilogue, TileIsa const& tile,
                           WinogradIsa const& isa, int threads, std::shared_ptr<mem_manager::Blob const> packed)
    : WinogradTask(g, form, epilogue, tile, isa, threads, std::move(packed),
                   {.out_rows = g.out[1], .out_cols = g.out[2], .blocks = ceil_div(g.out_channels, tile.block)},
                   g.out_channels,
                   2. * static_cast<double>(g.batch * g.out_channels * g.out_size()) *
                       static_cast<double>(g.in_channels / g.group * g.taps())) {}

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
      parts_(winograd_parts(list_, g.kernel[0] * form.pieces())),
      plan_(g, form, list_, parts_, threads),
      threads_(std::max(1, threads)),
      packed_(std::move(packed)),
      tile_rows_(g.dilation[1] * phase_tiles(g, form, 1)),
      tile_cols_(g.dilation[2] * phase_tiles(g, form, 2)),
      weave_(weave),
      channels_(channels),
      operations_(operations),
      v_(places(form, parts_.front().in_blocks * sources() * plan_.block_tiles * tile.block)),
      m_(places(form, parts_.front().out_blocks * plan_.block_tiles * tile.block)),
      reads_ahead_(g.kernel[0] == 1 &&
                   form.products() * list_.floats / std::ssize(parts_) * static_cast<int64_t>(sizeof(float)) >
                       static_cast<int64_t>(cpu_features().l2 / 2)),
      far_(!form.strided() && are_far(g.batch * (g.in_channels * g.in_size() + g.out_channels * g.out_size()) *
                                      static_cast<int64_t>(sizeof(float)))) {}

size_t WinogradTask::workspace_bytes() const {
    return plan_.shared ? static_cast<size_t>(scratch_floats()) * sizeof(float) : 0;
}

size_t WinogradTask::scratch_bytes() const {
    return plan_.shared ? 0 : static_cast<size_t>(scratch_floats()) * sizeof(float);
}

WinogradJob WinogradTask::job(void* const* arguments, WinogradPart const& part, int64_t block) const {
    auto input = [&](int i, int64_t offset) {
        return i < 0 ? nullptr : static_cast<float const*>(arguments[i]) + offset;
    };
    auto y = part.out_first * g_.out_size() * list_.block;
    auto weave = weave_;
    if (parts_.size() > 1) weave.blocks = part.out_blocks;
    auto first = block * plan_.block_tiles, tiles = std::min(plan_.block_tiles, plan_.tiles - first);
    // Planes of the kernel that some of the tiles see inside the input; one, of zeros, if there is none.
    auto plane_tiles = tile_rows_ * tile_cols_, first_plane = g_.kernel[0], end_plane = int64_t{0};
    for (auto p = first / plane_tiles; p <= (first + tiles - 1) / plane_tiles; ++p)
        for (int64_t k = 0; k < g_.kernel[0]; ++k)
            if (auto z = p % g_.out[0] * g_.stride[0] - g_.pad[0] + k * g_.dilation[0]; z >= 0 && z < g_.in[0])
                first_plane = std::min(first_plane, k), end_plane = std::max(end_plane, k + 1);
    if (first_plane >= end_plane) first_plane = 0, end_plane = 1;
    return {input(0, part.in_first * g_.in_size() * list_.block),
            static_cast<float*>(arguments[operands_.output]) + y,
            input(operands_.bias, part.out_first * list_.block),
            input(operands_.residual, y),
            g_.in[1],
            g_.in[2],
            g_.pad[1],
            g_.pad[2],
            weave,
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
            part.in_blocks,
            ceil_div(g_.in_channels, list_.block),
            first_plane * form_.pieces() * part.in_blocks,
            end_plane * form_.pieces() * part.in_blocks,
            nullptr,
            v_[1],
            v_.data(),
            static_cast<int32_t>(
                std::min<int64_t>(list_.block, channels_ - (part.out_first + weave.blocks - 1) * list_.block)),
            epilogue_.residual_last,
            epilogue_.activation,
            far_};
}

void WinogradTask::multiply(WinogradPart const& part, int64_t product, float const* v, float* m,
                            WinogradJob const& j) const {
    int64_t const block = list_.block, tiles = j.tiles * form_.sharing(product), unit = tiles * block;
    auto const* packed = static_cast<float const*>(packed_->data());
    for (auto i = part.chunk; i < part.chunk_end; ++i) {
        auto const& chunk = list_.chunks[static_cast<size_t>(i)];
        RowJob row{};
        list_.describe(chunk, row);
        // Units of several sources are full, and of a whole group.
        bool const several = sources() > 1;
        if (several) row.tap_count = row.full_taps = j.end_unit - j.first_unit;
        row.x = v + v_[product] + (several ? j.first_unit : chunk.in_first - part.in_first) * unit;
        row.tap_step = unit;
        row.w = packed + part.weights_of(form_, product, chunk) + j.first_unit * block * chunk.blocks * block;
        row.y = m + m_[product] + (chunk.first - part.out_first) * unit;
        row.y_block = unit, row.y_step = block;
        row.rows = 1, row.cols = static_cast<int32_t>(tiles);
        bool const last = product + 1 == form_.products() && i + 1 == part.chunk_end;
        if (reads_ahead_ && !last) row.ahead = row.w + row.tap_count * block * chunk.blocks * block;
        tile_->rows(row);
    }
}

void WinogradTask::to_outputs(WinogradJob& j, WinogradPart const& part, float* m) const {
    j.transformed = m, j.product_stride = m_[1], j.products = m_.data();
    j.blocks = part.out_blocks, j.image_blocks = ceil_div(channels_, list_.block);
}

void WinogradTask::run_private(void* const* arguments, runtime::RunContext const& context) const {
    context.pool.parallel_for(std::ssize(parts_) * plan_.blocks, [&](int64_t i, int worker) {
        auto* v = reinterpret_cast<float*>(context.scratch_of(worker));
        auto* m = v + v_[form_.products()];
        auto const& part = parts_[static_cast<size_t>(i / plan_.blocks)];
        auto j = job(arguments, part, i % plan_.blocks);
        j.transformed = v;
        isa_->input(j);
        for (int64_t product = 0; product < form_.products(); ++product) multiply(part, product, v, m, j);
        to_outputs(j, part, m);
        j.first_unit = 0, j.end_unit = part.out_blocks;
        isa_->output(j);
    });
}

void WinogradTask::share_block(void* const* arguments, WinogradPart const& part, int64_t block,
                               runtime::RunContext const& context) const {
    auto* v = reinterpret_cast<float*>(context.workspace);
    auto* m = v + v_[form_.products()];
    auto const shared = job(arguments, part, block);
    context.pool.parallel_for(shared.end_unit - shared.first_unit, [&](int64_t i, int) {
        auto j = shared;
        j.transformed = v, j.first_unit = shared.first_unit + i, j.end_unit = j.first_unit + 1;
        isa_->input(j);
    });
    context.pool.parallel_for(form_.products(), [&](int64_t product, int) { multiply(part, product, v, m, shared); });
    context.pool.parallel_for(part.out_blocks, [&](int64_t b, int) {
        auto j = shared;
        to_outputs(j, part, m);
        j.first_unit = b, j.end_unit = b + 1;
        isa_->output(j);
    });
}

void WinogradTask::run(void* const* arguments, runtime::RunContext const& context) const {
    if (!plan_.shared) return run_private(arguments, context);
    for (auto const& part : parts_)
        for (int64_t block = 0; block < plan_.blocks; ++block) share_block(arguments, part, block, context);
}

}  // namespace refactor::kernel
