#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/gathered.h"
#include "matmul/product.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using Functions = ProductFunctionsOf<double>;

/// Groups of fewer rows leave most of a tile's registers idle: they are summed tap by tap.
constexpr int64_t kFewRows = 3;

/// Operands of one run.
struct Operands {
    double const *x, *w, *bias, *residual;
    double* y;
};

class GatheredConv final : public runtime::Task {
    Functions const& functions_;
    GatheredShape shape_;
    Epilogue epilogue_;
    ConvOperands operands_;
    ProductBlockOf<double> product_{};  // with the pointers still open
    int64_t blocks_;
    size_t scratch_bytes_ = 0;

    bool few() const { return shape_.rows < kFewRows; }

    void finish(Operands const& o, int64_t channel, int64_t at, int64_t count) const {
        finish_positions(epilogue_, o.bias ? o.bias[channel] : 0, o.residual ? o.residual + at : nullptr, o.y + at,
                         count);
    }
    void run_block(Operands const& o, int64_t part, double* scratch) const {
        auto const& s = shape_;
        auto first = part % blocks_ * s.block, count = std::min(s.block, s.positions - first);
        part /= blocks_;
        auto group = part % s.g.group, image = part / s.g.group;
        auto const* x = o.x + (image * s.g.group + group) * (s.g.in_channels / s.g.group) * s.g.in_size();
        auto channel = group * s.rows, at = (image * s.g.out_channels + channel) * s.positions + first;
        auto t = product_;
        t.n = count, t.a = o.w + channel * s.depth, t.y = o.y + at;
        if (s.in_place) {
            t.b = x + first;
        } else {
            gather_windows(s, x, first, count, functions_.panel, functions_.width, scratch);
            t.b = scratch;
        }
        functions_.multiply(t);
        if (o.bias || o.residual || epilogue_.activation.kind != ActivationKind::None)
            for (int64_t i = 0; i < s.rows; ++i) finish(o, channel + i, at + i * s.positions, count);
    }
    /// Adds one tap of a plane of X, times its weight, to a row of Y.
    static void add_tap(double const* x, double weight, Geometry const& g, PositionReach const& reach, double* y) {
        x += reach.offset;
        auto step = g.stride[2];
        if (step == 1)
            for (auto i = reach.begin; i < reach.end; ++i) y[i] += weight * *x++;
        else
            for (auto i = reach.begin; i < reach.end; ++i, x += step) y[i] += weight * *x;
    }
    void run_plane(Operands const& o, int64_t plane) const {
        auto const& s = shape_;
        auto const& g = s.g;
        auto image = plane / g.out_channels, channel = plane % g.out_channels, channels = g.in_channels / g.group;
        auto const* x = o.x + (image * g.in_channels + channel / s.rows * channels) * g.in_size();
        auto* y = o.y + plane * s.positions;
        std::fill_n(y, s.positions, 0.);
        for (int64_t row = 0; row < g.out[0] * g.out[1]; ++row) {
            PositionRun const whole{0, g.out[2], {row / g.out[1], row % g.out[1], 0}};
            auto const* w = o.w + channel * s.depth;
            int64_t tap[3];
            for (int64_t c = 0; c < channels; ++c)
                for (tap[0] = 0; tap[0] < g.kernel[0]; ++tap[0])
                    for (tap[1] = 0; tap[1] < g.kernel[1]; ++tap[1])
                        for (tap[2] = 0; tap[2] < g.kernel[2]; ++tap[2])
                            add_tap(x + c * g.in_size(), *w++, g, reach_of(g, whole, tap), y + row * g.out[2]);
        }
        finish(o, channel, plane * s.positions, s.positions);
    }

public:
    GatheredConv(Functions const& functions, Geometry const& g, Epilogue const& epilogue, int threads)
        : functions_(functions),
          shape_(g, functions.panel, threads),
          epilogue_(epilogue),
          operands_(epilogue),
          blocks_(shape_.block ? (shape_.positions + shape_.block - 1) / shape_.block : 0) {
        auto& t = product_;
        t.m = shape_.rows, t.k = shape_.depth, t.a_row = shape_.depth, t.a_k = 1, t.y_row = shape_.positions;
        t.b_row = shape_.positions, t.alpha = 1;
        t.source = shape_.in_place ? ProductSource::Rows : ProductSource::Packed;
        // As of `ProductTask`: a panel is as deep as two L1 hold, and the rows of W that are multiplied with it fill
        // half of L2.
        auto elements = static_cast<int64_t>(cpu_features().l2 / sizeof(double));
        auto deepest = static_cast<int64_t>(cpu_features().l1d * 2 / sizeof(double)) / functions.panel;
        auto pieces = std::max<int64_t>(1, (t.k + deepest - 1) / deepest);
        t.block_k = (t.k + pieces - 1) / pieces;
        t.block_m =
            std::max<int64_t>(1, elements / 2 / std::max<int64_t>(1, t.block_k) / functions.rows) * functions.rows;
        t.near = shape_.block * t.k <= elements / 2;
        if (!few() && !shape_.in_place) scratch_bytes_ = static_cast<size_t>(shape_.block * t.k) * sizeof(double);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto at = [&](int i) { return i < 0 ? nullptr : static_cast<double const*>(arguments[i]); };
        Operands o{at(0), at(1), at(operands_.bias), at(operands_.residual),
                   static_cast<double*>(arguments[operands_.output])};
        if (shape_.positions == 0) return;
        if (few())
            return context.pool.parallel_for(shape_.g.batch * shape_.g.out_channels,
                                             [&](int64_t plane, int) { run_plane(o, plane); });
        context.pool.parallel_for(shape_.g.batch * shape_.g.group * blocks_, [&](int64_t part, int worker) {
            auto* scratch = context.scratch_of(worker);
            run_block(o, part, reinterpret_cast<double*>(scratch));
        });
    }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    double operations() const override {
        return 2. * static_cast<double>(shape_.g.batch * shape_.g.out_channels) *
               static_cast<double>(shape_.positions * shape_.depth);
    }
};

class GatheredKernel final : public NamedKernel {
    Functions const& functions_;
    ConvInfo info_;

public:
    GatheredKernel(Functions const& functions, Isa isa, ConvInfo info)
        : NamedKernel(id_of("conv", "gathered", DataType::F64, isa)), functions_(functions), info_(std::move(info)) {}

    /// Half a nanosecond to gather an element or to add a product by itself; products in tiles as those of matrices.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        auto rows = static_cast<double>(g->out_channels / g->group);
        auto elements = static_cast<double>(g->batch * g->in_channels) * static_cast<double>(g->taps() * g->out_size());
        return 50 + elements * (0.5 + (rows < kFewRows ? 0.5 * rows : rows / (functions_.width * 2.5))) / args.threads;
    }
    TaskResult bind(BindArgs const& args) const override {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(new GatheredConv(functions_, *g, info_.epilogue, args.threads));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, Functions const& (*functions)()) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    if (auto reason = why_not_gathered(info.epilogue, request, isa); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(std::make_unique<GatheredKernel>(functions(), isa, info));
}

}  // namespace

KernelResult conv_gathered_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, product_functions_f64_avx512);
}
KernelResult conv_gathered_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, product_functions_f64_avx2);
}

}  // namespace refactor::kernel
