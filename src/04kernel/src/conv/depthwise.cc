#include "conv/depthwise.h"

#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/depthwise_pack.h"
#include "conv/geometry.h"
#include "conv/shares.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

namespace {

/// [M, width, taps] to [block of M][tap][width][channel], zeros past M.
void pack_block(float const* w, Geometry const& g, int64_t block, int64_t b, float* packed) {
    auto taps = g.taps(), width = g.in_channels / g.group;
    auto* p = packed + b * taps * width * block;
    for (int64_t t = 0; t < taps; ++t)
        for (int64_t i = 0; i < width; ++i)
            for (auto c = b * block; c < (b + 1) * block; ++c)
                *p++ = c < g.out_channels ? w[(c * width + i) * taps + t] : 0.f;
}

/// Rows of outputs whose inputs, all planes of a window, are about this large are made for plane after plane: they stay
/// in L2, with room for outputs and another thread of the core.
constexpr int64_t kDeepBandFloats = (128 << 10) / sizeof(float);

class DepthwiseTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    DepthwiseIsa const* isa_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    PlaneShares shares_{};
    int64_t width_, multiplier_;

    int64_t weight_floats() const { return packed_ ? 0 : shares_.blocks * isa_->block * width_ * g_.taps(); }
    int64_t plane_floats() const { return g_.in_size() * isa_->block; }

    /// The input plane of every channel of block b of the outputs, where each input channel serves several.
    void expand(float const* x, int64_t image, int64_t b, float* plane) const {
        int64_t const block = isa_->block;
        SmallVector<int64_t, 16> from;
        for (int64_t lane = 0; lane < block; ++lane) {
            auto c = std::min((b * block + lane) / multiplier_, g_.in_channels - 1);
            from.push_back(c / block * plane_floats() + c % block);
        }
        x += image * ((g_.in_channels + block - 1) / block) * plane_floats();
        for (int64_t s = 0; s < g_.in_size(); ++s, x += block, plane += block)
            for (int64_t lane = 0; lane < block; ++lane) plane[lane] = x[from[static_cast<size_t>(lane)]];
    }

    /// `whole`: where the planes of input, weights and outputs begin.
    void run_planes(DepthwiseJob const& whole) const {
        auto in_plane = g_.in[1] * g_.in[2] * isa_->block, out_plane = g_.out[1] * g_.out[2] * isa_->block;
        for (int64_t plane = 0; plane < g_.out[0]; ++plane) {
            auto start = plane * g_.stride[0] - g_.pad[0], dilation = g_.dilation[0];
            auto first = start < 0 ? (-start + dilation - 1) / dilation : 0;
            auto end = start >= g_.in[0] ? 0 : std::min(g_.kernel[0], (g_.in[0] - 1 - start) / dilation + 1);
            auto job = whole;
            job.planes = std::max<int64_t>(0, end - first);
            job.x_plane = dilation * in_plane, job.w_plane = g_.kernel[1] * g_.kernel[2] * width_ * isa_->block;
            if (job.planes) job.x += (start + first * dilation) * in_plane, job.w += first * job.w_plane;
            job.y += plane * out_plane;
            if (job.residual) job.residual += plane * out_plane;
            isa_->rows(job);
        }
    }

public:
    DepthwiseTask(Geometry const& g, Epilogue const& epilogue, DepthwiseIsa const& isa,
                  std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : g_(g),
          epilogue_(epilogue),
          operands_(epilogue),
          isa_(&isa),
          packed_(std::move(packed)),
          width_(g.in_channels / g.group),
          multiplier_(g.out_channels / g.in_channels) {
        auto blocks = shares_.blocks = (g.out_channels + isa.block - 1) / isa.block;
        auto& bands = shares_.bands;
        // At least about 20 µs of work a task, and enough tasks for the threads.
        auto work = g.out_size() * g.taps() * width_ / 16384,
             wanted = (4 * threads + g.batch * blocks - 1) / (g.batch * blocks);
        bands = threads == 1 ? 1 : std::min<int64_t>(work, wanted);
        if (g.out[0] > 1) bands = std::max(bands, g.kernel[0] * g.in[1] * g.in[2] * isa.block / kDeepBandFloats);
        shares_.by_rows = multiplier_ == 1 && g.out[0] == 1 && cut_at_positions(g.batch, g.out_size(), threads);
        if (shares_.by_rows) bands = 2 * threads;
        bands = multiplier_ > 1 ? 1 : std::clamp<int64_t>(bands, 1, g.out[1]);
    }

    size_t workspace_bytes() const override { return static_cast<size_t>(weight_floats()) * sizeof(float); }
    size_t scratch_bytes() const override {
        return multiplier_ > 1 ? static_cast<size_t>(plane_floats()) * sizeof(float) : 0;
    }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps() * width_);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto input = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
        auto *x = input(0), *bias = input(operands_.bias), *residual = input(operands_.residual);
        auto* y = static_cast<float*>(arguments[operands_.output]);
        auto* weights =
            packed_ ? static_cast<float const*>(packed_->data()) : reinterpret_cast<float*>(context.workspace);
        if (!packed_)
            for (int64_t b = 0; b < shares_.blocks; ++b)
                pack_block(input(1), g_, isa_->block, b, reinterpret_cast<float*>(context.workspace));
        int64_t const block = isa_->block;
        context.pool.parallel_for(g_.batch * shares_.blocks * shares_.bands, [&](int64_t task, int worker) {
            auto [plane, band] = shares_.at(task);
            auto b = plane % shares_.blocks;
            auto* source = x + plane * plane_floats();
            if (multiplier_ > 1) {
                auto* copy = reinterpret_cast<float*>(context.scratch_of(worker));
                expand(x, plane / shares_.blocks, b, copy);
                source = copy;
            }
            DepthwiseJob job{source,
                             weights + b * g_.taps() * width_ * block,
                             bias ? bias + b * block : nullptr,
                             residual ? residual + plane * g_.out_size() * block : nullptr,
                             y + plane * g_.out_size() * block,
                             g_.in[1],
                             g_.in[2],
                             g_.out[2],
                             g_.out[1] * band / shares_.bands,
                             g_.out[1] * (band + 1) / shares_.bands,
                             g_.kernel[1],
                             g_.kernel[2],
                             g_.stride[1],
                             g_.stride[2],
                             g_.dilation[1],
                             g_.dilation[2],
                             g_.pad[1],
                             g_.pad[2],
                             static_cast<int32_t>(width_),
                             static_cast<int32_t>(std::min(block, g_.out_channels - b * block)),
                             epilogue_.residual_last,
                             epilogue_.activation};
            run_planes(job);
        });
    }
};

class DepthwiseKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    DepthwiseIsa const& functions() const { return isa_ == Isa::Avx512 ? depthwise_avx512() : depthwise_avx2(); }

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        if (g->in_channels > g->group && g->out_channels != g->in_channels)
            return Err{Rejection{"is for one input channel, or as many as outputs, in each group, got " +
                                 std::to_string(g->in_channels) + " and " + std::to_string(g->out_channels) + " in " +
                                 std::to_string(g->group) + " groups"}};
        g->merge_axes();
        if (g->pad[0] < 0 || g->pad[1] < 0 || g->pad[2] < 0) return Err{Rejection{"does not handle negative pads"}};
        return g;
    }

public:
    DepthwiseKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto outputs = static_cast<double>(args.outputs[0]->stored_count());
        auto bytes = 4 * (outputs + static_cast<double>(args.inputs[0]->stored_count()));
        auto width = g->in_channels / g->group;
        auto work = 2 * outputs * static_cast<double>(g->taps() * width) / ((width > 1 ? 0.7 : 0.4) * cost.flops);
        return (work + bytes / cost.bandwidth(bytes)) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto const& isa = functions();
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) packed = packed_depthwise(*weights_, *g, isa.block, args.packs);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<DepthwiseTask>(*g, info_.epilogue, isa, std::move(packed), std::max(1, args.threads)));
    }
};

/// `grouped`: several channels in each group, a part of a block.
KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id, bool grouped) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != blocked || y.layout != blocked)
        return Err{Rejection{"expects X and Y in the blocked layout of its vectors"}};
    auto width = w.dims[1], block = block_of(blocked);
    bool fits =
        grouped ? width > 1 && width < block && block % width == 0 && w.dims[0] == info.group * width : width == 1;
    if (info.group == 1 || !fits)
        return Err{Rejection{grouped ? "is for groups of a part of a block, with as many outputs"
                                     : "is for depthwise convolutions"}};
    return std::unique_ptr<Kernel>(std::make_unique<DepthwiseKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

std::shared_ptr<mem_manager::Blob const> packed_depthwise(mem_manager::Blob const& weights, Geometry const& g,
                                                          int64_t block, PackCache& packs) {
    auto blocks = (g.out_channels + block - 1) / block, width = g.in_channels / g.group;
    auto bytes = static_cast<size_t>(blocks * block * width * g.taps()) * sizeof(float);
    auto format = "depthwise:" + std::to_string(block) + ':' + std::to_string(width);
    return packs.get(weights, format, bytes, [&](void const* from, void* to) {
        for (int64_t b = 0; b < blocks; ++b)
            pack_block(static_cast<float const*>(from), g, block, b, static_cast<float*>(to));
    });
}

KernelResult conv_depthwise_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:depthwise:f32:avx512", false);
}
KernelResult conv_depthwise_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:depthwise:f32:avx2", false);
}
KernelResult conv_grouped_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:grouped:f32:avx512", true);
}
KernelResult conv_grouped_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:grouped:f32:avx2", true);
}

}  // namespace refactor::kernel
