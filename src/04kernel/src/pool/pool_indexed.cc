#include "pool/pool_indexed.h"

#include "common/thread_pool.h"
#include "pool/pool.h"
#include "reorder/transpose_blocks.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Elements of windows that are compared for eight channels in a ns, and bytes that are turned.
constexpr double kComparisons = 8, kTurned = 8;
constexpr int64_t kBlock = 8;

/// The largest of windows and where they are, eight channels of a Plain tensor at a time, which go through blocked
/// copies in scratch memory of the thread.
class IndexedTask final : public runtime::Task {
    Geometry g_;
    IndexedPool job_{};

    /// The blocked input; blocked results and positions; plain positions.
    int64_t scratch_floats() const { return (g_.in_size() + 3 * g_.out_size()) * kBlock; }

    void run_block(float const* x, float* y, int64_t* indices, int64_t first, int32_t channels, float* scratch) const {
        auto const& reorder = reorder_avx2();
        auto job = job_;
        job.x = scratch, job.y = scratch + g_.in_size() * kBlock;
        auto *found = job.y + g_.out_size() * kBlock, *plain = found + g_.out_size() * kBlock;
        job.found = reinterpret_cast<int32_t*>(found);
        reorder.to_blocked(
            {const_cast<float*>(x) + first * g_.in_size(), g_.in_size(), scratch, g_.in_size(), channels});
        indexed_pool_avx2(job);
        reorder.to_plain({y + first * g_.out_size(), g_.out_size(), job.y, g_.out_size(), channels});
        reorder.to_plain({plain, g_.out_size(), found, g_.out_size(), channels});
        for (int64_t c = 0; c < channels; ++c)
            widen_positions_avx2(reinterpret_cast<int32_t const*>(plain) + c * g_.out_size(),
                                 (first + c) * g_.in_size(), g_.out_size(), indices + (first + c) * g_.out_size());
    }

public:
    IndexedTask(Geometry const& g, bool column_major) : g_(g) {
        for (int axis = 0; axis < 3; ++axis) {
            job_.in[axis] = g.in[axis], job_.out[axis] = g.out[axis], job_.kernel[axis] = g.kernel[axis];
            job_.stride[axis] = g.stride[axis], job_.dilation[axis] = g.dilation[axis], job_.pad[axis] = g.pad[axis];
        }
        auto step = [&](int axis, int64_t rows, int64_t columns) {
            job_.position_step[axis] = column_major ? columns : rows;
        };
        step(0, g.in[1] * g.in[2], 1), step(1, g.in[2], g.in[0]), step(2, 1, g.in[0] * g.in[1]);
    }

    size_t scratch_bytes() const override { return static_cast<size_t>(scratch_floats()) * sizeof(float); }
    double operations() const override {
        return static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps());
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        auto* indices = static_cast<int64_t*>(arguments[2]);
        auto blocks = (g_.in_channels + kBlock - 1) / kBlock;
        context.pool.parallel_for(g_.batch * blocks, [&](int64_t task, int worker) {
            auto n = task / blocks, channel = task % blocks * kBlock;
            auto channels = static_cast<int32_t>(std::min(kBlock, g_.in_channels - channel));
            run_block(x, y, indices, n * g_.in_channels + channel, channels,
                      reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
};

class IndexedKernel final : public NamedKernel {
    PoolInfo info_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = pool_geometry(info_.window, info_.kernel, args);
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        if (g->in_size() > INT32_MAX)
            return Err{
                Rejection{"planes of " + std::to_string(g->in_size()) + " elements, expected at most 2147483647"}};
        return g;
    }

public:
    explicit IndexedKernel(PoolInfo info) : NamedKernel("pool:cpu:indexed:f32:avx2"), info_(std::move(info)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto planes = static_cast<double>(g->batch * ((g->in_channels + kBlock - 1) / kBlock) * kBlock);
        auto outputs = planes * static_cast<double>(g->out_size());
        auto bytes = planes * static_cast<double>(4 * g->in_size()) + 16 * outputs;
        return (outputs * static_cast<double>(g->taps()) / kComparisons + bytes / kTurned) / args.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<IndexedTask>(*g, info_.column_major));
    }
};

}  // namespace

KernelResult pool_indexed_avx2(PoolInfo const& info, Request const& request) {
    if (auto reason = pool_mismatch(info, request); !reason.empty()) return Err{Rejection{reason}};
    if (request.isa < Isa::Avx2) return Err{Rejection{"needs avx2"}};
    if (request.outputs.size() < 2 || request.outputs[1].absent()) return Err{Rejection{"is for maxima with indices"}};
    if (request.inputs[0].dtype != DataType::F32)
        return Err{Rejection{"handles f32, got " + std::string(name_of(request.inputs[0].dtype))}};
    for (auto const* operand : {&request.inputs[0], &request.outputs[0], &request.outputs[1]})
        if (operand->layout != Layout::Plain) return Err{Rejection{"expects X, Y and the indices to be Plain"}};
    return std::unique_ptr<Kernel>(std::make_unique<IndexedKernel>(info));
}

}  // namespace refactor::kernel
