#include "common/thread_pool.h"
#include "conv/cost.h"
#include "pool/pool.h"
#include "pool/pool_job.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

constexpr int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

/// Windows over Plain planes in passes along rows.
class LinesTask final : public runtime::Task {
    static constexpr int64_t kWidest = 2048;      // elements of a line: those of four output rows stay in L1
    static constexpr int64_t kLeastTogether = 8;  // rows of the output: fewer would look at rows of the input twice
    static constexpr int64_t kRoom = 64;          // behind a line, for whole vectors
    Geometry g_;
    PoolLines<float> lines_;
    PoolJob job_;
    PoolLinesPlan plan_{};
    std::vector<float> counted_;
    int64_t planes_;  ///< in all samples
    int64_t scratch_size_, bands_ = 1;

public:
    LinesTask(Geometry const& g, PoolInfo const& info, PoolLines<float> lines, int64_t lanes, int threads)
        : g_(g), lines_(lines), job_(job_of<float>(g, info)), planes_(g.batch * g.in_channels) {
        plan_.columns = std::clamp(kWidest / g.stride[2], std::min(lanes, g.out[2]), g.out[2]);
        auto width = (plan_.columns - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
        plan_.line_size = round_up(width, lanes) + kRoom;
        // What windows of the rows see stays in L1 (16 KiB of 32).
        auto reach = (g.kernel[1] - 1) * g.dilation[1] + 1, fit = (4 << 10) / std::min(width, g.in[2]);
        plan_.together = std::clamp((fit - reach) / g.stride[1] + 1, std::min(kLeastTogether, g.out[1]), g.out[1]);
        auto seen = std::min(g.in[1], (plan_.together - 1) * g.stride[1] + reach);
        plan_.lines = std::clamp<int64_t>((2 << 10) / plan_.line_size / 4 * 4, 4, 16);
        scratch_size_ =
            2 * (plan_.lines + 1) * plan_.line_size + (g.kernel[0] > 1 ? seen * std::min(width, g.in[2]) : 0);
        if (info.kind == PoolKind::Average) counted_ = counted_columns<float>(g, info);
        bands_ = bands_of(g, planes_ * g.out[0], threads);
    }

    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_size_) * sizeof(float); }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        context.pool.parallel_for(planes_ * g_.out[0] * bands_, [&](int64_t task, int worker) {
            auto band = task % bands_, z = task / bands_ % g_.out[0], plane = task / bands_ / g_.out[0];
            auto job = job_;
            job.x = x + plane * g_.in_size(), job.y = y + plane * g_.out_size();
            job.row = g_.out[1] * band / bands_, job.row_end = g_.out[1] * (band + 1) / bands_;
            job.counted_columns = counted_.data();
            move_to_plane(job, g_, z, 1);
            lines_(job, plan_, reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
};

class LinesKernel final : public NamedKernel {
    PoolInfo info_;
    Isa isa_;

    int64_t lanes() const { return isa_ == Isa::Avx512 ? 16 : 8; }
    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = vector_geometry(info_, args);
        if (!g) return g;
        if (g->kernel[0] * g->in[0] * g->kernel[1] * g->in[1] == 1 && g->stride[2] <= 2)
            return Err{Rejection{"takes windows of several rows, or every third column of one"}};
        return g;
    }
    PoolIsa const& functions() const { return isa_ == Isa::Avx512 ? pool_avx512() : pool_avx2(); }

    /// Nanoseconds of one core, with everything in caches.
    double compute(Geometry const& g, CostModel const& cost) const {
        constexpr double kPlaneNs = 50, kScalesNs = 80, kRowNs = 4, kPickedNs = 0.3;
        auto across = [&](int64_t columns) { return static_cast<double>(round_up(columns, lanes())); };
        auto rows = static_cast<double>(g.out[1]), down = static_cast<double>(g.kernel[1]);
        auto taps =
            static_cast<double>(g.kernel[2] > 5 && info_.kind == PoolKind::Max ? g.kernel[2] / 2 + 3 : g.kernel[2]);
        // Rows share most of what they read, and all of what planes are joined to.
        auto shares = g.stride[1] == g.dilation[1] && g.kernel[1] > 1;
        if (shares) down = g.kernel[1] > 3 ? (down + 3) / 4 : (down + 1) / 2;
        auto joined = g.kernel[0] > 1 ? static_cast<double>(g.in[1] * (g.kernel[0] + 1)) : 0;
        auto picks = g.stride[2] > 3;
        auto steps = across(g.in[2]) * (joined + rows * (down + 1)) +
                     across(g.out[2] * (picks ? g.stride[2] : 1)) * rows *
                         (taps * static_cast<double>(picks ? 1 : g.stride[2]) + 1);
        auto picked = picks ? kPickedNs * rows * static_cast<double>(g.out[2]) : 0;
        auto planes = static_cast<double>(g.batch * g.out_channels * g.out[0]);
        // Loads of 64 bytes at any alignment take as long as two of 32 where vectors are worked on in halves.
        auto rate = isa_ < Isa::Avx512 ? 0.8 : cpu_features().halves_512 ? 0.56 : 0.6;
        return planes * (kPlaneNs + (info_.kind == PoolKind::Average ? kScalesNs : 0) +
                         (shares ? 1 : 2) * kRowNs * rows + picked + 2 * steps / (rate * cost.flops));
    }

public:
    LinesKernel(std::string id, PoolInfo info, Isa isa)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto bytes = 4. * static_cast<double>(args.outputs[0]->stored_count() + args.inputs[0]->stored_count());
        return (compute(*g, cost) + bytes / memory_bandwidth(args.threads, bytes)) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LinesTask>(*g, info_, functions().lines, lanes(), std::max(1, args.threads)));
    }
};

KernelResult make(PoolInfo const& info, Request const& request, Isa isa) {
    if (auto reason = vector_mismatch(info, request, isa); !reason.empty()) return Err{Rejection{reason}};
    if (request.inputs[0].layout != Layout::Plain) return Err{Rejection{"takes Plain tensors"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<LinesKernel>(id_of("pool", "lines", DataType::F32, isa), info, isa));
}

}  // namespace

KernelResult pool_lines_avx512(PoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512);
}
KernelResult pool_lines_avx2(PoolInfo const& info, Request const& request) { return make(info, request, Isa::Avx2); }

}  // namespace refactor::kernel
