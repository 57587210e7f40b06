#include "common/thread_pool.h"
#include "conv/cost.h"
#include "pool/pool.h"
#include "pool/pool_job.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>
#include <vector>

namespace refactor::kernel {

namespace {

template <class T>
constexpr int64_t lanes_of(Isa isa) {
    return (isa == Isa::Avx512 ? 64 : 32) / static_cast<int64_t>(sizeof(T));
}

/// Windows over Plain planes, first along the rows of the input, then down what that gave: rows + columns steps for an
/// output instead of rows × columns.
template <class T>
class StripsTask final : public runtime::Task {
    static constexpr int64_t kLeastTogether = 8;  // rows of the output: fewer would reduce many rows of the input twice
    Geometry g_;
    PoolStrips<T> strips_;
    PoolJobOf<T> job_;
    std::vector<T> counted_;
    int64_t planes_;  ///< in all samples
    int64_t together_, scratch_size_, bands_ = 1;

public:
    StripsTask(Geometry const& g, PoolInfo const& info, PoolStrips<T> strips, int64_t lanes, int threads)
        : g_(g), strips_(strips), job_(job_of<T>(g, info)), planes_(g.batch * g.in_channels) {
        // What is read and what is reduced along rows stays in L1 (24 KiB of 32).
        auto row_bytes = int64_t{sizeof(T)} * g.kernel[0] * (g.in[2] + lanes);
        auto reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
        together_ = std::clamp<int64_t>(((24 << 10) / row_bytes - reach) / g.stride[1] + 1,
                                        std::min(kLeastTogether, g.out[1]), g.out[1]);
        scratch_size_ = lanes * g.kernel[0] * std::min(g.in[1], (together_ - 1) * g.stride[1] + reach);
        if (info.kind == PoolKind::Average) counted_ = counted_columns<T>(g, info);
        bands_ = bands_of(g, planes_ * g.out[0], threads);
    }

    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_size_) * sizeof(T); }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        context.pool.parallel_for(planes_ * g_.out[0] * bands_, [&](int64_t task, int worker) {
            auto band = task % bands_, z = task / bands_ % g_.out[0], plane = task / bands_ / g_.out[0];
            auto job = job_;
            job.x = x + plane * g_.in_size(), job.y = y + plane * g_.out_size();
            job.row = g_.out[1] * band / bands_, job.row_end = g_.out[1] * (band + 1) / bands_;
            job.counted_columns = counted_.data();
            move_to_plane(job, g_, z, 1);
            strips_(job, together_, reinterpret_cast<T*>(context.scratch_of(worker)));
        });
    }
};

template <class T>
class StripsKernel final : public NamedKernel {
    PoolInfo info_;
    Isa isa_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = vector_geometry(info_, args);
        if (!g) return g;
        if (g->stride[2] > 2)
            return Err{Rejection{"takes strides of the last axis of at most 2, got " + std::to_string(g->stride[2])}};
        return g;
    }
    PoolStrips<T> function() const {
        bool wide = isa_ == Isa::Avx512;
        if constexpr (sizeof(T) == 8)
            return wide ? pool_f64_avx512() : pool_f64_avx2();
        else
            return wide ? pool_avx512().strips : pool_avx2().strips;
    }

public:
    StripsKernel(std::string id, PoolInfo info, Isa isa)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto lanes = lanes_of<T>(isa_), across = (g->out[2] + lanes - 1) / lanes * lanes;
        auto planes = static_cast<double>(g->batch * g->out_channels * g->out[0]);
        auto rows = static_cast<double>(g->kernel[0] * std::min(g->in[1], g->out[1] * g->stride[1]));
        // Loops over other numbers of taps than a few, or over planes, are not unrolled.
        bool single = g->kernel[0] == 1 && g->in[1] == 1 && g->kernel[1] == 1;
        auto unrolled = [=](int64_t taps) { return single || taps < 4 || taps == 5 ? 1. : 2.; };
        auto along = static_cast<double>(g->kernel[2] * g->stride[2]) * unrolled(g->kernel[2]);
        auto down = static_cast<double>(g->out[1] * g->kernel[0] * g->kernel[1]) *
                    (g->kernel[0] > 1 ? 2. : unrolled(g->kernel[1]));
        auto steps = static_cast<double>(across) * (rows * along + down);
        auto bytes =
            double{sizeof(T)} * static_cast<double>(args.outputs[0]->stored_count() + args.inputs[0]->stored_count());
        // Single rows need nothing for each vector. What L2 holds a small part of comes slowly where vectors below each
        // other are read.
        bool far = !single && bytes > 5 * static_cast<double>(cpu_features().l2);
        constexpr double kPlaneNs = 10, kVectorNs = 10, kRowNs = 2;
        auto computing = kPlaneNs + (single ? 1 : kVectorNs) * static_cast<double>(across / lanes) + kRowNs * rows +
                         2 * steps * (sizeof(T) / 4) / (0.6 * cost.flops);
        return (planes * computing + (far ? 2 : 1) * bytes / memory_bandwidth(args.threads, bytes)) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<StripsTask<T>>(*g, info_, function(), lanes_of<T>(isa_), std::max(1, args.threads)));
    }
};

template <class T>
KernelResult make(PoolInfo const& info, Request const& request, Isa isa) {
    constexpr auto kType = sizeof(T) == 8 ? DataType::F64 : DataType::F32;
    if (auto reason = vector_mismatch(info, request, isa, kType); !reason.empty()) return Err{Rejection{reason}};
    if (request.inputs[0].layout != Layout::Plain) return Err{Rejection{"takes Plain tensors"}};
    return std::unique_ptr<Kernel>(std::make_unique<StripsKernel<T>>(id_of("pool", "strips", kType, isa), info, isa));
}

}  // namespace

KernelResult pool_strips_avx512(PoolInfo const& info, Request const& request) {
    return make<float>(info, request, Isa::Avx512);
}
KernelResult pool_strips_avx2(PoolInfo const& info, Request const& request) {
    return make<float>(info, request, Isa::Avx2);
}
KernelResult pool_strips_f64_avx512(PoolInfo const& info, Request const& request) {
    return make<double>(info, request, Isa::Avx512);
}
KernelResult pool_strips_f64_avx2(PoolInfo const& info, Request const& request) {
    return make<double>(info, request, Isa::Avx2);
}

}  // namespace refactor::kernel
