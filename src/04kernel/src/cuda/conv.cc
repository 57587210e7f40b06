#include "conv/conv.h"

#include "cuda/channels_first.h"
#include "cuda/conv_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/rates.h"

#include <algorithm>
#include <optional>

namespace refactor::kernel::cuda {

namespace {

/// Multiply-adds a nanosecond of one processor without tiles: each waits for two loads, about 40 cycles from the
/// first-level cache, of 8 warps that share the processor.
constexpr double kDirectRate = 8 * 32 / 40. * 1.7;
/// Partial sums of a split product: no more than stay in the second-level cache.
constexpr int64_t kMostPartialBytes = int64_t(32) << 20;
/// Slabs of a split at least, so that fetching the first is not most of its time.
constexpr int64_t kFewestSlabs = 4;

/// How a convolution is cut into blocks.
struct Cut {
    ConvTile const* tile = nullptr;
    ConvWords words;
    int64_t blocks = 0;
    double cost = 0;

    Cut(Geometry const& g) : words(g) {}
};

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t sum_bytes_of(DataType dtype) { return dtype == DataType::F64 ? 8 : 4; }

int64_t outputs_of(ConvWords const& w) { return w.batch * w.groups * w.group_out * w.out[0] * w.out[1] * w.out[2]; }

/// Multiply-adds for one output, at most.
int64_t inner_of(ConvWords const& w, bool transposed) {
    auto inner = w.group_in;
    for (int axis = 0; axis < 3; ++axis)
        inner *= transposed ? quotient_up(w.kernel[axis], w.tap_step[axis]) : w.kernel[axis];
    return inner;
}

Cut cut_for(ConvTile const& tile, Geometry const& g, bool transposed, int64_t sum_bytes) {
    Cut cut(g);
    auto& w = cut.words;
    int64_t phases = 1, positions = w.batch;
    for (int axis = 0; axis < 3; ++axis) {
        auto step = transposed ? w.stride[axis] : 1;
        phases *= step, positions *= quotient_up(w.out[axis], step);
    }
    cut.tile = &tile;
    w.row_tiles = quotient_up(w.group_out, tile.rows), w.column_tiles = quotient_up(positions, tile.columns);
    auto slabs = quotient_up(inner_of(w, transposed), tile.depth);
    auto blocks = w.row_tiles * w.column_tiles * w.groups * phases;
    auto most = std::min(slabs / kFewestSlabs, kMostPartialBytes / std::max<int64_t>(1, outputs_of(w) * sum_bytes));
    w.splits = std::max<int64_t>(1, std::min(kFillingBlocks / std::max<int64_t>(1, blocks), most));
    w.slabs_each = quotient_up(slabs, w.splits);
    w.splits = std::max<int64_t>(1, quotient_up(slabs, std::max<int64_t>(1, w.slabs_each)));
    cut.blocks = blocks * w.splits;
    auto products = static_cast<double>(w.slabs_each) * tile.depth * tile.rows * tile.columns;
    cut.cost = static_cast<double>(quotient_up(cut.blocks, kProcessors)) * products / kTiledRate +
               (w.splits > 1 ? 2 * kLaunchTime : kLaunchTime);
    return cut;
}

Cut best_cut(Geometry const& g, bool transposed, DataType dtype) {
    std::optional<Cut> best;
    for (auto const& tile : kConvTiles) {
        // A slab of f64 is as large as one of twice the depth.
        if (dtype == DataType::F64 && tile.rows > 64) continue;
        auto cut = cut_for(tile, g, transposed, sum_bytes_of(dtype));
        if (!best || cut.cost < best->cost) best = cut;
    }
    return *best;
}

Cut direct_cut(Geometry const& g, bool transposed) {
    Cut cut(g);
    auto outputs = outputs_of(cut.words);
    cut.blocks = blocks_for(outputs, 256);
    auto products = static_cast<double>(outputs) * static_cast<double>(inner_of(cut.words, transposed));
    cut.cost =
        kLaunchTime + products / kDirectRate / static_cast<double>(std::clamp<int64_t>(cut.blocks, 1, kProcessors));
    return cut;
}

double operations_of(ConvWords const& w) {
    double taps = 1;
    for (auto size : w.kernel) taps *= static_cast<double>(size);
    return 2 * static_cast<double>(outputs_of(w)) * static_cast<double>(w.group_in) * taps;
}

class ConvKernel final : public Kernel {
    Window window_;
    int64_t group_;
    ConvKind kind_;
    bool direct_;
    FunctionCache functions_;

    Result<Cut, Rejection> cut(BindArgs const& args) const {
        ChannelsFirst turned(args, kind_.channels_last);
        auto g = kind_.transposed ? conv_transpose_geometry(window_, group_, turned.args())
                                  : conv_geometry(window_, group_, turned.args());
        if (!g) return Err{g.error()};
        return direct_ ? direct_cut(*g, kind_.transposed) : best_cut(*g, kind_.transposed, kind_.dtype);
    }

public:
    ConvKernel(Window window, int64_t group, ConvKind const& kind, bool direct, Library const& library)
        : window_(std::move(window)), group_(group), kind_(kind), direct_(direct), functions_(library) {}

    std::string id() const override {
        return id_of(kind_.transposed ? "conv_transpose" : "conv", direct_ ? "direct" : "implicit_product",
                     kind_.dtype);
    }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto found = cut(args);
        if (!found) return Err{found.error()};
        return found->cost;
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto found = cut(args);
        if (!found) return Err{found.error()};
        // Threads walk with strides of up to 2^28 elements.
        constexpr int64_t kNarrow = int64_t(1) << 30;
        if (found->blocks > kMostGrid) return Err{Rejection{std::to_string(found->blocks) + " blocks of threads"}};
        auto const& w = found->words;
        auto kind = kind_;
        kind.rank = 1;
        for (int axis = 0; axis < 2; ++axis)
            if (w.in[axis] != 1 || w.out[axis] != 1 || w.kernel[axis] != 1 || w.pad[axis] != 0)
                kind.rank = std::max(kind.rank, 3 - axis);
        auto largest = args.outputs[0]->count() * w.splits;
        for (auto const* input : args.inputs)
            if (input) largest = std::max(largest, input->count());
        kind.wide = largest >= kNarrow;
        auto const* tile = found->tile;
        int64_t run = tile ? tile->rows * tile->depth / 256 : 1;
        kind.vector = tile && !kind.transposed && inner_of(w, false) % run == 0;
        auto write = [&] { return tile ? implicit_conv_source(kind, *tile) : direct_conv_source(kind); };
        auto key = kind.key() + (tile ? std::to_string(tile->rows) + 'x' + std::to_string(tile->columns) : "");
        auto* function = functions_.get("rg_conv", key, write);
        auto* sum = w.splits > 1 ? functions_.get("rg_conv_sum", key, write) : nullptr;
        ConvOperands at(kind.epilogue);
        // What is absent is not read: any address will do.
        std::vector<Address> addresses{{0}, {1}, {std::max(0, at.bias)}, {std::max(0, at.residual)}, {at.output}};
        addresses.push_back({Address::kWorkspace});
        std::vector<Launch> launches;
        auto outputs = outputs_of(w);
        if (outputs > 0)
            launches.push_back({function, static_cast<uint32_t>(found->blocks), 256, addresses, words_of(w)});
        if (outputs > 0 && sum) launches.push_back({sum, blocks_for(outputs, 256), 256, addresses, words_of(w)});
        auto bytes = sum ? outputs * w.splits * sum_bytes_of(kind.dtype) : 0;
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            functions_.library(), std::move(launches), static_cast<size_t>(bytes), 0, operations_of(w)));
    }
};

MaybeKernel make(Window const& window, int64_t group, ConvKind kind, bool direct, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto why = conv_operand_mismatch(kind.epilogue, request); !why.empty()) return Err{Rejection{why}};
    auto dtype = request.inputs[0].dtype;
    if (!is_float(dtype) || !element_text(dtype))
        return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype)) + ", expected f32, f64, f16 or bf16"}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    if (kind.channels_last && !direct) return Err{Rejection{"the channels are last"}};
    kind.dtype = dtype;
    return std::unique_ptr<Kernel>(std::make_unique<ConvKernel>(window, group, kind, direct, *library));
}

}  // namespace

MaybeKernel conv_implicit_product(ConvInfo const& info, Request const& request) {
    return make(info.window, info.group, ConvKind::of(info), false, request);
}
MaybeKernel conv_direct(ConvInfo const& info, Request const& request) {
    return make(info.window, info.group, ConvKind::of(info), true, request);
}
MaybeKernel conv_transpose_implicit_product(ConvTransposeInfo const& info, Request const& request) {
    return make(info.window, info.group, ConvKind::of(info), false, request);
}
MaybeKernel conv_transpose_direct(ConvTransposeInfo const& info, Request const& request) {
    return make(info.window, info.group, ConvKind::of(info), true, request);
}

}  // namespace refactor::kernel::cuda
