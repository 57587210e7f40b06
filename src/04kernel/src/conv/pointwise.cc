#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "matmul/product.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// Of each image and group W [rows, depth] times X [depth, positions]: lanes are positions, so that none is without
/// work however many channels a group has, and nothing is packed.
struct PointwiseShape {
    int64_t batch, groups, rows, depth, positions;
    int64_t block, blocks;         ///< positions of a part
    int64_t part_rows, row_parts;  ///< its rows

    PointwiseShape(Geometry const& g, ProductFunctions const& f, int threads)
        : batch(g.batch),
          groups(g.group),
          rows(g.out_channels / g.group),
          depth(g.in_channels / g.group),
          positions(g.out_size()),
          part_rows(rows) {
        // What a part reads of X fills half of L2, but is enough for reading W not to count.
        constexpr int64_t kLeastPanels = 2;
        auto cached = static_cast<int64_t>(cpu_features().l2 / 2 / sizeof(float)) / depth;
        block = std::max(kLeastPanels * f.panel, cached / f.panel * f.panel);
        auto wanted = threads > 1 ? int64_t{2} * threads : 1, images = batch * groups;
        if (wanted > images) block = std::min(block, round_up(ceil_div(positions, ceil_div(wanted, images)), f.panel));
        block = std::min(block, round_up(positions, f.panel)), blocks = ceil_div(positions, block);
        // Few positions: fewer rows in each part, whole tiles of them.
        if (auto parts = images * blocks; parts < wanted)
            part_rows = round_up(ceil_div(rows, ceil_div(wanted, parts)), f.rows);
        row_parts = ceil_div(rows, part_rows);
    }
    int64_t parts() const { return batch * groups * blocks * row_parts; }
    /// Channels of X fall on few sets of L1: panels of it are copied.
    bool packs() const { return positions * int64_t{sizeof(float)} % 1024 == 0; }
    double operations() const {
        return 2. * static_cast<double>(batch * groups * rows) * static_cast<double>(positions * depth);
    }
};

class PointwiseTask final : public runtime::Task {
    ProductFunctions const& functions_;
    PointwiseShape shape_;
    ConvOperands operands_;
    ProductBlock product_{};  // with the pointers still open

    void run_part(void* const* arguments, int64_t part, std::byte* scratch) const {
        auto at = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
        auto const& s = shape_;
        auto row = part % s.row_parts * s.part_rows;
        part /= s.row_parts;
        auto first = part % s.blocks * s.block;
        part /= s.blocks;
        auto channel = part % s.groups * s.rows + row;
        auto y = (part / s.groups * s.groups * s.rows + channel) * s.positions + first;
        auto t = product_;
        t.m = std::min(s.part_rows, s.rows - row), t.n = std::min(s.block, s.positions - first);
        t.a = at(1) + channel * s.depth, t.b = at(0) + part * s.depth * s.positions + first;
        if (auto const* bias = at(operands_.bias)) t.row_bias = bias + channel;
        if (auto const* residual = at(operands_.residual)) t.residual = residual + y;
        t.y = static_cast<float*>(arguments[operands_.output]) + y;
        t.scratch = reinterpret_cast<float*>(scratch);
        functions_.multiply(t);
    }

public:
    PointwiseTask(ProductFunctions const& functions, PointwiseShape const& shape, Epilogue const& epilogue)
        : functions_(functions), shape_(shape), operands_(epilogue) {
        auto& t = product_;
        t.k = shape.depth, t.a_row = shape.depth, t.a_k = 1, t.b_row = t.y_row = shape.positions, t.alpha = 1;
        t.activation = epilogue.activation, t.residual_last = epilogue.residual_last;
        t.source = shape.packs() ? ProductSource::PackRows : ProductSource::Rows;
        // As of `ProductTask`: a panel takes an eighth of L2, the rows of W that are multiplied with it half of it.
        auto elements = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
        auto deepest = std::max<int64_t>(64, elements / 8 / functions.panel);
        t.block_k = ceil_div(t.k, ceil_div(t.k, deepest));
        t.block_m = round_up(std::max<int64_t>(1, elements / 2 / t.block_k), functions.rows);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(
            shape_.parts(), [&](int64_t part, int worker) { run_part(arguments, part, context.scratch_of(worker)); });
    }
    size_t scratch_bytes() const override {
        return shape_.packs() ? static_cast<size_t>(product_.block_k * functions_.panel) * sizeof(float) : 0;
    }
    double operations() const override { return shape_.operations(); }
};

class PointwiseKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;

    ProductFunctions const& functions() const {
        return isa_ == Isa::Avx512 ? product_functions_avx512() : product_functions_avx2();
    }
    Result<PointwiseShape, Rejection> shape_of(BindArgs const& args) const {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        if (g->empty()) return Err{Rejection{"nothing to compute"}};
        if (g->padded() || !std::equal(g->in, g->in + 3, g->out))
            return Err{Rejection{"is for windows that read every position once"}};
        if (auto width = functions().width; g->out_size() < width)
            return Err{Rejection{"is for " + std::to_string(width) + " or more positions, got " +
                                 std::to_string(g->out_size())}};
        return PointwiseShape(*g, functions(), std::max(1, args.threads));
    }

public:
    PointwiseKernel(std::string id, ConvInfo info, Isa isa)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa) {}

    /// As that of the direct kernel, with pairs of rows instead of blocks of channels; to begin and end a tile takes as
    /// long as 6 products of each output.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto s = shape_of(args);
        if (!s) return Err{s.error()};
        CostModel cost(isa_, args.threads);
        constexpr int64_t kBeginAndEnd = 6, kCopy = 4;
        auto images = static_cast<double>(s->batch * s->groups);
        // To copy a panel takes as long as to multiply some rows with it.
        auto rows = round_up(s->rows, 2) + (s->packs() ? kCopy : 0);
        auto outputs = static_cast<double>(rows * round_up(s->positions, functions().width));
        auto work = images * outputs * 2 * static_cast<double>(s->depth + kBeginAndEnd) / (0.8 * cost.flops);
        auto weights = 4 * static_cast<double>(s->groups * s->rows * s->depth);
        auto bytes = 4 * images * static_cast<double>((s->rows + s->depth) * s->positions);
        auto workers = static_cast<double>(std::min<int64_t>(cost.threads, s->parts()));
        return std::max(work, weights / cost.bandwidth(weights)) / workers +
               bytes / (cost.bandwidth(bytes) * 2 * workers);
    }
    TaskResult bind(BindArgs const& args) const override {
        auto s = shape_of(args);
        if (!s) return Err{s.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<PointwiseTask>(functions(), *s, info_.epilogue));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    if (auto reason = why_not_isa(request, isa); !reason.empty()) return Err{Rejection{reason}};
    if (auto reason = why_not_plain_cpu(request); !reason.empty()) return Err{Rejection{reason}};
    auto const& w = request.inputs[1];
    if (w.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(w.dtype))}};
    if (std::any_of(w.dims.begin() + 2, w.dims.end(), [](int64_t size) { return size != 1; }))
        return Err{Rejection{"is for windows of one element"}};
    constexpr int64_t kFewest = 3;
    if (auto rows = w.dims[0] / std::max<int64_t>(1, info.group); rows < kFewest)
        return Err{Rejection{"is for " + std::to_string(kFewest) + " or more output channels of a group, got " +
                             std::to_string(rows)}};
    return std::unique_ptr<Kernel>(std::make_unique<PointwiseKernel>(std::move(id), info, isa));
}

}  // namespace

KernelResult conv_pointwise_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:pointwise:f32:avx512");
}
KernelResult conv_pointwise_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:pointwise:f32:avx2");
}

}  // namespace refactor::kernel
