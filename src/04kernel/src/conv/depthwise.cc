#include "conv/depthwise.h"

#include "conv/cost.h"
#include "conv/depthwise_task.h"

namespace refactor::kernel {

namespace {

/// An instruction set with what it keeps tensors in.
struct Form {
    Isa isa;
    Layout blocked;
    DataType dtype = DataType::F32;  ///< of X, Y and the residual
};
constexpr Form kAvx2{Isa::Avx2, Layout::Blocked8}, kAvx512{Isa::Avx512, Layout::Blocked16},
    kBf16{Isa::Avx512Bf16, Layout::Blocked32, DataType::BF16};

class DepthwiseKernel final : public NamedKernel {
    ConvInfo info_;
    Form form_;
    std::shared_ptr<mem_manager::Blob const> weights_;

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

    template <class T>
    std::unique_ptr<runtime::Task> task(Geometry const& g, DepthwiseIsaOf<T> const& isa, BindArgs const& args) const {
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) packed = packed_depthwise(*weights_, g, isa.block, args.packs);
        return std::make_unique<DepthwiseTask<T>>(g, info_.epilogue, isa, std::move(packed), std::max(1, args.threads));
    }

public:
    DepthwiseKernel(std::string id, ConvInfo info, Form form, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), form_(form), weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(form_.isa, args.threads);
        auto outputs = static_cast<double>(args.outputs[0]->stored_count());
        auto bytes = bits_of(form_.dtype) / 8 * (outputs + static_cast<double>(args.inputs[0]->stored_count()));
        auto width = g->in_channels / g->group;
        // Of bf16 each input is widened first.
        auto share = form_.dtype == DataType::BF16 ? (width > 1 ? 0.5 : 0.3) : (width > 1 ? 0.7 : 0.4);
        auto work = 2 * outputs * static_cast<double>(g->taps() * width) / (share * cost.flops);
        auto speed = cost.bandwidth(bytes);
        if (g->out_channels > g->in_channels) {
            // Inputs are put under each of their outputs, in L2. The peer, whole tiles of inputs, is estimated with
            // twice the bandwidth.
            auto positions = static_cast<double>(g->in_size()) / static_cast<double>(g->out_size());
            work += bits_of(form_.dtype) / 8 * outputs * positions / cost.l2, speed *= 2;
        }
        return (work + bytes / speed) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        if (form_.dtype == DataType::BF16) return task(*g, depthwise_avx512bf16(), args);
        return task(*g, form_.isa == Isa::Avx512 ? depthwise_avx512() : depthwise_avx2(), args);
    }
};

/// Why this is no convolution with X, Y and residual in the type and layout of the form, and all else in f32.
std::string operand_mismatch(ConvInfo const& info, Request const& request, Form const& form) {
    bool const rounds = form.dtype == DataType::BF16;
    if (rounds && !info.may_round) return "operands may not be rounded to bf16";
    auto reason = (rounds ? rounded_conv_mismatch : conv_mismatch)(info.epilogue, request);
    if (!reason.empty()) return reason;
    auto const &x = request.inputs[0], &y = request.outputs[0];
    for (auto const* operand : {&x, &y})
        if (operand->dtype != form.dtype || operand->layout != form.blocked)
            return "expects X and Y to be " + std::string(name_of(form.dtype)) + " in blocks of " +
                   std::to_string(block_of(form.blocked)) + " channels, got " + std::string(name_of(operand->dtype)) +
                   " in blocks of " + std::to_string(block_of(operand->layout)) + " channels";
    return {};
}

/// `grouped`: several channels in each group, a part of a block.
KernelResult make(ConvInfo const& info, Request const& request, Form const& form, std::string id, bool grouped) {
    if (auto reason = operand_mismatch(info, request, form); !reason.empty()) return Err{Rejection{reason}};
    if (request.isa < form.isa) return Err{Rejection{"needs " + std::string(name_of(form.isa))}};
    auto const& w = request.inputs[1];
    auto width = w.dims[1], block = block_of(form.blocked);
    bool fits =
        grouped ? width > 1 && width < block && block % width == 0 && w.dims[0] == info.group * width : width == 1;
    if (info.group == 1 || !fits)
        return Err{Rejection{grouped ? "is for groups of a part of a block, with as many outputs"
                                     : "is for depthwise convolutions"}};
    return std::unique_ptr<Kernel>(std::make_unique<DepthwiseKernel>(std::move(id), info, form, w.constant));
}

/// The channel of a block that a lane of packed weights is for: blocks of 32, of bf16, have those of even numbers in
/// front (simd/lanes_bf16.h).
int64_t channel_of(int64_t lane, int64_t block) { return block < 32 ? lane : lane % 16 * 2 + lane / 16; }

}  // namespace

void pack_depthwise_block(float const* w, Geometry const& g, int64_t block, int64_t b, float* packed) {
    auto taps = g.taps(), width = g.in_channels / g.group;
    auto* p = packed + b * taps * width * block;
    for (int64_t t = 0; t < taps; ++t)
        for (int64_t i = 0; i < width; ++i)
            for (int64_t lane = 0; lane < block; ++lane) {
                auto c = b * block + channel_of(lane, block);
                *p++ = c < g.out_channels ? w[(c * width + i) * taps + t] : 0.f;
            }
}

std::shared_ptr<mem_manager::Blob const> packed_depthwise(mem_manager::Blob const& weights, Geometry const& g,
                                                          int64_t block, PackCache& packs) {
    auto blocks = (g.out_channels + block - 1) / block, width = g.in_channels / g.group;
    auto bytes = static_cast<size_t>(blocks * block * width * g.taps()) * sizeof(float);
    auto format = "depthwise:" + std::to_string(block) + ':' + std::to_string(width);
    return packs.get(weights, format, bytes, [&](void const* from, void* to) {
        for (int64_t b = 0; b < blocks; ++b)
            pack_depthwise_block(static_cast<float const*>(from), g, block, b, static_cast<float*>(to));
    });
}

KernelResult conv_depthwise_bf16(ConvInfo const& info, Request const& request) {
    return make(info, request, kBf16, "conv:cpu:depthwise:bf16:avx512bf16", false);
}
KernelResult conv_depthwise_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, kAvx512, "conv:cpu:depthwise:f32:avx512", false);
}
KernelResult conv_depthwise_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, kAvx2, "conv:cpu:depthwise:f32:avx2", false);
}
KernelResult conv_grouped_bf16(ConvInfo const& info, Request const& request) {
    return make(info, request, kBf16, "conv:cpu:grouped:bf16:avx512bf16", true);
}
KernelResult conv_grouped_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, kAvx512, "conv:cpu:grouped:f32:avx512", true);
}
KernelResult conv_grouped_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, kAvx2, "conv:cpu:grouped:f32:avx2", true);
}

}  // namespace refactor::kernel
