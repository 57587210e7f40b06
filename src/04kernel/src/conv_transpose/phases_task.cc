#include "conv_transpose/phases_task.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int64_t floor_div(int64_t a, int64_t b) { return -ceil_div(-a, b); }

/// In front of a thread's copy of the input: its panels.
constexpr int64_t kHeldFloats = 16;
static_assert(sizeof(PanelsInParts) <= kHeldFloats * sizeof(float));
PanelsInParts& held(float* scratch) { return *reinterpret_cast<PanelsInParts*>(scratch); }

}  // namespace

AxisPhase::AxisPhase(Geometry const& g, int axis, int64_t r) {
    auto s = g.stride[axis];
    first_u = ceil_div(g.pad[axis] - r, s);
    auto last = floor_div(g.out[axis] - 1 + g.pad[axis] - r, s);
    count = std::max<int64_t>(0, last - first_u + 1);
    first_output = first_u * s + r - g.pad[axis];
    for (int64_t k = 0; k < g.kernel[axis]; ++k) {
        auto reach = k * g.dilation[axis] - r;
        if (reach % s != 0) continue;
        taps.push_back(k), shifts.push_back(reach / s);
    }
}

PhasePlan::PhasePlan(Geometry const& g, TileIsa const& isa) {
    for (int64_t p = 0; p < g.stride[0]; ++p)
        for (int64_t r = 0; r < g.stride[1]; ++r)
            for (int64_t q = 0; q < g.stride[2]; ++q) {
                AxisPhase planes(g, 0, p), rows(g, 1, r), cols(g, 2, q);
                std::vector<int64_t> index;
                for (auto d : planes.taps)
                    for (auto k : rows.taps)
                        for (auto v : cols.taps) index.push_back((d * g.kernel[1] + k) * g.kernel[2] + v);
                auto taps = static_cast<int64_t>(index.size());
                ChunkList list(isa.block, false, g.in_channels, g.out_channels, g.group, taps, isa.whole_units);
                auto at = floats;
                floats += list.floats;
                phases.push_back({planes, rows, cols, std::move(list), at, std::move(index)});
            }
}

void PhasePlan::pack(Geometry const& g, float const* w, float* packed) const {
    auto in_group = g.in_channels / g.group, out_group = g.out_channels / g.group, taps = g.taps();
    for (auto const& phase : phases)
        for (auto const& chunk : phase.list.chunks)
            phase.list.pack(chunk, {w, in_group * out_group * taps, taps, out_group * taps, phase.tap_index},
                            packed + phase.weights);
}

PhasesTask::PhasesTask(Geometry const& g, Epilogue const& epilogue, TileIsa const& isa, RoundedTensors rounded,
                       int threads, std::shared_ptr<mem_manager::Blob const> packed, PhasePlan plan)
    : g_(g.over_lanes(isa.channels)),
      epilogue_(epilogue),
      operands_(epilogue),
      isa_(&isa),
      rounded_(rounded),
      plan_(std::move(plan)),
      threads_(std::max(1, threads)),
      x_units_(ceil_div(rounded.x ? g_.in_channels : g.in_channels, isa.block)),
      operations_(2. * static_cast<double>(g.batch * g.in_channels * g.in_size() * g.taps()) *
                  static_cast<double>(g.out_channels / g.group)),
      packed_(std::move(packed)) {
    std::fill_n(first_u_, 3, INT64_MAX), std::fill_n(end_u_, 3, INT64_MIN);
    for (auto const& phase : plan_.phases) {
        AxisPhase const* axes[] = {&phase.planes, &phase.rows, &phase.cols};
        for (int a = 0; a < 3; ++a) {
            first_u_[a] = std::min(first_u_[a], axes[a]->first_u);
            end_u_[a] = std::max(end_u_[a], axes[a]->first_u + axes[a]->count);
            for (auto shift : axes[a]->shifts) reach_[a] = std::max(reach_[a], shift);
        }
    }
    copies_ = (isa.channels > 1 && !rounded.x) || in_parts();
    for (int a = 0; a < 3; ++a) copies_ = copies_ || reach_[a] > 0 || first_u_[a] < 0 || end_u_[a] > g.in[a];
    auto units = band_units(), rows = end_u_[1] - first_u_[1], planes = end_u_[0] - first_u_[0];
    pitch_ = copies_ ? end_u_[2] - first_u_[2] + reach_[2] : g.in[2];
    unit_planes_ = copies_ ? reach_[0] + 1 : g.in[0];
    // The input of a band takes up half of L2.
    auto row_floats = std::max<int64_t>(1, units * (reach_[0] + 1) * pitch_ * isa.block);
    auto budget = static_cast<int64_t>(cpu_features().l2 / sizeof(float)) / 2;
    band_rows_ = std::clamp<int64_t>(budget / row_floats - reach_[1], 1, std::max<int64_t>(1, rows));
    auto wanted = threads_ == 1 ? 1 : 4 * threads_;
    bands_ = ceil_div(rows, band_rows_);
    auto images = g.batch * planes;
    if (images * bands_ < wanted) bands_ = std::min(rows, ceil_div(wanted, images));
    band_rows_ = ceil_div(rows, bands_), bands_ = ceil_div(rows, band_rows_);
    auto chunks = static_cast<int64_t>(plan_.phases[0].list.chunks.size());
    splits_ = std::clamp<int64_t>(ceil_div(wanted, images * bands_), 1, chunks);
    unit_rows_ = copies_ ? band_rows_in() : g.in[1];
    for (auto const& phase : plan_.phases) {
        auto& taps = taps_.emplace_back();
        panel_steps_ = std::max(panel_steps_, in_parts() ? phase.steps_in_parts() : 0);
        for (int64_t i = 0; i < phase.list.in_units(); ++i) {
            auto u = in_parts() ? i / 2 * isa.parts : i;
            for (auto plane : phase.planes.shifts)
                for (auto row : phase.rows.shifts)
                    for (auto col : phase.cols.shifts)
                        taps.push_back((((u * unit_planes_ - plane) * unit_rows_ - row) * pitch_ - col) * isa.block);
        }
    }
    for (int64_t split = 0; split < splits_; ++split) places_.push_back(places_of(split));
}

std::vector<PhasesTask::Place> PhasesTask::places_of(int64_t split) const {
    std::vector<Place> places;
    for (size_t i = 0; i < plan_.phases.size(); ++i) {
        auto count = static_cast<int64_t>(plan_.phases[i].list.chunks.size());
        if (plan_.phases[i].cols.count == 0) continue;
        for (auto c = count * split / splits_; c < count * (split + 1) / splits_; ++c) places.push_back({i, c});
    }
    return places;
}

/// Blocks of the copy: of two blocks in parts.
int64_t PhasesTask::band_units() const {
    auto units = ceil_div(g_.in_channels, isa_->block);
    return in_parts() ? (units + 1) / 2 * isa_->parts : units;
}

int64_t PhasesTask::panels_at() const {
    auto units = copies_ ? band_units() * unit_planes_ * unit_rows_ * pitch_ : 0;
    return kHeldFloats + (units + isa_->read_behind) * isa_->block;
}

size_t PhasesTask::workspace_bytes() const { return packed_ ? 0 : static_cast<size_t>(plan_.floats) * sizeof(float); }

size_t PhasesTask::scratch_bytes() const {
    if (!copies_) return 0;
    return static_cast<size_t>(panels_at() + 2 * panel_steps_ * PanelsInParts::kStepFloats) * sizeof(float);
}

void PhasesTask::run_task(int64_t task, float* scratch, Pointers const& p) const {
    auto* copy = copies_ ? scratch + kHeldFloats : nullptr;
    auto planes = end_u_[0] - first_u_[0], band = task / splits_ % bands_;
    Share share{task / splits_ / bands_ / planes, first_u_[0] + task / splits_ / bands_ % planes,
                first_u_[1] + band * band_rows_, 0, task % splits_};
    share.u_end = std::min(share.u + band_rows_, end_u_[1]);
    auto units = in_parts() ? band_units() / isa_->parts : band_units(), row_floats = g_.in[2] * isa_->block;
    auto unit = g_.in_size() * isa_->block;
    // `origin` is where u = 0 of all axes would be.
    auto* x = p.x + share.image * x_units_ * unit;
    auto* origin = x;
    if (copies_) {
        auto plane = share.z - reach_[0], row = share.u - reach_[1], col = first_u_[2] - reach_[2];
        (rounded_.x ? isa_->rounded_band : isa_->band)({.x = x,
                                                        .x_unit = unit,
                                                        .x_plane = g_.in[1] * row_floats,
                                                        .x_row = row_floats,
                                                        .band = copy,
                                                        .units = units,
                                                        .planes = unit_planes_,
                                                        .rows = unit_rows_,
                                                        .phases = 1,
                                                        .columns = pitch_,
                                                        .x_units = x_units_,
                                                        .phase_mask = 1,
                                                        .plane_first = plane,
                                                        .plane_step = 1,
                                                        .row_first = row,
                                                        .row_step = 1,
                                                        .column_first = col,
                                                        .column_step = 1,
                                                        .in_planes = g_.in[0],
                                                        .in_rows = g_.in[1],
                                                        .in_columns = g_.in[2]});
        origin = copy - ((plane * unit_rows_ + row) * pitch_ + col) * isa_->block;
    }
    auto const& places = places_[static_cast<size_t>(share.split)];
    if (places.empty()) return;
    auto job = job_of(places[0], origin, share, p);
    for (size_t i = 0; i < places.size(); ++i) {
        // Behind the last place comes the first one, of the next band.
        auto const next = job_of(places[i + 1 < places.size() ? i + 1 : 0], origin, share, p);
        if (in_parts()) job.panels = &held(scratch), job.following = &next;
        if (job.rows > 0) isa_->rows(job);
        job = next;
    }
}

RowJob PhasesTask::job_of(Place place, float const* origin, Share const& share, Pointers const& p) const {
    auto const& phase = plan_.phases[place.phase];
    int64_t const block = isa_->block;
    auto first = std::max(share.u, phase.rows.first_u);
    auto end = std::min(share.u_end, phase.rows.first_u + phase.rows.count);
    auto z = share.z - phase.planes.first_u;
    auto unit_floats = unit_planes_ * unit_rows_ * pitch_ * block;
    RowJob job{};
    job.x_row = pitch_ * block;
    job.x_part = unit_planes_ * unit_rows_ * pitch_ * block;
    job.unit_taps = static_cast<int64_t>(phase.tap_index.size());
    job.taps = taps_[place.phase].data();
    job.y_block = g_.out_size() * block, job.y_row = g_.stride[1] * g_.out[2] * block,
    job.y_step = g_.stride[2] * block;
    bool inside = z >= 0 && z < phase.planes.count;
    job.rows = static_cast<int32_t>(inside ? std::max<int64_t>(0, end - first) : 0),
    job.cols = static_cast<int32_t>(phase.cols.count);
    job.residual_last = epilogue_.residual_last, job.activation = epilogue_.activation;
    auto row = phase.rows.first_output + (first - phase.rows.first_u) * g_.stride[1];
    auto plane = phase.planes.first_output + z * g_.stride[0];
    auto position = ((plane * g_.out[1] + row) * g_.out[2] + phase.cols.first_output) * block;
    auto* x = origin + ((share.z * unit_rows_ + first) * pitch_ + phase.cols.first_u) * block;
    auto const& chunk = phase.list.chunks[static_cast<size_t>(place.chunk)];
    auto const blocks = ceil_div(g_.out_channels, block);
    auto const unit =
        rounded_.y ? share.image * ceil_div(blocks, 2) + chunk.first / 2 : share.image * blocks + chunk.first;
    auto const at = unit * job.y_block + position;
    job.rounded = rounded_.y;
    phase.list.describe(chunk, job);
    job.x = x + chunk.in_first * unit_floats;
    job.w = p.w + phase.weights + chunk.weights;
    job.y = p.y + at;
    job.bias = p.bias ? p.bias + chunk.first * block : nullptr;
    job.residual = p.residual ? p.residual + at : nullptr;
    return job;
}

void PhasesTask::run(void* const* arguments, runtime::RunContext const& context) const {
    auto input = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
    Pointers p{input(0), nullptr, input(operands_.bias), input(operands_.residual),
               static_cast<float*>(arguments[operands_.output])};
    if (packed_) {
        p.w = static_cast<float const*>(packed_->data());
    } else {
        auto* packed = reinterpret_cast<float*>(context.workspace);
        plan_.pack(g_, input(1), packed);
        p.w = packed;
    }
    auto scratch_of = [&](int worker) { return reinterpret_cast<float*>(context.scratch_of(worker)); };
    for (int t = 0; in_parts() && t < context.pool.threads(); ++t) {
        auto* panels = scratch_of(t) + panels_at();
        held(scratch_of(t)) = {panels, panels + panel_steps_ * PanelsInParts::kStepFloats};
    }
    context.pool.parallel_for(g_.batch * (end_u_[0] - first_u_[0]) * bands_ * splits_,
                              [&](int64_t task, int worker) { run_task(task, scratch_of(worker), p); });
}

}  // namespace refactor::kernel
