#include "common/thread_pool.h"
#include "conv/geometry.h"
#include "conv/named_kernel.h"
#include "group_norm/group_norm.h"
#include "reduce/rows_choice.h"

#include <cmath>
#include <numeric>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.3;

/// Scratch memory for each channel of each image, in blocks.
struct Statistics {
    double* sums;
    float *mean, *factor;
};

class GroupNormBlocked final : public runtime::Task {
    RowFunctions const& functions_;
    GroupShape shape_;
    float epsilon_;
    int64_t images_, channels_, blocks_, width_;
    int64_t unit_;  ///< fewest blocks that hold whole groups

    int64_t lanes() const { return images_ * blocks_ * width_; }
    Statistics statistics(std::byte* memory) const {
        auto* sums = reinterpret_cast<double*>(memory);
        auto* mean = reinterpret_cast<float*>(sums + lanes());
        return {sums, mean, mean + lanes()};
    }
    /// `block` counts those of all images.
    void add(float const* x, int64_t block, float const* mean, double* sums) const {
        std::fill_n(sums + block * width_, width_, 0);
        functions_.lane_sums(x + block * shape_.positions * width_, shape_.positions,
                             mean ? mean + block * width_ : nullptr, sums + block * width_);
    }
    /// Calls `f(channel, lane, average of the group's sums)` for the channels of `unit`, and `f(channels, lane, 0)` for
    /// lanes behind the last.
    template <class F>
    void average(int64_t unit, double const* sums, F&& f) const {
        auto units = (blocks_ + unit_ - 1) / unit_;
        auto start = unit / units * blocks_ * width_, first = unit % units * unit_ * width_;
        auto last = std::min(first + unit_ * width_, blocks_ * width_), end = std::min(last, channels_);
        for (auto c = first; c < end; c += shape_.channels) {
            double sum = std::accumulate(sums + start + c, sums + start + c + shape_.channels, 0.);
            for (auto i = c; i < c + shape_.channels; ++i)
                f(i, start + i, sum / static_cast<double>(shape_.channels * shape_.positions));
        }
        for (auto c = end; c < last; ++c) f(channels_, start + c, 0.);
    }
    void apply(float const* x, float const* bias, int64_t block, Statistics const& s, float* y) const {
        float shift[16]{};
        auto first = block % blocks_ * width_;
        std::copy_n(bias + first, std::min(width_, channels_ - first), shift);
        auto at = block * shape_.positions * width_;
        functions_.lane_affine(x + at, shape_.positions, s.mean + block * width_, s.factor + block * width_, shift,
                               y + at);
    }

public:
    GroupNormBlocked(RowFunctions const& functions, GroupNormInfo const& info, BindArgs const& args)
        : functions_(functions),
          shape_(info, args.inputs[0]->dims),
          epsilon_(info.epsilon),
          images_(args.inputs[0]->dims[0]),
          channels_(args.inputs[0]->dims[1]),
          blocks_(Addressing(*args.inputs[0]).blocks()),
          width_(functions.width),
          unit_(std::lcm(std::max<int64_t>(shape_.channels, 1), width_) / width_) {
        unit_ = std::min(unit_, std::max<int64_t>(blocks_, 1));
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<float const*>(arguments[0]);
        auto const* scale = static_cast<float const*>(arguments[1]);
        auto const* bias = static_cast<float const*>(arguments[2]);
        auto* y = static_cast<float*>(arguments[3]);
        if (lanes() == 0) return;
        auto const s = statistics(context.workspace);
        auto set_mean = [&](int64_t, int64_t lane, double mean) { s.mean[lane] = static_cast<float>(mean); };
        auto set_factor = [&](int64_t channel, int64_t lane, double variance) {
            auto factor = 1 / std::sqrt(static_cast<float>(variance) + epsilon_);
            s.factor[lane] = channel < channels_ ? factor * scale[channel] : 0;
        };
        auto const units = (blocks_ + unit_ - 1) / unit_, all = images_ * units;
        auto stages = [&](auto&& each_block, int64_t first, int64_t last) {
            each_block([&](int64_t block) { add(x, block, nullptr, s.sums); });
            for (auto u = first; u < last; ++u) average(u, s.sums, set_mean);
            each_block([&](int64_t block) { add(x, block, s.mean, s.sums); });
            for (auto u = first; u < last; ++u) average(u, s.sums, set_factor);
            each_block([&](int64_t block) { apply(x, bias, block, s, y); });
        };
        auto blocks_in_parallel = [&](auto&& f) {
            context.pool.parallel_for(images_ * blocks_, [&](int64_t block, int) { f(block); });
        };
        // A unit stays in the caches of one thread; too few of them are shared block by block.
        if (all < context.pool.threads()) return stages(blocks_in_parallel, 0, all);
        context.pool.parallel_for(all, [&](int64_t unit, int) {
            auto first = unit / units * blocks_ + unit % units * unit_;
            auto last = std::min(first + unit_, (unit / units + 1) * blocks_);
            stages(
                [&](auto&& f) {
                    for (auto block = first; block < last; ++block) f(block);
                },
                unit, unit + 1);
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(lanes()) * (sizeof(double) + 2 * sizeof(float));
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override {
        return 8. * static_cast<double>(shape_.sets * shape_.channels * shape_.positions);
    }
};

class BlockedKernel final : public NamedKernel {
    RowFunctions const& functions_;
    GroupNormInfo info_;

public:
    BlockedKernel(RowChoice const& choice, GroupNormInfo info)
        : NamedKernel(id_of("group_norm", "blocked", DataType::F32, choice.isa)),
          functions_(*choice.functions),
          info_(info) {}
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return 20 + static_cast<double>(args.inputs[0]->stored_count()) * kNsPerElement / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = why_not_group_norm(info_, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new GroupNormBlocked(functions_, info_, args));
    }
};

}  // namespace

MaybeKernel make_group_norm_blocked(GroupNormInfo const& info, Request const& request) {
    auto plain = request;
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end()),
        outputs(request.outputs.begin(), request.outputs.end());
    auto const layout = inputs[0].layout;
    if (layout == Layout::Plain || outputs[0].layout != layout)
        return reject("is for X and Y in the same blocks of channels");
    inputs[0].layout = outputs[0].layout = Layout::Plain;
    plain.inputs = inputs, plain.outputs = outputs;
    auto choice = choose_rows(plain);
    if (!choice.functions) return reject(choice.why_not);
    if (block_of(layout) != choice.functions->width)
        return reject("is for blocks of " + std::to_string(choice.functions->width) + " channels");
    return std::unique_ptr<Kernel>(std::make_unique<BlockedKernel>(choice, info));
}

}  // namespace refactor::kernel
