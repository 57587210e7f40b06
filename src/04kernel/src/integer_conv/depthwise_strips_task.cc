#include "common/thread_pool.h"
#include "integer_conv/integer_conv_packed.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr size_t whole_lines(int64_t bytes) { return static_cast<size_t>(ceil_div(bytes, 64) * 64); }

/// Positions of a part, about; strips are whole.
constexpr int64_t kPositions = 96;

/// A depthwise convolution that reads X where it lies, strip by strip, and stores bytes or f32.
class DepthwiseStripsTask final : public runtime::Task {
    IntegerConvPlan p_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int8_t const* weights_;
    int64_t strips_, parts_, columns_, column_parts_;  ///< strips of a part; channels of one
    // Workspace, in bytes from its beginning.
    size_t terms_ = 0, border_ = 0, scratch_bytes_ = 0, end_ = 0;

    DepthwiseWindows const& windows() const { return *p_.strips; }
    ColumnTerms terms(std::byte* workspace) const {
        return {reinterpret_cast<int32_t*>(workspace + terms_), p_.size.columns};
    }

    void run_part(void* const* arguments, std::byte* workspace, int64_t part, std::byte* scratch) const {
        auto const& s = p_.s;
        auto column = part % column_parts_ * columns_;
        auto first = part / column_parts_ % parts_ * strips_;
        auto z = part / column_parts_ / parts_ % windows().images(),
             n = part / column_parts_ / parts_ / windows().images();
        auto t = terms(workspace);
        DepthwiseStrips job{};
        job.channels = std::min(columns_, s.in_channels - column);
        windows().point(z, first, std::min(strips_, windows().strips() - first),
                        static_cast<uint8_t const*>(arguments[I::kA]) + n * s.in_channels * s.in_size() + column,
                        reinterpret_cast<uint8_t const*>(workspace + border_) + column,
                        static_cast<uint8_t*>(arguments[I::kInputs]) +
                            (n * s.out_channels * s.out_size() + column) * bits_of(s.y) / 8,
                        reinterpret_cast<DepthwiseRow*>(scratch), job);
        job.flip = s.x_signed ? 0x80 : 0;
        job.w = weights_ + column * job.taps * job.quads * job.outputs * 4;
        job.column_add = t.add + column, job.scale = t.scale + column;
        if (auto const* shift = static_cast<float const*>(arguments[I::kShift])) job.shift = shift + column;
        job.tail = tail_of(p_.result, s.y, arguments[I::kYZero], s.residual);
        p_.f.depthwise_strips(job);
    }

public:
    DepthwiseStripsTask(IntegerConvPlan const& plan, std::shared_ptr<mem_manager::Blob const> packed,
                        int8_t const* weights, int threads)
        : p_(plan), packed_(std::move(packed)), weights_(weights) {
        auto const& s = p_.s;
        auto all = windows().strips(), workers = static_cast<int64_t>(std::max(1, threads));
        parts_ = std::min(all, ceil_div(ceil_div(s.out_size() / s.out[0], kPositions), workers) * workers);
        strips_ = ceil_div(all, parts_), parts_ = ceil_div(all, strips_);
        // Fewer parts than threads: fewer channels in each.
        auto panels = p_.size.columns / p_.f.panel, images = s.batch * windows().images();
        auto shares = workers > 1 ? std::min(panels, ceil_div(2 * workers, images * parts_)) : 1;
        columns_ = ceil_div(panels, shares) * p_.f.panel;
        column_parts_ = ceil_div(s.in_channels, columns_);
        border_ = whole_lines(ColumnTerms::bytes(p_.size.columns));
        scratch_bytes_ = whole_lines(strips_ * windows().quads() * 4 * static_cast<int64_t>(sizeof(DepthwiseRow)));
        end_ = border_ + whole_lines(s.in_channels);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const& s = p_.s;
        auto* workspace = context.workspace;
        p_.fill_terms(arguments, static_cast<int32_t const*>(packed_->data()), 0, terms(workspace));
        std::memset(workspace + border_, p_.x_zero(arguments[I::kAZero]) ^ (s.x_signed ? 0x80 : 0),
                    static_cast<size_t>(s.in_channels));
        context.pool.parallel_for(s.batch * windows().images() * parts_ * column_parts_, [&](int64_t part, int worker) {
            run_part(arguments, workspace, part, context.scratch_of(worker));
        });
    }
    size_t workspace_bytes() const override { return end_; }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    uint64_t unread_inputs() const override { return uint64_t{1} << I::kB; }
    double operations() const override { return p_.s.operations(); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_depthwise_strips_task(IntegerConvPlan const& plan,
                                                          std::shared_ptr<mem_manager::Blob const> packed,
                                                          int8_t const* weights, int threads) {
    return std::make_unique<DepthwiseStripsTask>(plan, std::move(packed), weights, threads);
}

}  // namespace refactor::kernel
