#include "col2im/col2im_band.h"
#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/activate_in_place.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "matmul/product.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// Output channels, beyond which windows are multiplied in place at the registers' rate.
constexpr int64_t kMostOutputs = 8;
/// Input channels, of which fewer leave the sums of taps to take as long as the products.
constexpr int64_t kLeastDepth = 16;

/// Functions of an instruction set.
struct Functions {
    ProductFunctions const& product;
    void (*activate)(float* y, int64_t count, Activation const&);
};
Functions functions_of(Isa isa) {
    if (isa == Isa::Avx512) return {product_functions_avx512(), activate_in_place_avx512};
    return {product_functions_avx2(), activate_in_place_avx2};
}

/// [M, C, taps] to [M][tap][C].
void pack(float const* w, Geometry const& g, float* packed) {
    for (int64_t m = 0; m < g.out_channels; ++m, w += g.in_channels * g.taps())
        for (int64_t t = 0; t < g.taps(); ++t)
            for (int64_t c = 0; c < g.in_channels; ++c) *packed++ = w[c * g.taps() + t];
}

/// Bands of the output, which share no sums: of its planes, of its rows if there is one plane, of one row's columns.
struct Bands {
    int axis = 0;
    int64_t number = 1;

    Bands(Geometry const& g, int threads) {
        while (axis < 2 && g.out[axis] == 1 && g.in[axis] == 1) ++axis;
        if (threads == 1) return;
        // What windows reach beyond a band is multiplied again: a quarter of it at most.
        auto beyond = (g.kernel[axis] - 1) * g.dilation[axis];
        auto most = beyond ? g.out[axis] / (4 * beyond) : g.out[axis];
        number = std::clamp<int64_t>(ceil_div(2 * threads, g.batch), 1, std::max<int64_t>(1, most));
    }
};

/// W [outputs × taps, C] times the positions of X, each row of which is then added to the output where its tap leads:
/// X is packed once for all taps, and few outputs fill the tiles of products.
class ScatteredTask final : public runtime::Task {
    Functions functions_;
    Geometry g_;
    Activation activation_;
    ConvOperands operands_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    ProductBlock product_{};  // with the pointers still open
    Bands bands_;
    int64_t lines_, columns_;  ///< of X at a time: whole lines, or a part of one

    int64_t weight_floats() const { return g_.out_channels * g_.taps() * g_.in_channels; }
    int64_t panel_floats() const { return round_up(product_.block_k * functions_.product.panel, 16); }

    /// Lines [line, end) of X, of which line i is row i mod in[1] of a plane, and their columns, for a band of Y.
    struct Part {
        int64_t line, end, column, column_end;
        int64_t band, band_end;  ///< in steps of its axis

        int64_t columns() const { return column_end - column; }
    };

    /// Adds the products of one tap to a channel of Y.
    void add_tap(float const* products, int64_t const (&tap)[3], Part const& part, float* y) const {
        int64_t shift[3], low[3] = {0, 0, 0}, high[3];
        for (int a = 0; a < 3; ++a) {
            shift[a] = g_.pad[a] - tap[a] * g_.dilation[a];
            auto first = a == bands_.axis ? part.band : 0, end = a == bands_.axis ? part.band_end : g_.out[a];
            low[a] = std::max<int64_t>(0, first - shift[a]), high[a] = std::min(g_.in[a], end - shift[a]);
        }
        auto column = std::max(low[2], part.column), column_end = std::min(high[2], part.column_end);
        if (column >= column_end) return;
        for (auto plane = std::max(low[0], part.line / g_.in[1]); plane < high[0]; ++plane) {
            auto begin = plane * g_.in[1];
            if (begin >= part.end) break;
            auto row = std::max(low[1], part.line - begin), end = std::min(high[1], part.end - begin);
            if (row >= end) continue;
            auto to = ((plane + shift[0]) * g_.out[1] + row + shift[1]) * g_.out[2] + column + shift[2];
            auto from = (begin + row - part.line) * part.columns() + column - part.column;
            add_tap_avx2({products + from, y + to, part.columns(), g_.out[2], end - row, column_end - column});
        }
    }
    void scatter(float const* products, Part const& part, float* y) const {
        auto size = (part.end - part.line) * part.columns();
        for (int64_t m = 0; m < g_.out_channels; ++m, y += g_.out_size()) {
            int64_t tap[3];
            for (tap[0] = 0; tap[0] < g_.kernel[0]; ++tap[0])
                for (tap[1] = 0; tap[1] < g_.kernel[1]; ++tap[1])
                    for (tap[2] = 0; tap[2] < g_.kernel[2]; ++tap[2], products += size) add_tap(products, tap, part, y);
        }
    }
    /// One band of the output of an image.
    void run_band(float const* x, float const* w, float const* bias, float* y, int64_t band, float* scratch) const {
        auto axis = bands_.axis;
        auto first = g_.out[axis] * band / bands_.number, end = g_.out[axis] * (band + 1) / bands_.number;
        int64_t step = 1;
        for (int a = axis + 1; a < 3; ++a) step *= g_.out[a];
        for (int64_t m = 0; m < g_.out_channels; ++m)
            std::fill_n(y + m * g_.out_size() + first * step, (end - first) * step, bias ? bias[m] : 0.f);
        auto beyond = (g_.kernel[axis] - 1) * g_.dilation[axis];
        auto seen = std::max<int64_t>(0, first - g_.pad[axis]);
        auto seen_end = std::clamp<int64_t>(end + beyond - g_.pad[axis], 0, g_.in[axis]);
        Part whole{0, g_.in[0] * g_.in[1], 0, g_.in[2], first, end};
        if (axis == 2)
            whole.column = seen, whole.column_end = seen_end;
        else
            whole.line = seen * (axis == 0 ? g_.in[1] : 1), whole.end = seen_end * (axis == 0 ? g_.in[1] : 1);
        auto t = product_;
        t.a = w, t.scratch = scratch, t.y = scratch + panel_floats();
        auto part = whole;
        for (part.line = whole.line; part.line < whole.end; part.line += lines_)
            for (part.column = whole.column; part.column < whole.column_end; part.column += columns_) {
                part.end = std::min(whole.end, part.line + lines_);
                part.column_end = std::min(whole.column_end, part.column + columns_);
                t.n = t.y_row = (part.end - part.line) * part.columns();
                t.b = x + part.line * g_.in[2] + part.column;
                functions_.product.multiply(t);
                scatter(t.y, part, y);
            }
        if (activation_.kind == ActivationKind::None) return;
        for (int64_t m = 0; m < g_.out_channels; ++m)
            functions_.activate(y + m * g_.out_size() + first * step, (end - first) * step, activation_);
    }

public:
    ScatteredTask(Functions const& functions, Geometry const& g, Epilogue const& epilogue,
                  std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : functions_(functions),
          g_(g),
          activation_(epilogue.activation),
          operands_(epilogue),
          packed_(std::move(packed)),
          bands_(g, std::max(1, threads)) {
        // A panel of X and the products of a block of lines share half of L2.
        auto elements = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
        auto deepest = std::max<int64_t>(64, elements / 8 / functions.product.panel);
        auto& t = product_;
        t.m = g.out_channels * g.taps(), t.k = g.in_channels;
        t.a_row = t.k, t.a_k = 1, t.b_row = g.in_size(), t.alpha = 1;
        t.source = ProductSource::PackRows, t.block_k = ceil_div(t.k, ceil_div(t.k, deepest));
        // All rows of W for each panel, which is packed once: blocks of them that stay in L2 took 6 % longer (Zen 5).
        t.block_m = round_up(t.m, functions.product.rows);
        auto positions = std::max<int64_t>(elements / 4 / t.m, functions.product.panel);
        lines_ = std::clamp<int64_t>(positions / g.in[2], 1, g.in[0] * g.in[1]);
        columns_ = std::min(g.in[2], positions);
    }

    size_t scratch_bytes() const override {
        return static_cast<size_t>(panel_floats() + product_.m * lines_ * columns_) * sizeof(float);
    }
    size_t workspace_bytes() const override {
        return packed_ ? 0 : static_cast<size_t>(weight_floats()) * sizeof(float);
    }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_size() * g_.out_channels * g_.taps() * g_.in_channels);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* own = reinterpret_cast<float*>(context.workspace);
        if (!packed_) pack(static_cast<float const*>(arguments[1]), g_, own);
        auto const* w = packed_ ? static_cast<float const*>(packed_->data()) : own;
        auto const* bias = operands_.bias < 0 ? nullptr : static_cast<float const*>(arguments[operands_.bias]);
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[operands_.output]);
        context.pool.parallel_for(g_.batch * bands_.number, [&](int64_t task, int worker) {
            auto image = task / bands_.number;
            run_band(x + image * g_.in_channels * g_.in_size(), w, bias, y + image * g_.out_channels * g_.out_size(),
                     task % bands_.number, reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
};

class ScatteredKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = merged_conv_geometry(info_, args);
        if (!g) return g;
        for (auto stride : g->stride)
            if (stride != 1) return Err{Rejection{"is for strides of 1"}};
        if (g->taps() == 1) return Err{Rejection{"is for windows of several taps"}};
        return g;
    }

public:
    ScatteredKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    /// Products in whole tiles of rows, as those of matrices; panels of X are packed on the way; to add a vector to its
    /// place takes about three cycles, and each tap of a line some more.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto const& product = functions_of(isa_).product;
        constexpr double kSpeed = 0.7, kPackedNs = 0.03, kAddedNs = 0.05, kLineNs = 2;
        auto rows = g->out_channels * g->taps();
        auto positions = static_cast<double>(g->batch * round_up(g->in_size(), product.width));
        auto depth = static_cast<double>(g->in_channels), taps = static_cast<double>(rows);
        auto work =
            2 * positions * depth * static_cast<double>(round_up(rows, product.rows / 2)) / (kSpeed * cost.flops);
        auto added = taps * (positions * kAddedNs + static_cast<double>(g->batch * g->in[0] * g->in[1]) * kLineNs);
        auto bytes = 4. * static_cast<double>(args.inputs[0]->stored_count() + args.outputs[0]->stored_count());
        return (work + positions * depth * kPackedNs + added + bytes / (cost.bandwidth(bytes) * 2)) /
               static_cast<double>(std::min<int64_t>(cost.threads, g->batch * Bands(*g, cost.threads).number));
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) {
            auto floats = g->out_channels * g->taps() * g->in_channels;
            packed = args.packs.get(*weights_, "scattered", static_cast<size_t>(floats) * sizeof(float),
                                    [&](void const* from, void* to) {
                                        pack(static_cast<float const*>(from), *g, static_cast<float*>(to));
                                    });
        }
        return std::unique_ptr<runtime::Task>(
            std::make_unique<ScatteredTask>(functions_of(isa_), *g, info_.epilogue, std::move(packed), args.threads));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (x.layout != Layout::Plain || y.layout != Layout::Plain)
        return Err{Rejection{"expects X and Y in the Plain layout"}};
    if (info.group != 1 || info.epilogue.residual) return Err{Rejection{"is for one group and no residual"}};
    if (w.dims[0] < 1 || w.dims[0] > kMostOutputs || w.dims[1] < kLeastDepth)
        return Err{Rejection{"is for 1 to " + std::to_string(kMostOutputs) + " output channels and " +
                             std::to_string(kLeastDepth) + " or more input channels, got " + std::to_string(w.dims[0]) +
                             " and " + std::to_string(w.dims[1])}};
    return std::unique_ptr<Kernel>(std::make_unique<ScatteredKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

KernelResult conv_scattered_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:scattered:f32:avx512");
}
KernelResult conv_scattered_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:scattered:f32:avx2");
}

}  // namespace refactor::kernel
