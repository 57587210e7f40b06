#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/depthwise_pack.h"
#include "conv/geometry.h"
#include "conv_chain/row_buffer_task.h"

namespace refactor::kernel {

namespace {

/// Estimates of two forms of one computation are not more accurate than this; the stages one by one have more to choose
/// from.
constexpr double kMargin = 1.1;

class RowBufferKernel final : public NamedKernel {
    ConvChainInfo info_;
    ChainOperands operands_;
    Isa isa_;
    std::vector<std::shared_ptr<mem_manager::Blob const>> weights_;  ///< by stage
    size_t depthwise_;                                               ///< number of that stage

    TileIsa const& tile() const { return isa_ == Isa::Avx512 ? tile_avx512() : tile_avx2(); }
    bool expands() const { return depthwise_ > 0; }
    bool projects() const { return depthwise_ + 1 < info_.stages.size(); }

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto const& info = info_.stages[depthwise_];
        auto dims_of = [&](size_t stage) -> Dims const& {
            return args.inputs[static_cast<size_t>(operands_.stages[stage].weights)]->dims;
        };
        TensorDesc x = *args.inputs[0], y = *args.outputs[0];
        if (expands()) x.dims[1] = dims_of(0)[0];
        y.dims = conv_output_dims(info.window, x.dims, dims_of(depthwise_));
        TensorDesc const *inputs[] = {&x}, *outputs[] = {&y};
        auto g = geometry_of(info.window, std::span<int64_t const>(dims_of(depthwise_)).subspan(2),
                             {inputs, outputs, {}, args.packs, args.threads});
        if (!g) return g;
        g->group = info.group;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        if (g->in[0] != 1 || g->out[0] != 1 || g->kernel[0] != 1 || g->pad[0] != 0)
            return Err{Rejection{"handles 1 or 2 spatial axes"}};
        if (g->pad[1] < 0 || g->pad[2] < 0) return Err{Rejection{"does not handle negative pads"}};
        if (g->in_size() > INT32_MAX || g->out_size() > INT32_MAX)
            return Err{Rejection{"is for planes of fewer than 2^31 pixels"}};
        return g;
    }

    Pointwise pointwise(size_t stage, BindArgs const& args, bool pack) const {
        auto const& dims = args.inputs[static_cast<size_t>(operands_.stages[stage].weights)]->dims;
        Pointwise part{ChunkList(tile().block, false, dims[1], dims[0], 1, 1), info_.stages[stage].epilogue.activation,
                       operands_.stages[stage], nullptr};
        if (!pack) return part;
        auto const& list = part.list;
        part.weights =
            args.packs.get(*weights_[stage], list.format(), static_cast<size_t>(list.floats) * sizeof(float),
                           [&](void const* from, void* to) {
                               int64_t const tap = 0;
                               for (auto const& chunk : list.chunks)
                                   list.pack(chunk, {static_cast<float const*>(from), 0, dims[1], 1, {&tap, 1}},
                                             static_cast<float*>(to));
                           });
        return part;
    }

    RowBufferTask::Parts parts(Geometry const& g, BindArgs const& args, bool pack) const {
        auto const& last = info_.stages.back().epilogue;
        RowBufferTask::Parts parts{{},
                                   {},
                                   g,
                                   info_.stages[depthwise_].epilogue.activation,
                                   operands_.stages[depthwise_],
                                   nullptr,
                                   operands_.residual,
                                   operands_.output,
                                   last.residual_last};
        if (expands()) parts.expand = pointwise(0, args, pack);
        if (projects()) parts.project = pointwise(depthwise_ + 1, args, pack);
        if (pack) parts.weights = packed_depthwise(*weights_[depthwise_], g, tile().block, args.packs);
        return parts;
    }

public:
    RowBufferKernel(std::string id, ConvChainInfo info, Isa isa,
                    std::vector<std::shared_ptr<mem_manager::Blob const>> weights, size_t depthwise)
        : NamedKernel(std::move(id)),
          info_(std::move(info)),
          operands_(info_),
          isa_(isa),
          weights_(std::move(weights)),
          depthwise_(depthwise) {}

    /// As the estimates of the direct and the depthwise kernel, with the tensors between in L2.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto p = parts(*g, args, false);
        auto *expand = p.expand ? &*p.expand : nullptr, *project = p.project ? &*p.project : nullptr;
        RowBufferPlan plan(*g, expand, project, tile().block, std::max(1, args.threads));
        CostModel cost(isa_, args.threads);
        auto round = [&](int64_t channels) {
            return static_cast<double>((channels + tile().block - 1) / tile().block * tile().block);
        };
        auto channels = static_cast<double>(g->batch) * round(g->in_channels);
        auto in = channels * static_cast<double>(g->in_size()), out = channels * static_cast<double>(g->out_size());
        if (4 * std::max(expand ? in : 0, project ? out : 0) < 0.5 * static_cast<double>(cpu_features().l2))
            return Err{Rejection{"is for tensors between that do not stay in L2 as they are"}};
        auto time = 2 * out * static_cast<double>(g->taps()) / (0.4 * cost.flops);
        auto between = 0.;
        if (expand) time += 2 * in * round(expand->list.in_channels) * plan.work / (0.85 * cost.flops), between += in;
        if (project) time += 2 * out * round(project->list.out_channels) / (0.85 * cost.flops), between += out;
        auto bytes = 4 * static_cast<double>(args.inputs[0]->stored_count() + args.outputs[0]->stored_count());
        return kMargin * (time + 8 * between / cost.l2 + bytes / (2 * cost.bandwidth(bytes))) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<RowBufferTask>(
            parts(*g, args, true), tile(), isa_ == Isa::Avx512 ? depthwise_avx512() : depthwise_avx2(), args.threads));
    }
};

bool is_pointwise(ConvInfo const& info, Operand const& w) {
    auto const& window = info.window;
    bool one = info.group == 1;
    for (size_t i = 0; i + 2 < w.dims.size(); ++i)
        one &= w.dims[i + 2] == 1 && window.strides[i] == 1 && window.pads_begin[i] == 0 && window.pads_end[i] == 0;
    return one;
}

bool is_depthwise(ConvInfo const& info, Operand const& w) {
    return w.dims.size() <= 4 && w.dims[1] == 1 && info.group == w.dims[0];
}

KernelResult make(ConvChainInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_chain_mismatch(info, request); !reason.empty()) return Err{Rejection{reason}};
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    for (auto const& operand : request.inputs)
        if (operand.dtype != DataType::F32)
            return Err{Rejection{"handles f32, got " + std::string(name_of(operand.dtype))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    ChainOperands operands(info);
    if (request.inputs[0].layout != blocked || request.outputs[0].layout != blocked ||
        (operands.residual >= 0 && request.inputs[static_cast<size_t>(operands.residual)].layout != blocked))
        return Err{Rejection{"expects X, Y and the residual in the blocked layout of its vectors"}};
    auto weights_of = [&](size_t stage) -> Operand const& {
        return request.inputs[static_cast<size_t>(operands.stages[stage].weights)];
    };
    auto count = info.stages.size();
    std::vector<std::shared_ptr<mem_manager::Blob const>> weights;
    for (size_t i = 0; i < count; ++i) weights.push_back(weights_of(i).constant);
    for (auto const& w : weights)
        if (!w) return Err{Rejection{"needs constant weights"}};
    // A first stage of one channel can be of both kinds: the other stages say which of them it is.
    auto fits = [&](size_t depthwise) {
        bool all = count > 1 && count <= depthwise + 2;
        for (size_t i = 0; all && i < count; ++i)
            all = i == depthwise ? is_depthwise(info.stages[i], weights_of(i))
                                 : is_pointwise(info.stages[i], weights_of(i));
        return all;
    };
    size_t depthwise = fits(0) ? 0 : 1;
    if (!fits(depthwise))
        return Err{Rejection{"is for a depthwise convolution of 1 or 2 axes with one of one tap before or behind it"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<RowBufferKernel>(std::move(id), info, isa, std::move(weights), depthwise));
}

}  // namespace

KernelResult conv_chain_row_buffer_avx512(ConvChainInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv_chain:cpu:row_buffer:f32:avx512");
}
KernelResult conv_chain_row_buffer_avx2(ConvChainInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv_chain:cpu:row_buffer:f32:avx2");
}

}  // namespace refactor::kernel
