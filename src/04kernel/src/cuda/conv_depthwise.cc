#include "conv/conv.h"
#include "conv/geometry.h"
#include "cuda/channels_first.h"
#include "cuda/conv_depthwise_source.h"
#include "cuda/function_cache.h"
#include "cuda/generated.h"
#include "cuda/kernels.h"
#include "cuda/rates.h"
#include "cuda/rows_source.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Taps along an axis up to which code for each of them pays.
constexpr int64_t kMostTaps = 9;
/// Registers of a thread for sums and for two rows of inputs, of the 168 that three blocks on a processor leave it.
constexpr int64_t kMostRegisters = 112;
/// Bytes of neighbouring channels of a block: half a line of the cache at least, so that whole sectors are read, and
/// few enough that reading their weights is not most of its work.
constexpr int64_t kFewestBytes = 64, kMostBytes = 256;

/// How a convolution is cut into blocks.
struct Cut {
    DepthwiseKind kind;
    int64_t groups = 0, row_strips = 0, strips = 0, blocks = 0;
};

/// The number of lanes that keeps most threads busy. Of equal ones the largest up to a line of the cache, whose blocks
/// share what they read of X.
int lanes_for(int64_t vectors, int64_t vector_bytes) {
    auto least = std::min(vectors, kFewestBytes / vector_bytes), line = 2 * kFewestBytes / vector_bytes;
    int64_t best = 1;
    double busy = 0;
    for (auto lanes = std::max<int64_t>(1, least); lanes <= std::min(vectors, kMostBytes / vector_bytes); ++lanes) {
        auto threads = kDepthwiseThreads / lanes * lanes;
        auto share = static_cast<double>(threads * vectors) / static_cast<double>(ceil_div(vectors, lanes) * lanes);
        if (share > busy || (share == busy && lanes <= line)) busy = share, best = lanes;
    }
    return static_cast<int>(best);
}

Cut cut_for(DepthwiseKind const& kind, Geometry const& g, int vector, int outputs) {
    Cut cut{kind};
    auto& k = cut.kind;
    auto vectors = g.in_channels / vector;
    k.rows = static_cast<int>(g.kernel[1]), k.taps = static_cast<int>(g.kernel[2]);
    k.vector = vector, k.outputs = outputs, k.step = outputs > 1 ? static_cast<int>(g.stride[2]) : 1;
    k.lanes = lanes_for(vectors, vector * static_cast<int64_t>(bits_of(k.dtype)) / 8);
    k.run = vector_width(k.dtype, std::array{k.lanes * vector * g.taps(), g.in_channels * g.taps()});
    cut.groups = ceil_div(vectors, k.lanes), cut.row_strips = ceil_div(g.out[2], outputs);
    cut.strips = g.batch * g.out[1] * cut.row_strips;
    cut.blocks = cut.groups * ceil_div(cut.strips, k.places());
    return cut;
}

/// Whether a strip of outputs shares inputs, without idle threads at the end of a row or more registers than there are.
bool suits(Cut const& cut, Geometry const& g) {
    auto const& k = cut.kind;
    auto idle = cut.row_strips * k.outputs - g.out[2];
    return g.stride[2] < g.kernel[2] && g.dilation[2] == 1 && 4 * idle <= g.out[2] &&
           2 * k.row_registers() + k.outputs * k.vector <= kMostRegisters && cut.blocks >= kFillingBlocks;
}

/// Vectors of 16 bytes, and strips as long as blocks still fill the card; where even single outputs do not, narrower
/// vectors, whose threads are through sooner.
Cut best_cut(DepthwiseKind const& kind, Geometry const& g) {
    auto vector = vector_width(kind.dtype, std::array{g.in_channels});
    for (int outputs : {4, 2})
        if (auto cut = cut_for(kind, g, vector, outputs); suits(cut, g)) return cut;
    auto cut = cut_for(kind, g, vector, 1);
    while (cut.blocks < kProcessors && vector > 1 && vector * bits_of(kind.dtype) > 32)
        cut = cut_for(kind, g, vector /= 2, 1);
    return cut;
}

double operations_of(Geometry const& g) {
    return 2 * static_cast<double>(g.batch * g.out_channels * g.out_size()) * static_cast<double>(g.taps());
}

class DepthwiseKernel final : public Kernel {
    ConvInfo info_;
    DepthwiseKind kind_;
    FunctionCache functions_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        ChannelsFirst turned(args, true);
        auto g = conv_geometry(info_.window, info_.group, turned.args());
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"nothing to compute"}};
        if (g->in_channels != g->group || g->out_channels != g->group)
            return Err{Rejection{"groups of " + std::to_string(g->in_channels / g->group) + " and " +
                                 std::to_string(g->out_channels / g->group) + " channels, expected 1 and 1"}};
        if (g->in[0] != 1 || g->out[0] != 1 || g->kernel[0] != 1 || g->pad[0] != 0)
            return Err{Rejection{"a window over 3 axes"}};
        for (int axis = 1; axis < 3; ++axis) {
            if (g->kernel[axis] > kMostTaps)
                return Err{Rejection{"a window of " + std::to_string(g->kernel[axis]) +
                                     " taps along an axis, at most " + std::to_string(kMostTaps)}};
            auto reach = g->out[axis] * g->stride[axis] + g->kernel[axis] * g->dilation[axis];
            if (std::max(reach, g->in[axis] + g->pad[axis]) >= kNarrow)
                return Err{Rejection{"an axis of more than 2^31 elements"}};
        }
        return g;
    }

public:
    DepthwiseKernel(ConvInfo info, DataType dtype, bool constant, Library const& library)
        : info_(std::move(info)), functions_(library) {
        kind_.dtype = dtype, kind_.constant = constant, kind_.epilogue = info_.epilogue;
    }

    std::string id() const override { return id_of("conv", "depthwise", kind_.dtype); }

    /// Reading operands (of X no more than windows cover), as the library's estimate has it, or multiplying.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto elements = std::min(args.inputs[0]->count(), args.outputs[0]->count() * g->taps());
        for (auto const* operand : args.inputs.subspan(1)) elements += operand ? operand->count() : 0;
        auto bytes = static_cast<double>(elements) * static_cast<double>(bits_of(kind_.dtype)) / 8;
        return kLaunchTime + std::max(bytes / (0.7 * kMemoryRate), operations_of(*g) / 2 / (kProcessors * kTiledRate));
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto cut = best_cut(kind_, *g);
        if (cut.blocks > kMostGrid || g->in_channels >= kNarrow)
            return Err{Rejection{std::to_string(cut.blocks) + " blocks of threads, " + std::to_string(g->in_channels) +
                                 " channels"}};
        auto largest = args.outputs[0]->count();
        for (auto const* input : args.inputs) largest = std::max(largest, input->count());
        cut.kind.wide = largest >= kNarrow / 2;
        ConvOperands at(info_.epilogue);
        GeneratedLaunch launch;
        launch.function = functions_.get("rg_depthwise", cut.kind.key(), [&] { return depthwise_source(cut.kind); });
        launch.blocks = static_cast<uint32_t>(cut.blocks), launch.threads = kDepthwiseThreads;
        // What is absent is not read: any address will do.
        launch.on({0, 1, std::max(0, at.bias), std::max(0, at.residual), at.output});
        for (auto size : {g->in_channels, cut.strips, g->in[1], g->in[2], g->out[2]}) launch.add(size);
        for (int axis : {1, 2})
            for (auto size : {g->stride[axis], g->dilation[axis], g->pad[axis]}) launch.add(size);
        launch.add_axis(cut.groups), launch.add_axis(cut.row_strips), launch.add_axis(g->out[1]);
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            functions_.library(), std::vector<Launch>{launch}, size_t{0}, uint64_t{0}, operations_of(*g)));
    }
};

}  // namespace

MaybeKernel conv_depthwise(ConvInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto why = conv_operand_mismatch(info.epilogue, request); !why.empty()) return Err{Rejection{why}};
    if (!info.channels_last) return Err{Rejection{"the channels are in front"}};
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32 && dtype != DataType::F16 && dtype != DataType::BF16)
        return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype)) + ", expected f32, f16 or bf16"}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    // Known without the sizes of images.
    if (auto const& w = request.inputs[1].dims; w.size() < 3 || w[0] > info.group || w.back() > 1)
        return Err{Rejection{"several channels in a group"}};
    bool constant = request.inputs[1].constant && (!info.epilogue.bias || request.inputs[2].constant);
    return std::unique_ptr<Kernel>(std::make_unique<DepthwiseKernel>(info, dtype, constant, *library));
}

}  // namespace refactor::kernel::cuda
