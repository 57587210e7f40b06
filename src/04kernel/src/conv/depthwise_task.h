#pragma once
#include "common/thread_pool.h"
#include "conv/conv.h"
#include "conv/depthwise.h"
#include "conv/depthwise_pack.h"
#include "conv/geometry.h"
#include "conv/shares.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {

/// Rows of outputs whose inputs, all planes of a window, are about this large are made for plane after plane: they stay
/// in L2, with room for outputs and another thread of the core.
constexpr int64_t kDeepBandBytes = 128 << 10;

/// `T`: of an element of X, Y and the residual, bf16 as its bits.
template <class T>
class DepthwiseTask final : public runtime::Task {
    Geometry g_;
    Epilogue epilogue_;
    ConvOperands operands_;
    DepthwiseIsaOf<T> const* isa_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    PlaneShares shares_{};
    int64_t width_, multiplier_;

    int64_t weight_floats() const { return packed_ ? 0 : shares_.blocks * isa_->block * width_ * g_.taps(); }
    int64_t plane_elements() const { return g_.in_size() * isa_->block; }

    /// The input plane of every channel of block b of the outputs, where each input channel serves several.
    void expand(T const* x, int64_t image, int64_t b, T* plane) const {
        int64_t const block = isa_->block, blocks = (g_.in_channels + block - 1) / block;
        auto channel = [&](int64_t lane) { return std::min((b * block + lane) / multiplier_, g_.in_channels - 1); };
        auto first = channel(0) / block, last = channel(block - 1) / block;
        SpreadJobOf<T> job{x + (image * blocks + first) * plane_elements(),
                           (last - first) * plane_elements(),
                           g_.in_size(),
                           {},
                           plane};
        for (int64_t lane = 0; lane < block; ++lane)
            job.from[lane] = static_cast<int32_t>(channel(lane) - first * block);
        isa_->spread(job);
    }

    /// `whole`: where the planes of input, weights and outputs begin.
    void run_planes(DepthwiseJobOf<T> const& whole) const {
        auto in_plane = g_.in[1] * g_.in[2] * isa_->block, out_plane = g_.out[1] * g_.out[2] * isa_->block;
        for (int64_t plane = 0; plane < g_.out[0]; ++plane) {
            auto start = plane * g_.stride[0] - g_.pad[0], dilation = g_.dilation[0];
            auto first = start < 0 ? (-start + dilation - 1) / dilation : 0;
            auto end = start >= g_.in[0] ? 0 : std::min(g_.kernel[0], (g_.in[0] - 1 - start) / dilation + 1);
            auto job = whole;
            job.planes = std::max<int64_t>(0, end - first);
            job.x_plane = dilation * in_plane, job.w_plane = g_.kernel[1] * g_.kernel[2] * width_ * isa_->block;
            if (job.planes) job.x += (start + first * dilation) * in_plane, job.w += first * job.w_plane;
            job.y += plane * out_plane;
            if (job.residual) job.residual += plane * out_plane;
            isa_->rows(job);
        }
    }

public:
    DepthwiseTask(Geometry const& g, Epilogue const& epilogue, DepthwiseIsaOf<T> const& isa,
                  std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : g_(g),
          epilogue_(epilogue),
          operands_(epilogue),
          isa_(&isa),
          packed_(std::move(packed)),
          width_(g.in_channels / g.group),
          multiplier_(g.out_channels / g.in_channels) {
        auto blocks = shares_.blocks = (g.out_channels + isa.block - 1) / isa.block;
        auto& bands = shares_.bands;
        // At least about 20 µs of work a task, and enough tasks for the threads.
        auto work = g.out_size() * g.taps() * width_ / 16384,
             wanted = (4 * threads + g.batch * blocks - 1) / (g.batch * blocks);
        bands = threads == 1 ? 1 : std::min<int64_t>(work, wanted);
        if (g.out[0] > 1)
            bands = std::max(bands, g.kernel[0] * g.in[1] * g.in[2] * isa.block * int64_t{sizeof(T)} / kDeepBandBytes);
        shares_.by_rows = multiplier_ == 1 && g.out[0] == 1 && cut_at_positions(g.batch, g.out_size(), threads);
        if (shares_.by_rows) bands = 2 * threads;
        bands = multiplier_ > 1 ? 1 : std::clamp<int64_t>(bands, 1, g.out[1]);
    }

    size_t workspace_bytes() const override { return static_cast<size_t>(weight_floats()) * sizeof(float); }
    size_t scratch_bytes() const override {
        return multiplier_ > 1 ? static_cast<size_t>(plane_elements()) * sizeof(T) : 0;
    }
    uint64_t unread_inputs() const override { return packed_ ? 2 : 0; }
    double operations() const override {
        return 2. * static_cast<double>(g_.batch * g_.out_channels * g_.out_size() * g_.taps() * width_);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto input = [&](int i) { return i < 0 ? nullptr : arguments[i]; };
        auto* x = static_cast<T const*>(input(0));
        auto* bias = static_cast<float const*>(input(operands_.bias));
        auto* residual = static_cast<T const*>(input(operands_.residual));
        auto* y = static_cast<T*>(arguments[operands_.output]);
        auto* weights =
            packed_ ? static_cast<float const*>(packed_->data()) : reinterpret_cast<float*>(context.workspace);
        if (!packed_)
            for (int64_t b = 0; b < shares_.blocks; ++b)
                pack_depthwise_block(static_cast<float const*>(input(1)), g_, isa_->block, b,
                                     reinterpret_cast<float*>(context.workspace));
        int64_t const block = isa_->block;
        context.pool.parallel_for(g_.batch * shares_.blocks * shares_.bands, [&](int64_t task, int worker) {
            auto [plane, band] = shares_.at(task);
            auto b = plane % shares_.blocks;
            auto* source = x + plane * plane_elements();
            if (multiplier_ > 1) {
                auto* copy = reinterpret_cast<T*>(context.scratch_of(worker));
                expand(x, plane / shares_.blocks, b, copy);
                source = copy;
            }
            DepthwiseJobOf<T> job{source,
                                  weights + b * g_.taps() * width_ * block,
                                  bias ? bias + b * block : nullptr,
                                  residual ? residual + plane * g_.out_size() * block : nullptr,
                                  y + plane * g_.out_size() * block,
                                  g_.in[1],
                                  g_.in[2],
                                  g_.out[2],
                                  g_.out[1] * band / shares_.bands,
                                  g_.out[1] * (band + 1) / shares_.bands,
                                  g_.kernel[1],
                                  g_.kernel[2],
                                  g_.stride[1],
                                  g_.stride[2],
                                  g_.dilation[1],
                                  g_.dilation[2],
                                  g_.pad[1],
                                  g_.pad[2],
                                  static_cast<int32_t>(width_),
                                  static_cast<int32_t>(std::min(block, g_.out_channels - b * block)),
                                  epilogue_.residual_last,
                                  epilogue_.activation};
            run_planes(job);
        });
    }
};

}  // namespace refactor::kernel
