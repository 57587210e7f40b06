#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/gathered.h"
#include "conv_transpose/conv_transpose.h"
#include "matmul/product.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using Functions = ProductFunctionsOf<double>;

/// For some channels at a time, Wᵀ [channels × taps, X channels] times lines of X, whose elements are then added to
/// where their taps lead: a line at a time, what the windows of a convolution from Y to X would read there.
class ScatteredTask final : public runtime::Task {
    Functions const& functions_;
    Geometry g_;  // of that convolution: `in` is Y
    Epilogue epilogue_;
    ConvOperands operands_;
    ProductBlockOf<double> product_{};  // with the pointers still open
    int64_t x_channels_, y_channels_;   // of a group
    int64_t together_, parts_, lines_;  // channels of a part, parts of a group, lines of a block
    size_t scratch_bytes_;

    /// Adds the products of `count` lines from `first` on to the planes at `y`.
    void scatter(double const* products, int64_t channels, int64_t first, int64_t count, double* y) const {
        auto width = g_.out[2], step = g_.stride[2];
        for (int64_t c = 0; c < channels; ++c, y += g_.in_size()) {
            int64_t tap[3];
            for (tap[0] = 0; tap[0] < g_.kernel[0]; ++tap[0])
                for (tap[1] = 0; tap[1] < g_.kernel[1]; ++tap[1])
                    for (tap[2] = 0; tap[2] < g_.kernel[2]; ++tap[2])
                        for (auto line = first; line < first + count; ++line, products += width) {
                            PositionRun run{0, width, {line / g_.out[1], line % g_.out[1], 0}};
                            auto reach = reach_of(g_, run, tap);
                            auto* to = y + reach.offset;
                            for (auto i = reach.begin; i < reach.end; ++i, to += step) *to += products[i];
                        }
        }
    }
    void run_part(void* const* arguments, int64_t part, double* scratch) const {
        auto at = [&](int i) { return i < 0 ? nullptr : static_cast<double const*>(arguments[i]); };
        auto first = part % parts_ * together_, channels = std::min(together_, y_channels_ - first);
        part /= parts_;
        auto group = part % g_.group, channel = group * y_channels_ + first;
        auto plane = part / g_.group * g_.group * y_channels_ + channel, all = g_.out[0] * g_.out[1];
        auto* y = static_cast<double*>(arguments[operands_.output]) + plane * g_.in_size();
        std::fill_n(y, channels * g_.in_size(), 0.);
        auto t = product_;
        t.m = channels * g_.taps(), t.y = scratch, t.block_m = t.m;
        t.a = at(1) + (group * x_channels_ * y_channels_ + first) * g_.taps();
        for (int64_t line = 0; line < all; line += lines_) {
            auto count = std::min(lines_, all - line);
            t.n = t.y_row = count * g_.out[2];
            t.b = at(0) + part * x_channels_ * g_.out_size() + line * g_.out[2];
            functions_.multiply(t);
            scatter(scratch, channels, line, count, y);
        }
        auto const *bias = at(operands_.bias), *residual = at(operands_.residual);
        for (int64_t c = 0; c < channels; ++c)
            finish_positions(epilogue_, bias ? bias[channel + c] : 0,
                             residual ? residual + (plane + c) * g_.in_size() : nullptr, y + c * g_.in_size(),
                             g_.in_size());
    }

public:
    ScatteredTask(Functions const& functions, Geometry const& g, Epilogue const& epilogue, int threads)
        : functions_(functions),
          g_(g),
          epilogue_(epilogue),
          operands_(epilogue),
          x_channels_(g.in_channels / g.group),
          y_channels_(g.out_channels / g.group) {
        std::swap(g_.in, g_.out);
        // The products of a block fill half of L2; two tiles of rows, or all that one block of lines leaves room for.
        auto room = static_cast<int64_t>(cpu_features().l2 / 2 / sizeof(double)) / std::max<int64_t>(1, g_.taps());
        auto positions = std::max<int64_t>(1, g_.out_size()), line = std::max<int64_t>(1, g_.out[2]);
        together_ = std::max(room / positions, 2 * functions.rows / std::max<int64_t>(1, g_.taps()));
        if (threads > 1) together_ = std::min(together_, g_.batch * g_.out_channels / (2 * threads));
        together_ = std::clamp<int64_t>(together_, 1, std::max<int64_t>(1, y_channels_));
        parts_ = (y_channels_ + together_ - 1) / together_;
        lines_ = std::clamp<int64_t>(room / together_ / line, 1, std::max<int64_t>(1, g_.out[0] * g_.out[1]));
        scratch_bytes_ = static_cast<size_t>(together_ * g_.taps() * lines_ * line) * sizeof(double);
        auto& t = product_;
        t.k = x_channels_, t.a_row = 1, t.a_k = y_channels_ * g_.taps(), t.b_row = g_.out_size(), t.alpha = 1;
        t.source = ProductSource::Rows, t.block_k = t.k;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (g_.in_size() == 0) return;
        context.pool.parallel_for(g_.batch * g_.group * parts_, [&](int64_t part, int worker) {
            auto* scratch = context.scratch_of(worker);
            run_part(arguments, part, reinterpret_cast<double*>(scratch));
        });
    }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.in_channels * g_.out_size()) *
               static_cast<double>(y_channels_ * g_.taps());
    }
};

class ScatteredKernel final : public NamedKernel {
    Functions const& functions_;
    ConvTransposeInfo info_;

public:
    ScatteredKernel(Functions const& functions, Isa isa, ConvTransposeInfo info)
        : NamedKernel(id_of("conv_transpose", "scattered", DataType::F64, isa)),
          functions_(functions),
          info_(std::move(info)) {}

    /// A nanosecond to add an element to its place; products as those of matrices.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = conv_transpose_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        auto elements = static_cast<double>(g->batch * g->out_channels) * static_cast<double>(g->taps() * g->in_size());
        auto depth = static_cast<double>(g->in_channels / g->group);
        return 50 + elements * (1 + depth / (functions_.width * 2.5)) / args.threads;
    }
    TaskResult bind(BindArgs const& args) const override {
        auto g = conv_transpose_geometry(info_.window, info_.group, args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(new ScatteredTask(functions_, *g, info_.epilogue, args.threads));
    }
};

KernelResult make(ConvTransposeInfo const& info, Request const& request, Isa isa, Functions const& (*functions)()) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    if (auto reason = why_not_gathered(info.epilogue, request, isa); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(std::make_unique<ScatteredKernel>(functions(), isa, info));
}

}  // namespace

KernelResult conv_transpose_scattered_avx512(ConvTransposeInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, product_functions_f64_avx512);
}
KernelResult conv_transpose_scattered_avx2(ConvTransposeInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, product_functions_f64_avx2);
}

}  // namespace refactor::kernel
