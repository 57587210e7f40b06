#include "common/thread_pool.h"
#include "conv/cost.h"
#include "pool/pool.h"
#include "pool/pool_job.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// The largest of a window as the largest of its columns' largest, in vectors along the rows of blocks of channels:
/// rows
/// + columns steps for an output instead of rows × columns.
class SeparableTask final : public runtime::Task {
    Geometry g_;
    PoolSeparable separable_;
    PoolJob job_;
    int64_t lanes_;   ///< elements of a position
    int64_t blocks_;  ///< of lanes, in all samples
    int64_t line_size_, lines_, scratch_size_, bands_ = 1;

public:
    SeparableTask(Geometry const& g, PoolInfo const& info, PoolSeparable separable, int64_t lanes, int threads)
        : g_(g),
          separable_(separable),
          job_(job_of<float>(g, info)),
          lanes_(lanes),
          blocks_(g.batch * ((g.in_channels + lanes - 1) / lanes)) {
        // A padded row of the input, as far as windows of the last outputs reach.
        auto reach = std::max(g.pad[2] + g.in[2], (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1);
        line_size_ = (reach * lanes + 15) / 16 * 16;
        // The rows of a pass and what it makes of them stay in L1 (8 KiB of 32).
        lines_ = std::clamp<int64_t>((8 << 10) / (int64_t{sizeof(float)} * line_size_), 1, 16);
        scratch_size_ = lines_ * line_size_;
        bands_ = bands_of(g, blocks_ * g.out[0], threads);
    }

    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_size_) * sizeof(float); }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        context.pool.parallel_for(blocks_ * g_.out[0] * bands_, [&](int64_t task, int worker) {
            auto band = task % bands_, z = task / bands_ % g_.out[0], block = task / bands_ / g_.out[0];
            auto job = job_;
            job.x = x + block * g_.in_size() * lanes_, job.y = y + block * g_.out_size() * lanes_;
            job.row = g_.out[1] * band / bands_, job.row_end = g_.out[1] * (band + 1) / bands_;
            move_to_plane(job, g_, z, lanes_);
            separable_(job, lanes_, reinterpret_cast<float*>(context.scratch_of(worker)), lines_, line_size_);
        });
    }
};

class SeparableKernel final : public NamedKernel {
    PoolInfo info_;
    Isa isa_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = vector_geometry(info_, args);
        if (!g) return g;
        if (g->stride[2] > 1)
            return Err{Rejection{"takes windows at every column, got strides of " + std::to_string(g->stride[2])}};
        return g;
    }
    PoolIsa const& functions() const { return isa_ == Isa::Avx512 ? pool_avx512() : pool_avx2(); }

public:
    SeparableKernel(std::string id, PoolInfo info, Isa isa)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto lanes = block_of(args.inputs[0]->layout), blocks = (g->out_channels + lanes - 1) / lanes;
        auto rows = static_cast<double>(g->batch * blocks * g->out[0] * g->out[1]);
        auto steps = static_cast<double>(lanes * (g->in[2] * g->kernel[0] * g->kernel[1] + g->out[2] * g->kernel[2]));
        auto bytes = 4. * static_cast<double>(args.outputs[0]->stored_count() + args.inputs[0]->stored_count());
        constexpr double kRowNs = 8;
        return (rows * (kRowNs + 2 * steps / (0.3 * cost.flops)) + bytes / memory_bandwidth(args.threads, bytes)) /
               cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<SeparableTask>(
            *g, info_, functions().separable, block_of(args.inputs[0]->layout), std::max(1, args.threads)));
    }
};

KernelResult make(PoolInfo const& info, Request const& request, Isa isa) {
    if (auto reason = vector_mismatch(info, request, isa); !reason.empty()) return Err{Rejection{reason}};
    if (info.kind != PoolKind::Max || request.inputs[0].layout == Layout::Plain)
        return Err{Rejection{"takes the largest of blocks of channels, not averages or sums"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<SeparableKernel>(id_of("pool", "separable", DataType::F32, isa), info, isa));
}

}  // namespace

KernelResult pool_separable_avx512(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512);
}
KernelResult pool_separable_avx2(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2);
}

}  // namespace refactor::kernel
