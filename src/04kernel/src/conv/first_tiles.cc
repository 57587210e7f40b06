#include "conv/first_tiles.h"

#include "common/half.h"
#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Positions and channels of a tile; pairs of numbers that it takes of a row of the window, at most and at least of
/// rows that are cut; channels of X.
constexpr int64_t kTile = 16, kMostPairs = 16, kLeastPairs = 8, kMostChannels = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// Channels of a column of the band: as many as make pairs that no column shares with the next.
int64_t held_channels(Geometry const& g) { return g.in_channels <= 2 ? 2 : 4; }
int64_t pairs_of_row(Geometry const& g) { return g.kernel[2] * held_channels(g) / 2; }
/// Equal parts of a row of the window that a tile takes; 0 if there are none.
int64_t parts_of_row(Geometry const& g) {
    auto pairs = pairs_of_row(g), parts = ceil_div(pairs, kMostPairs);
    while (parts > 1 && pairs % parts) ++parts;
    return parts == 1 || pairs / parts >= kLeastPairs ? parts : 0;
}
int64_t blocks_of(Geometry const& g) { return ceil_div(g.out_channels, kTile); }
int64_t weight_floats(Geometry const& g) { return g.kernel[1] * pairs_of_row(g) * blocks_of(g) * kTile; }

/// [M, C, rows, columns] as `FirstRow::w`.
void pack(float const* w, Geometry const& g, float* packed) {
    auto held = held_channels(g), taps = g.kernel[1] * g.kernel[2];
    auto* to = reinterpret_cast<uint16_t*>(packed);
    for (int64_t first = 0; first < blocks_of(g); first += 2) {
        auto channels = std::min<int64_t>(2, blocks_of(g) - first) * kTile;
        for (int64_t h = 0; h < g.kernel[1]; ++h)
            for (int64_t pair = 0; pair < pairs_of_row(g); ++pair)
                for (int64_t m = first * kTile; m < first * kTile + channels; ++m)
                    for (int64_t e = 2 * pair; e < 2 * pair + 2; ++e, ++to) {
                        auto v = e / held, c = e % held;
                        bool inside = m < g.out_channels && c < g.in_channels;
                        *to = inside ? bf16_from_f32(w[(m * g.in_channels + c) * taps + h * g.kernel[2] + v]) : 0;
                    }
    }
}

/// Bands of rows of outputs: what they read is made in scratch memory, then multiplied row by row.
class FirstTilesTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    FirstTiles const* tiles_;
    bool rounded_;                            ///< Y and the residual are bf16 in blocks of 32 channels
    int64_t held_, band_row_, rows_, bands_;  ///< elements of a row of the band; rows of outputs of a band; bands

    int64_t band_rows() const { return (rows_ - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1; }
    size_t band_bytes() const { return static_cast<size_t>(round_up(band_rows() * band_row_ * 2, 64)); }

public:
    FirstTilesTask(Geometry const& g, Epilogue const& epilogue, FirstTiles const& tiles,
                   std::shared_ptr<mem_manager::Blob const> packed, bool rounded, int threads)
        : g_(g),
          epilogue_(epilogue),
          operands_(epilogue),
          packed_(std::move(packed)),
          tiles_(&tiles),
          rounded_(rounded),
          held_(held_channels(g)) {
        // Tiles read positions behind the last one.
        auto columns = (round_up(g.out[2], kTile) - 1) * g.stride[2] + g.kernel[2];
        band_row_ = round_up(std::max(columns, g.pad[2] + g.in[2]) * held_, 32);
        constexpr int64_t kBandElements = 64 << 10;
        auto most = std::max<int64_t>(1, kBandElements / band_row_ / g.stride[1]);
        auto wanted = threads <= 1 ? 1 : ceil_div(4 * threads, g.batch);
        rows_ = std::max<int64_t>(1, std::min(most, ceil_div(g.out[1], wanted)));
        bands_ = ceil_div(g.out[1], rows_);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(g_.batch * bands_, [&](int64_t task, int worker) {
            run_band(arguments, task / bands_, task % bands_ * rows_, context.scratch_of(worker));
        });
    }
    void run_band(void* const* arguments, int64_t image, int64_t first, std::byte* scratch) const {
        auto input = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
        auto count = std::min(rows_, g_.out[1] - first);
        auto* band = reinterpret_cast<uint16_t*>(scratch);
        FirstBand b{};
        b.x = input(0) + image * g_.in_channels * g_.in_size();
        b.channels = g_.in_channels, b.plane = g_.in_size(), b.rows = g_.in[1], b.columns = g_.in[2];
        b.row = first * g_.stride[1] - g_.pad[1], b.step = 1;
        b.count = (count - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1;
        b.pad = g_.pad[2], b.held = held_, b.band = band, b.band_row = band_row_;
        tiles_->fill(b);
        FirstRow row{};
        row.window_row = g_.dilation[1] * band_row_, row.window_rows = g_.kernel[1];
        row.position = g_.stride[2] * held_, row.parts = parts_of_row(g_), row.dwords = pairs_of_row(g_) / row.parts;
        row.w = static_cast<float const*>(packed_->data()), row.blocks = blocks_of(g_);
        row.last_lanes = static_cast<int32_t>(g_.out_channels - (row.blocks - 1) * kTile);
        auto& job = row.job;
        job.y_block = g_.out_size() * kTile, job.y_row = g_.out[2] * kTile, job.y_step = kTile;
        job.rows = 1, job.cols = static_cast<int32_t>(g_.out[2]);
        job.bias = input(operands_.bias), job.rounded = rounded_;
        job.residual_last = epilogue_.residual_last, job.activation = epilogue_.activation;
        auto* rows = reinterpret_cast<FirstRow*>(scratch + band_bytes());
        for (int64_t i = 0; i < count; ++i) {
            row.x = band + i * g_.stride[1] * band_row_;
            auto units = rounded_ ? ceil_div(row.blocks, 2) : row.blocks;
            auto at = image * units * job.y_block + (first + i) * job.y_row;
            job.y = static_cast<float*>(arguments[operands_.output]) + at;
            job.residual = operands_.residual < 0 ? nullptr : input(operands_.residual) + at;
            rows[i] = row;
        }
        tiles_->run(rows, count);
    }
    size_t scratch_bytes() const override { return band_bytes() + static_cast<size_t>(rows_) * sizeof(FirstRow); }
    uint64_t unread_inputs() const override { return 2; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps() * g_.in_channels);
    }
};

class FirstTilesKernel final : public NamedKernel {
    ConvInfo info_;
    FirstTiles const& tiles_;
    bool rounded_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = merged_conv_geometry(info_, args);
        if (!g) return g;
        if (g->in[0] != 1 || g->out[0] != 1 || g->kernel[0] != 1) return Err{Rejection{"is for one plane"}};
        if (g->dilation[2] != 1 && g->kernel[2] > 1) return Err{Rejection{"is for columns beside each other"}};
        if (g->pad[1] < 0 || g->pad[2] < 0 || g->pad_end[1] < 0 || g->pad_end[2] < 0)
            return Err{Rejection{"does not handle negative pads"}};
        if (parts_of_row(*g) == 0)
            return Err{Rejection{"is for rows of the window of up to 32 numbers, or some times 16 to 32, got " +
                                 std::to_string(2 * pairs_of_row(*g))}};
        return g;
    }

public:
    FirstTilesKernel(ConvInfo info, FirstTiles const& tiles, bool rounded,
                     std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel("conv:cpu:first_layer:bf16:avx512amx"),
          info_(std::move(info)),
          tiles_(tiles),
          rounded_(rounded),
          weights_(std::move(weights)) {}

    /// Products of a tile take 16 cycles, as much again what becomes of them.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(Isa::Avx512Amx, args.threads);
        constexpr double kProduct = 10;
        auto tiles = static_cast<double>(g->batch * g->out[1] * ceil_div(g->out[2], kTile) * blocks_of(*g));
        auto bytes = 4 * static_cast<double>(args.inputs[0]->stored_count()) +
                     (rounded_ ? 2 : 4) * static_cast<double>(args.outputs[0]->stored_count());
        return (tiles * static_cast<double>(g->kernel[1] * parts_of_row(*g)) * kProduct +
                bytes / (cost.bandwidth(bytes) * 2)) /
               cost.threads;
    }
    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto bytes = static_cast<size_t>(weight_floats(*g)) * sizeof(float);
        auto packed = args.packs.get(*weights_, "first_tiles", bytes, [&](void const* from, void* to) {
            pack(static_cast<float const*>(from), *g, static_cast<float*>(to));
        });
        return std::unique_ptr<runtime::Task>(
            std::make_unique<FirstTilesTask>(*g, info_.epilogue, tiles_, std::move(packed), rounded_, args.threads));
    }
};

}  // namespace

KernelResult make_first_tiles(ConvInfo const& info, Request const& request, Isa isa, FirstTiles const& (*tiles)()) {
    if (auto reason = rounded_conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    if (auto reason = why_not_rounded(info.may_round, info.group, request); !reason.empty())
        return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    bool const rounded = y.layout == Layout::Blocked32;
    if (y.layout != Layout::Blocked16 && !rounded)
        return Err{Rejection{"expects Y in the blocked layout of its vectors"}};
    if (x.layout != Layout::Plain) return Err{Rejection{"expects X in the Plain layout"}};
    if (x.dims[1] < 1 || x.dims[1] > kMostChannels || info.group != 1)
        return Err{Rejection{"is for 1 to 4 input channels and one group, got " + std::to_string(x.dims[1]) + " and " +
                             std::to_string(info.group)}};
    return std::unique_ptr<Kernel>(
        std::make_unique<FirstTilesKernel>(info, tiles(), rounded, request.inputs[1].constant));
}
KernelResult conv_first_tiles(ConvInfo const& info, Request const& request) {
    return make_first_tiles(info, request, Isa::Avx512Amx, first_tiles_avx512amx);
}
#endif

}  // namespace refactor::kernel
