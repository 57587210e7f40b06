#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/shares.h"
#include "pool/pool.h"
#include "pool/pool_job.h"
#include "reorder/transpose_blocks.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Pools blocks of channels; planes of Plain tensors go through blocked copies in scratch memory of the thread.
class SimdTask final : public runtime::Task {
    Geometry g_;
    PoolIsa const* isa_;
    ReorderIsa const* reorder_;  ///< null: blocked operands
    PoolJob job_;
    PlaneShares shares_;

    int64_t scratch_floats() const { return reorder_ ? (g_.in_size() + g_.out_size()) * isa_->block : 0; }

    /// Rows of output plane z; the job's `x` and `y` are those of the first planes.
    void run_plane(PoolJob job, int64_t z) const {
        move_to_plane(job, g_, z, isa_->block);
        isa_->rows(job);
    }

    void run_plain(float const* x, float* y, int64_t plane, float* scratch) const {
        auto b = plane % shares_.blocks, n = plane / shares_.blocks;
        auto channels = static_cast<int32_t>(std::min<int64_t>(isa_->block, g_.in_channels - b * isa_->block));
        auto first = n * g_.in_channels + b * isa_->block;
        auto* pooled = scratch + g_.in_size() * isa_->block;
        reorder_->to_blocked(
            {const_cast<float*>(x) + first * g_.in_size(), g_.in_size(), scratch, g_.in_size(), channels});
        auto job = job_;
        job.x = scratch, job.y = pooled, job.row = 0, job.row_end = g_.out[1];
        for (int64_t z = 0; z < g_.out[0]; ++z) run_plane(job, z);
        reorder_->to_plain({y + first * g_.out_size(), g_.out_size(), pooled, g_.out_size(), channels});
    }

public:
    SimdTask(Geometry const& g, PoolInfo const& info, PoolIsa const& isa, ReorderIsa const* reorder, int threads)
        : g_(g),
          isa_(&isa),
          reorder_(reorder),
          job_(job_of<float>(g, info)),
          shares_{(g.in_channels + isa.block - 1) / isa.block} {
        auto planes = g.batch * shares_.blocks * g.out[0], wanted = (4 * threads + planes - 1) / planes;
        if (reorder || threads == 1) return;
        shares_.by_rows = g.out[0] == 1 && cut_at_positions(g.batch, g.out_size(), threads);
        wanted = shares_.by_rows ? 2 * threads : std::min(wanted, g.out[1] * g.out[2] * g.taps() / 16384);
        shares_.bands = std::clamp<int64_t>(wanted, 1, g.out[1]);
    }

    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_floats()) * sizeof(float); }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        auto tasks = g_.batch * shares_.blocks * (reorder_ ? 1 : g_.out[0] * shares_.bands);
        context.pool.parallel_for(tasks, [&](int64_t task, int worker) {
            if (reorder_) return run_plain(x, y, task, reinterpret_cast<float*>(context.scratch_of(worker)));
            auto [plane, band] = shares_.at(task);
            auto z = plane % g_.out[0], block = plane / g_.out[0];
            auto job = job_;
            job.x = x + block * g_.in_size() * isa_->block, job.y = y + block * g_.out_size() * isa_->block;
            job.row = g_.out[1] * band / shares_.bands, job.row_end = g_.out[1] * (band + 1) / shares_.bands;
            run_plane(job, z);
        });
    }
};

class SimdKernel final : public NamedKernel {
    PoolInfo info_;
    Isa isa_;
    bool plain_;

public:
    SimdKernel(std::string id, PoolInfo info, Isa isa, bool plain)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), plain_(plain) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = vector_geometry(info_, args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        // Plain tensors fill whole blocks of channels for the time of a plane.
        auto width = isa_ == Isa::Avx512 ? 16 : 8;
        auto lanes = static_cast<double>((g->in_channels + width - 1) / width * width);
        auto filled = plain_ ? lanes / static_cast<double>(g->in_channels) : 1.;
        auto outputs = filled * static_cast<double>(args.outputs[0]->stored_count());
        auto bytes = 4 * (outputs + filled * static_cast<double>(args.inputs[0]->stored_count()));
        auto copies = plain_ ? bytes / cost.l2 : 0.;
        return (2 * outputs * static_cast<double>(g->taps()) / (0.3 * cost.flops) +
                bytes / memory_bandwidth(args.threads, bytes) + copies) /
               cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = vector_geometry(info_, args);
        if (!g) return Err{g.error()};
        bool wide = isa_ == Isa::Avx512;
        auto* reorder = !plain_ ? nullptr : wide ? &reorder_avx512() : &reorder_avx2();
        return std::unique_ptr<runtime::Task>(std::make_unique<SimdTask>(*g, info_, wide ? pool_avx512() : pool_avx2(),
                                                                         reorder, std::max(1, args.threads)));
    }
};

KernelResult make(PoolInfo const& info, Request const& request, Isa isa) {
    if (auto reason = vector_mismatch(info, request, isa); !reason.empty()) return Err{Rejection{reason}};
    auto id = "pool:cpu:window:f32:" + std::string(name_of(isa));
    return std::unique_ptr<Kernel>(
        std::make_unique<SimdKernel>(std::move(id), info, isa, request.inputs[0].layout == Layout::Plain));
}

}  // namespace

KernelResult pool_window_avx512(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512);
}
KernelResult pool_window_avx2(PoolInfo const& info, Request const& request) { return make(info, request, Isa::Avx2); }

}  // namespace refactor::kernel
