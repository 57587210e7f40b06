#include "conv/direct_task.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/cost.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// In front of the band in a thread's scratch memory: the number of the band that it holds, and its panels.
struct alignas(64) Held {
    int64_t band = -1;
    PanelsInParts panels{};
};
constexpr int64_t kTagFloats = sizeof(Held) / sizeof(float);

}  // namespace

DirectTask::DirectTask(Geometry const& g, Epilogue const& epilogue, TileIsa const& isa, bool planar,
                       RoundedTensors rounded, int threads, std::shared_ptr<mem_manager::Blob const> packed)
    : g_(g.over_lanes(isa.channels)),
      epilogue_(epilogue),
      operands_(epilogue),
      isa_(&isa),
      rounded_(rounded),
      list_(isa.block, planar, g_.in_channels, g.out_channels, g.group, g.taps(), isa.whole_units),
      threads_(std::max(1, threads)),
      packed_(std::move(packed)),
      unit_(planar ? 1 : isa.block),
      x_units_(ceil_div(rounded.x ? g_.in_channels : g.in_channels, unit_)),
      operations_(2. * static_cast<double>(g.batch * g.out_channels * g.out_size() * g.taps()) *
                  static_cast<double>(g.in_channels / g.group)),
      skipped_(skipped_taps(g_, planar, isa, rounded)) {
    list_.tap_major = skipped_.any();
    if (skipped_.columns) {
        column_runs_ = column_runs(g_);
        auto most = static_cast<int64_t>(cpu_features().l2 / sizeof(float) / 2);
        for (auto const& chunk : list_.chunks)
            by_window_rows_ |= chunk.in_blocks * unit_ * g_.taps() * chunk.blocks * list_.block > most;
    }
    plan_input();
    plan_parts();
    plan_bands();
    auto results = g.batch * g.out_channels * g.out_size() * static_cast<int64_t>(rounded.y ? 2 : sizeof(float));
    far_ = are_far(results * (epilogue.residual ? 2 : 1));
    int64_t units = list_.in_units();
    auto rows = copies_ ? input_rows(band_rows_) : g_.in[1], pitch = copies_ ? band_columns_ + reach_ : g_.in[2];
    auto planes = copies_ ? g_.kernel[0] : g_.in[0];
    if (in_parts()) x_part_ = planes * rows * phases_ * pitch * unit_;
    taps_.resize(static_cast<size_t>(units * g_.taps()));
    int64_t tap = 0;
    for (int64_t d = 0; d < g_.kernel[0]; ++d)
        for (int64_t h = 0; h < g_.kernel[1]; ++h)
            for (int64_t v = 0; v < g_.kernel[2]; ++v, ++tap)
                for (int64_t u = 0; u < units; ++u) {
                    auto unit = in_parts() ? u / 2 * isa_->parts : u;
                    auto plane = unit * planes + (copies_ ? d : d * g_.dilation[0]);
                    auto shift = v * g_.dilation[2];
                    auto row = (plane * rows + h * (row_step_ > 1 ? 1 : g_.dilation[1])) * phases_;
                    auto offset = phases_are_planes_ ? offset_in_planes(plane, h, v)
                                  : copies_          ? (row + shift % g_.stride[2]) * pitch + shift / g_.stride[2]
                                                     : row * pitch + shift;
                    taps_[static_cast<size_t>(skipped_.any() ? tap * units + u : u * g_.taps() + tap)] = offset * unit_;
                }
}

SkippedTaps DirectTask::skipped_taps(Geometry const& g, bool planar, TileIsa const& isa, RoundedTensors rounded) {
    if (planar || isa.whole_units || isa.parts > 1 || g.group != 1 || g.in_channels % isa.block || g.taps() == 1)
        return {};
    auto rows = share_of_rows(g), columns = share_of_columns(g);
    // Weights by taps go through the input of a band once a tap, which a few skipped ones would not be worth. Sums of
    // some columns are stored for each row of the window, which numbers of bf16 would round.
    SkippedTaps skipped{rows < 15. / 16, columns < 7. / 8 && !rounded.y};
    skipped.share = (skipped.any() ? rows : 1) * (skipped.columns ? columns : 1);
    return skipped;
}

DirectTask::Band DirectTask::band_at(int64_t index) const {
    auto column = index % column_bands_ * band_columns_;
    index /= column_bands_;
    auto row = index % row_bands_ * band_rows_;
    index /= row_bands_;
    auto first = index % row_step_;
    index /= row_step_;
    auto rows = ceil_div(g_.out[1] - first, row_step_);
    return {index / planes_,
            index % planes_,
            first + row * row_step_,
            std::min(band_rows_, rows - row),
            column,
            std::min(band_columns_, columns_ - column)};
}

float const* DirectTask::fetch(Band const& band, int64_t index, float* scratch, Pointers const& p) const {
    auto plane = g_.in[1] * g_.in[2] * unit_, row = g_.in[2] * unit_;
    auto* image = p.x + band.image * x_units_ * g_.in[0] * plane;
    if (!copies_)
        return image + band.plane * g_.stride[0] * plane + (band.row * g_.stride[1] - g_.pad[1]) * row +
               (band.column - g_.pad[2]) * unit_;
    auto& held = reinterpret_cast<Held*>(scratch)->band;
    auto* copy = scratch + kTagFloats;
    if (splits_ > 1 && held == index) return copy;
    held = index;
    auto kernel_rows = g_.kernel[1] == 1;
    BandJob job{.x = image,
                .x_unit = g_.in[0] * plane,
                .x_plane = plane,
                .x_row = row,
                .band = copy,
                .units = in_parts() ? band_units() / isa_->parts : band_units(),
                .planes = g_.kernel[0],
                .rows = input_rows(band_rows_),
                .phases = phases_,
                .columns = band_columns_ + reach_,
                .x_units = x_units_,
                .phase_mask = phase_mask_,
                .plane_first = band.plane * g_.stride[0] - g_.pad[0],
                .plane_step = g_.dilation[0],
                .row_first = band.row * g_.stride[1] - g_.pad[1],
                .row_step = kernel_rows ? g_.stride[1] : row_step_,
                .column_first = band.column * g_.stride[2] - g_.pad[2],
                .column_step = g_.stride[2],
                .in_planes = g_.in[0],
                .in_rows = g_.in[1],
                .in_columns = g_.in[2]};
    auto const fill = list_.planar ? isa_->planar_band : rounded_.x ? isa_->rounded_band : isa_->band;
    if (!phases_are_planes_) return fill(job), copy;
    auto const phase = job.rows * job.columns * unit_;
    job.phases = 1, job.phase_mask = 1, job.row_step = g_.stride[1], job.skip = (phases_ - 1) * phase;
    auto const first_row = job.row_first, first_column = job.column_first;
    for (auto of_row : row_phases_)
        for (auto of_column : column_phases_) {
            job.row_first = first_row + of_row, job.column_first = first_column + of_column;
            fill(job);
            job.band += phase;
        }
    return copy;
}

RowJob DirectTask::job_of(Band const& band) const {
    RowJob job{};
    job.x_row = phases_are_planes_ ? (band_columns_ + reach_) * unit_
                : copies_          ? (g_.kernel[1] == 1 ? 1 : g_.stride[1]) * phases_ * (band_columns_ + reach_) * unit_
                                   : g_.stride[1] * g_.in[2] * unit_;
    job.x_part = x_part_;
    job.unit_taps = g_.taps();
    job.y_block = g_.out_size() * list_.block, job.y_row = row_step_ * columns_ * list_.block, job.y_step = list_.block;
    job.rows = static_cast<int32_t>(band.rows), job.cols = static_cast<int32_t>(band.columns);
    job.residual_last = epilogue_.residual_last;
    job.far = far_, job.rounded = rounded_.y;
    return job;
}

RowJob DirectTask::part_of(RowJob const& whole, Band const& band, float const* x, Chunk const& chunk, int64_t first,
                           Pointers const& p) const {
    auto job = whole;
    auto end = std::min<int64_t>(first + part_units_, chunk.in_blocks);
    auto x_unit = copies_ ? g_.kernel[0] * input_rows(band_rows_) * phases_ * (band_columns_ + reach_) : g_.in_size();
    auto position = ((band.plane * g_.out[1] + band.row) * columns_ + band.column) * list_.block;
    auto const blocks = ceil_div(g_.out_channels, list_.block);
    auto const unit =
        rounded_.y ? band.image * ceil_div(blocks, 2) + chunk.first / 2 : band.image * blocks + chunk.first;
    bool const second = rounded_.y && chunk.first % 2;
    job.half_block = chunk.blocks == 1 && (second || chunk.first + 1 < blocks);
    auto const at = unit * job.y_block + position + (second ? list_.block / 2 : 0);
    job.x = x + (in_parts() ? chunk.in_first / 2 * isa_->parts : chunk.in_first) * x_unit * unit_;
    job.taps = taps_.data();
    job.w = p.w + chunk.weights;
    job.y = p.y + at;
    job.bias = p.bias ? p.bias + chunk.first * list_.block : nullptr;
    job.add = first > 0;
    if (end == chunk.in_blocks)
        job.residual = p.residual ? p.residual + at : nullptr, job.activation = epilogue_.activation;
    if (first == 0 && end == chunk.in_blocks)
        list_.describe(chunk, job);
    else
        list_.describe_part(chunk, first, end, job);
    return job;
}

void DirectTask::run_task(int64_t task, float* scratch, Pointers const& p) const {
    auto index = task / splits_, split = task % splits_;
    auto band = band_at(index);
    if (band.rows <= 0) return;
    auto* x = fetch(band, index, scratch, p);
    auto const whole = job_of(band);
    auto chunks = static_cast<int64_t>(list_.chunks.size());
    auto const begin = chunks * split / splits_, end = chunks * (split + 1) / splits_;
    struct Place {
        int64_t chunk, unit;
    };
    auto part = [&](Place at) {
        return part_of(whole, band, x, list_.chunks[static_cast<size_t>(at.chunk)], at.unit, p);
    };
    bool const again = row_bands_ * column_bands_ > 1;
    Place const first{begin, 0};
    auto job = part(first);
    for (auto at = first; at.chunk < end;) {
        auto const& chunk = list_.chunks[static_cast<size_t>(at.chunk)];
        if ((at.unit += part_units_) >= chunk.in_blocks) ++at.chunk, at.unit = 0;
        bool const more = at.chunk < end;
        auto const next = part(more ? at : first);
        job.ahead = more ? next.w : nullptr;
        if (in_parts())
            job.panels = &reinterpret_cast<Held*>(scratch)->panels, job.following = more || again ? &next : nullptr;
        run_rows(job, band, chunk);
        job = next;
    }
}

void DirectTask::run_rows(RowJob const& job, Band const& band, Chunk const& chunk) const {
    if (!skipped_.any()) return isa_->rows(job);
    for (int64_t row = 0, end; row < band.rows; row = end) {
        TapRun run(g_, band.plane, band.row + row);
        for (end = row + 1; end < band.rows && TapRun(g_, band.plane, band.row + end) == run;) ++end;
        auto rows = job;
        rows.rows = static_cast<int32_t>(end - row);
        rows.x += row * job.x_row, rows.y += row * job.y_row;
        if (rows.residual) rows.residual += row * job.y_row;
        if (!skipped_.columns) run_taps(rows, run, {0, g_.kernel[2]}, chunk);
        for (auto const& columns : column_runs_) {
            auto first = std::max(columns.first, band.column) - band.column;
            auto last = std::min(columns.end, band.column + band.columns) - band.column;
            if (first >= last) continue;
            auto part = rows;
            part.cols = static_cast<int32_t>(last - first);
            part.x += first * unit_, part.y += first * job.y_step;
            if (part.residual) part.residual += first * job.y_step;
            run_taps(part, run, columns.taps, chunk);
        }
    }
}

void DirectTask::run_taps(RowJob const& job, TapRun const& rows, TapRange const& columns, Chunk const& chunk) const {
    auto const units = list_.in_units(), width = g_.kernel[2];
    bool const at_once = columns.count() == width && !by_window_rows_;
    bool const whole = at_once || rows.count * columns.count() == 0;
    auto const parts = whole ? 1 : rows.count, taps = whole ? rows.count * columns.count() : columns.count();
    for (int64_t i = 0; i < parts; ++i) {
        auto part = job;
        auto const first = ((rows.first + i) * width + columns.first) * units;
        part.tap_count = part.full_taps = taps * units;
        part.taps += first, part.w += first * unit_ * chunk.blocks * list_.block;
        part.add = job.add || i > 0;
        if (i + 1 < parts) part.residual = nullptr, part.activation = {};
        if (taps < g_.taps()) part.ahead = nullptr;
        isa_->rows(part);
    }
}

size_t DirectTask::scratch_bytes() const {
    if (!copies_) return 0;
    return static_cast<size_t>(panels_at() + 2 * panel_steps_ * PanelsInParts::kStepFloats) * sizeof(float);
}

int64_t DirectTask::panels_at() const {
    return kTagFloats + band_floats(band_rows_, band_columns_) + isa_->read_behind * unit_;
}

size_t DirectTask::workspace_bytes() const { return packed_ ? 0 : static_cast<size_t>(list_.floats) * sizeof(float); }

void DirectTask::pack(ChunkList const& list, Geometry const& g, float const* weights, Chunk const& chunk,
                      float* packed) {
    auto taps = g.tap_indices();
    auto all = g.all_taps[0] * g.all_taps[1] * g.all_taps[2];
    auto in_group = list.in_channels / list.group, out_group = list.out_channels / list.group;
    list.pack(chunk, {weights, out_group * in_group * all, in_group * all, all, taps}, packed);
}

void DirectTask::run(void* const* arguments, runtime::RunContext const& context) const {
    auto input = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
    Pointers p{input(0), nullptr, input(operands_.bias), input(operands_.residual),
               static_cast<float*>(arguments[operands_.output])};
    if (packed_) {
        p.w = static_cast<float const*>(packed_->data());
    } else {
        auto* packed = reinterpret_cast<float*>(context.workspace);
        p.w = packed;
        context.pool.parallel_for(static_cast<int64_t>(list_.chunks.size()), [&](int64_t c, int) {
            pack(list_, g_, input(1), list_.chunks[static_cast<size_t>(c)], packed);
        });
    }
    auto scratch_of = [&](int worker) { return reinterpret_cast<float*>(context.scratch_of(worker)); };
    for (int t = 0; copies_ && (splits_ > 1 || in_parts()) && t < context.pool.threads(); ++t) {
        auto* panels = scratch_of(t) + panels_at();
        *reinterpret_cast<Held*>(scratch_of(t)) = {-1, {panels, panels + panel_steps_ * PanelsInParts::kStepFloats}};
    }
    context.pool.parallel_for(bands() * splits_,
                              [&](int64_t task, int worker) { run_task(task, scratch_of(worker), p); });
}

}  // namespace refactor::kernel
