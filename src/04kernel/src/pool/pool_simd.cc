#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/shares.h"
#include "pool/pool.h"
#include "pool/pool_job.h"
#include "reduce/cpu_kernel.h"
#include "reorder/transpose_blocks.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

double window_operations(Geometry const& g) {
    return static_cast<double>(g.batch * g.out_channels * g.out_size() * g.taps());
}

/// Pools blocks of channels.
template <class T>
class BlockTask final : public runtime::Task {
    Geometry g_;
    int64_t block_;
    void (*rows_)(PoolJobOf<T> const&);
    PoolJobOf<T> job_;
    PlaneShares shares_;

public:
    BlockTask(Geometry const& g, PoolInfo const& info, int64_t block, void (*rows)(PoolJobOf<T> const&), int threads)
        : g_(g), block_(block), rows_(rows), job_(job_of<T>(g, info)), shares_{(g.in_channels + block - 1) / block} {
        auto planes = g.batch * shares_.blocks * g.out[0], wanted = (4 * threads + planes - 1) / planes;
        if (threads == 1) return;
        shares_.by_rows = g.out[0] == 1 && cut_at_positions(g.batch, g.out_size(), threads);
        wanted = shares_.by_rows ? 2 * threads : std::min(wanted, g.out[1] * g.out[2] * g.taps() / 16384);
        shares_.bands = std::clamp<int64_t>(wanted, 1, g.out[1]);
    }

    double operations() const override { return window_operations(g_); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        context.pool.parallel_for(g_.batch * shares_.blocks * g_.out[0] * shares_.bands, [&](int64_t task, int) {
            auto [plane, band] = shares_.at(task);
            auto z = plane % g_.out[0], block = plane / g_.out[0];
            auto job = job_;
            job.x = x + block * g_.in_size() * block_, job.y = y + block * g_.out_size() * block_;
            job.row = g_.out[1] * band / shares_.bands, job.row_end = g_.out[1] * (band + 1) / shares_.bands;
            move_to_plane(job, g_, z, block_);
            rows_(job);
        });
    }
};

/// Pools planes of Plain tensors through blocked copies in scratch memory of the thread.
class PlainTask final : public runtime::Task {
    Geometry g_;
    PoolIsa const* isa_;
    ReorderIsa const* reorder_;
    PoolJob job_;
    int64_t blocks_;

public:
    PlainTask(Geometry const& g, PoolInfo const& info, PoolIsa const& isa, ReorderIsa const& reorder)
        : g_(g),
          isa_(&isa),
          reorder_(&reorder),
          job_(job_of<float>(g, info)),
          blocks_((g.in_channels + isa.block - 1) / isa.block) {}

    size_t scratch_bytes() const override {
        return static_cast<size_t>((g_.in_size() + g_.out_size()) * isa_->block) * sizeof(float);
    }
    double operations() const override { return window_operations(g_); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        context.pool.parallel_for(g_.batch * blocks_, [&](int64_t plane, int worker) {
            auto b = plane % blocks_, first = plane / blocks_ * g_.in_channels + b * isa_->block;
            auto channels = static_cast<int32_t>(std::min<int64_t>(isa_->block, g_.in_channels - b * isa_->block));
            auto* copy = reinterpret_cast<float*>(context.scratch_of(worker));
            auto* pooled = copy + g_.in_size() * isa_->block;
            reorder_->to_blocked({x + first * g_.in_size(), g_.in_size(), copy, g_.in_size(), channels});
            for (int64_t z = 0; z < g_.out[0]; ++z) {
                auto job = job_;
                job.x = copy, job.y = pooled, job.row = 0, job.row_end = g_.out[1];
                move_to_plane(job, g_, z, isa_->block);
                isa_->rows(job);
            }
            reorder_->to_plain({y + first * g_.out_size(), g_.out_size(), pooled, g_.out_size(), channels});
        });
    }
};

class SimdKernel final : public NamedKernel {
    PoolInfo info_;
    Isa isa_;
    bool plain_, bf16_;

    /// What is read for an output: windows of bf16 at every column share the largest of each column.
    double taps(Geometry const& g) const {
        auto columns = g.kernel[2];
        bool slides = bf16_ && info_.kind == PoolKind::Max && g.stride[2] == 1 && g.dilation[2] == 1 &&
                      (columns == 3 || columns == 5);
        return static_cast<double>(slides ? g.kernel[0] * g.kernel[1] + columns : g.taps());
    }

public:
    SimdKernel(std::string id, PoolInfo info, Isa isa, bool plain)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), plain_(plain), bf16_(isa == Isa::Avx512Bf16) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = vector_geometry(info_, args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        // Plain tensors fill whole blocks of channels for the time of a plane.
        auto width = isa_ == Isa::Avx512 ? 16 : 8;
        auto lanes = static_cast<double>((g->in_channels + width - 1) / width * width);
        auto filled = plain_ ? lanes / static_cast<double>(g->in_channels) : 1.;
        auto outputs = filled * static_cast<double>(args.outputs[0]->stored_count());
        auto bytes = (bf16_ ? 2 : 4) * (outputs + filled * static_cast<double>(args.inputs[0]->stored_count()));
        auto copied = static_cast<double>((g->in_size() + g->out_size()) * width) * 4;
        auto copies = plain_ ? bytes / cost.bandwidth(copied) : 0.;
        auto rate = bf16_ ? 0.2 : plain_ ? 0.42 : 0.3;
        return (2 * outputs * taps(*g) / (rate * cost.flops) + bytes / memory_bandwidth(args.threads, bytes) + copies) /
               cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = vector_geometry(info_, args);
        if (!g) return Err{g.error()};
        auto threads = std::max(1, args.threads);
        if (bf16_) return block_task<uint16_t>(*g, pool_avx512bf16(), threads);
        bool wide = isa_ == Isa::Avx512;
        auto const& isa = wide ? pool_avx512() : pool_avx2();
        if (!plain_) return block_task<float>(*g, isa, threads);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<PlainTask>(*g, info_, isa, wide ? reorder_avx512() : reorder_avx2()));
    }

private:
    template <class T, class Functions>
    TaskResult block_task(Geometry const& g, Functions const& isa, int threads) const {
        return std::unique_ptr<runtime::Task>(std::make_unique<BlockTask<T>>(g, info_, isa.block, isa.rows, threads));
    }
};

KernelResult make(PoolInfo const& info, Request const& request, Isa isa, DataType dtype = DataType::F32) {
    if (auto reason = vector_mismatch(info, request, isa, dtype); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(std::make_unique<SimdKernel>(id_of("pool", "window", dtype, isa), info, isa,
                                                                request.inputs[0].layout == Layout::Plain));
}

}  // namespace

KernelResult pool_window_bf16(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512Bf16, DataType::BF16);
}
KernelResult pool_window_avx512(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512);
}
KernelResult pool_window_avx2(PoolInfo const& info, Request const& request) { return make(info, request, Isa::Avx2); }

}  // namespace refactor::kernel
