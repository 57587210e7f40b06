#include "conv/few_outputs.h"

#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/direct_plan.h"
#include "conv/geometry.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

namespace {

/// Outputs of a part of a row: 1 × 1 windows of whole images are one row.
constexpr int64_t kColumns = 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t most_outputs(Layout blocked) { return block_of(blocked) / 2; }

/// [M, C, taps] to [block of C][tap][M][channel], zeros past C.
void pack(float const* w, Geometry const& g, int64_t block, float* packed) {
    auto const taps = g.taps();
    for (int64_t first = 0; first < g.in_channels; first += block)
        for (int64_t tap = 0; tap < taps; ++tap)
            for (int64_t m = 0; m < g.out_channels; ++m)
                for (int64_t c = first; c < first + block; ++c)
                    *packed++ = c < g.in_channels ? w[(m * g.in_channels + c) * taps + tap] : 0.f;
}

class FewOutputsTask final : public runtime::Task {
    Geometry g_;
    Activation activation_;
    ConvOperands operands_;
    FewOutputsIsa const* isa_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int64_t blocks_, parts_, rows_;  ///< parts of a row; rows of all outputs
    int threads_;

    int64_t weight_floats() const { return blocks_ * g_.taps() * g_.out_channels * isa_->block; }

    int64_t window_rows() const { return g_.kernel[0] * g_.kernel[1]; }

    /// About 20 µs of work a task, and at most four tasks a thread.
    int64_t tasks() const {
        auto work = rows_ * g_.out[2] * g_.taps() * blocks_ * g_.out_channels / 65536;
        return threads_ == 1 ? 1 : std::clamp<int64_t>(work, 1, std::min<int64_t>(4 * threads_, rows_ * parts_));
    }
    /// Rows of the window that are inside, for row `row` of plane `plane` of the outputs.
    void find_rows(int64_t plane, int64_t row, FewOutputsJob& job, int64_t* row_x, int64_t* row_w) const {
        job.rows = 0;
        g_.each_row(plane, row, [&](int64_t d, int64_t h, int64_t z, int64_t y) {
            row_x[job.rows] = (z * g_.in[1] + y) * g_.in[2] * isa_->block;
            row_w[job.rows++] = (d * g_.kernel[1] + h) * g_.kernel[2] * g_.out_channels * isa_->block;
        });
    }

public:
    FewOutputsTask(Geometry const& g, Epilogue const& epilogue, FewOutputsIsa const& isa,
                   std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : g_(g),
          activation_(epilogue.activation),
          operands_(epilogue),
          isa_(&isa),
          packed_(std::move(packed)),
          blocks_(ceil_div(g.in_channels, isa.block)),
          parts_(ceil_div(g.out[2], kColumns)),
          rows_(g.batch * g.out[0] * g.out[1]),
          threads_(std::max(1, threads)) {}

    size_t workspace_bytes() const override {
        return static_cast<size_t>(threads_ * 2 * window_rows()) * sizeof(int64_t) +
               (packed_ ? 0 : static_cast<size_t>(weight_floats()) * sizeof(float));
    }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps() * g_.in_channels);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* lists = reinterpret_cast<int64_t*>(context.workspace);
        auto* own = reinterpret_cast<float*>(lists + threads_ * 2 * window_rows());
        if (!packed_) pack(static_cast<float const*>(arguments[1]), g_, isa_->block, own);
        FewOutputsJob whole{};
        whole.x_block = g_.in_size() * isa_->block, whole.blocks = blocks_;
        whole.kernel_cols = g_.kernel[2], whole.col_stride = g_.stride[2], whole.col_dilation = g_.dilation[2];
        whole.col_pad = g_.pad[2], whole.in_cols = g_.in[2];
        whole.w = packed_ ? static_cast<float const*>(packed_->data()) : own;
        whole.w_block = g_.taps() * g_.out_channels * isa_->block;
        whole.y_channel = g_.out_size(), whole.activation = activation_;
        if (operands_.bias >= 0) whole.bias = static_cast<float const*>(arguments[operands_.bias]);
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[operands_.output]);
        auto* run_row = isa_->row[g_.out_channels - 1];
        auto tasks = this->tasks(), all = rows_ * parts_;
        context.pool.parallel_for(tasks, [&](int64_t task, int thread) {
            auto job = whole;
            auto *row_x = lists + thread * 2 * window_rows(), *row_w = row_x + window_rows();
            job.row_x = row_x, job.row_w = row_w;
            for (auto i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
                auto part = i % parts_, row = i / parts_ % g_.out[1], plane = i / parts_ / g_.out[1] % g_.out[0];
                auto image = i / parts_ / g_.out[1] / g_.out[0];
                find_rows(plane, row, job, row_x, row_w);
                job.col = part * kColumns, job.col_end = std::min(g_.out[2], job.col + kColumns);
                job.x = x + image * blocks_ * job.x_block;
                job.y = y + image * g_.out_channels * g_.out_size() + (plane * g_.out[1] + row) * g_.out[2];
                run_row(job);
            }
        });
    }
};

class FewOutputsKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    FewOutputsIsa const& functions() const {
        return isa_ == Isa::Avx512Bf16 ? few_outputs_avx512bf16()
               : isa_ == Isa::Avx512   ? few_outputs_avx512()
                                       : few_outputs_avx2();
    }
    int channels_of_lane() const { return isa_ == Isa::Avx512Bf16 ? 2 : 1; }

    /// Over lanes.
    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = merged_conv_geometry(info_, args);
        return g ? Result<Geometry, Rejection>(g->over_lanes(channels_of_lane())) : g;
    }

    /// Positions of a row in tiles whose windows reach outside, or of which there are fewer than in a tile.
    int64_t edges_of(Geometry const& g) const {
        auto tile = functions().block / g.out_channels, tiles = ceil_div(g.out[2], tile);
        auto reach = (tile - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2], inside = g.in[2] + g.pad[2] - reach;
        auto first = std::min(tiles, ceil_div(g.pad[2], tile * g.stride[2]));
        auto end = std::min(g.out[2] / tile, inside > 0 ? ceil_div(inside, tile * g.stride[2]) : 0);
        return (tiles - std::max<int64_t>(0, end - first)) * tile;
    }

public:
    FewOutputsKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    /// Multiply-adds at three quarters of what the registers do; sums of vectors take about five times as long as one.
    /// Tiles at the ends of rows are whole ones, whose every load asks whether it is inside.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto block = functions().block;
        auto results = static_cast<double>(g->batch * g->out_size() * g->out_channels);
        auto products = static_cast<double>(g->taps() * ceil_div(g->in_channels, block)) / 0.75;
        auto vectors = results * (products / CostModel::share_of_multiply_add(channels_of_lane()) + 5);
        constexpr double kAskedNs = 0.4;
        auto rows = static_cast<double>(g->batch * g->out[0] * g->out[1]);
        auto asked = rows * static_cast<double>(edges_of(*g) * g->taps() * ceil_div(g->in_channels, block)) * kAskedNs;
        auto bytes = 4. / channels_of_lane() * static_cast<double>(args.inputs[0]->stored_count()) +
                     4. * static_cast<double>(args.outputs[0]->stored_count());
        return (vectors * 2 * block / cost.flops + asked + bytes / (cost.bandwidth(bytes) * 2)) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto const& isa = functions();
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) {
            auto floats = ceil_div(g->in_channels, isa.block) * isa.block * g->taps() * g->out_channels;
            auto pairs = channels_of_lane() > 1;
            auto fill = [&](void const* from, void* to) {
                auto const* w = static_cast<float const*>(from);
                auto const channels = args.inputs[0]->dims[1];
                if (!pairs) return pack(w, *g, isa.block, static_cast<float*>(to));
                LaneWeights lanes(tile_avx512bf16(), w, g->out_channels, channels, g->taps());
                pack(lanes.data(), *g, isa.block, static_cast<float*>(to));
            };
            packed =
                args.packs.get(*weights_, (pairs ? "pairs:few_outputs:" : "few_outputs:") + std::to_string(isa.block),
                               static_cast<size_t>(floats) * sizeof(float), fill);
        }
        return std::unique_ptr<runtime::Task>(
            std::make_unique<FewOutputsTask>(*g, info_.epilogue, isa, std::move(packed), args.threads));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = rounded_conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    auto blocked = isa == Isa::Avx512Bf16 ? Layout::Blocked32
                   : isa == Isa::Avx512   ? Layout::Blocked16
                                          : Layout::Blocked8;
    if (x.layout != blocked || y.layout != Layout::Plain)
        return Err{Rejection{"expects X in the blocked layout of its vectors and Y in the Plain layout"}};
    if (info.group != 1 || info.epilogue.residual) return Err{Rejection{"is for one group and no residual"}};
    auto outputs = w.dims[0], most = most_outputs(isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8);
    if (outputs < 1 || outputs > most)
        return Err{
            Rejection{"is for 1 to " + std::to_string(most) + " output channels, got " + std::to_string(outputs)}};
    return std::unique_ptr<Kernel>(std::make_unique<FewOutputsKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

/// Direct kernels take a vector for each input channel. With fewer of these than lanes, lanes are columns of both
/// tensors (at four fifths of the registers' rate, and a row is copied); with more of them, channels of X, where a
/// vector of sums takes about as long as three of products.
double few_outputs_saving(Layout blocked, int64_t in_channels, int64_t taps, int64_t out_channels) {
    if (out_channels > most_outputs(blocked)) return 0;
    auto block = block_of(blocked);
    auto products = static_cast<double>(in_channels * taps), outputs = static_cast<double>(out_channels);
    if (in_channels < block) return products - (outputs * products / 0.8 + 2. * in_channels) / block;
    return products - outputs * static_cast<double>(ceil_div(in_channels, block) * taps + 3);
}

KernelResult conv_few_outputs_rounded(ConvInfo const& info, Request const& request) {
    if (auto reason = why_not_rounded(info.may_round, info.group, request); !reason.empty())
        return Err{Rejection{reason}};
    return make(info, request, Isa::Avx512Bf16, "conv:cpu:few_outputs:bf16:avx512bf16");
}
KernelResult conv_few_outputs_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:few_outputs:f32:avx512");
}
KernelResult conv_few_outputs_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:few_outputs:f32:avx2");
}

}  // namespace refactor::kernel
