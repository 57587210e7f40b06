#include "common/thread_pool.h"
#include "conv/geometry.h"
#include "reduce/reduce.h"
#include "reduce/rows_choice.h"

#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.12;
/// Positions whose blocks are combined before their lanes are: 4 KB, which stay in L1.
constexpr int64_t kPositions = 64;

struct Combination {
    RowOp blocks, lanes;
    bool ignores_zeros;  ///< what lies behind the last channel changes nothing
};

Result<Combination, Rejection> combination_of(ReduceKind kind) {
    using enum RowOp;
    switch (kind) {
        case ReduceKind::Sum:
        case ReduceKind::Mean:
        case ReduceKind::LogSum:
            return Combination{Sum, Sum, true};
        case ReduceKind::L1:
            return Combination{Abs, Sum, true};
        case ReduceKind::L2:
        case ReduceKind::SumSquare:
            return Combination{Square, Sum, true};
        case ReduceKind::Max:
            return Combination{Max, Max, false};
        case ReduceKind::Min:
            return Combination{Min, Min, false};
        case ReduceKind::Prod:
            return Combination{Prod, Prod, false};
        case ReduceKind::LogSumExp:
            break;
    }
    return Err{Rejection{"needs the maximum first for LogSumExp"}};
}

/// Over the channels of blocks; a row of the result for each image.
class ReduceChannels final : public runtime::Task {
    RowFunctions const& functions_;
    ReduceKind kind_;
    Combination combination_;
    int64_t images_, channels_, blocks_, positions_;
    int64_t parts_, chunks_;  // of `kPositions` of an image; shared by threads

    void finish(float* y, int64_t count) const {
        auto each = [&](auto f) {
            for (int64_t i = 0; i < count; ++i) y[i] = f(y[i]);
        };
        if (kind_ == ReduceKind::Mean) each([n = static_cast<float>(channels_)](float total) { return total / n; });
        if (kind_ == ReduceKind::L2) each([](float total) { return std::sqrt(total); });
        if (kind_ == ReduceKind::LogSum) each([](float total) { return std::log(total); });
    }
    /// `x`: the first of `count` positions in the first block.
    void reduce(float const* x, int64_t count, float* y) const {
        alignas(64) float combined[kPositions * 16];
        int64_t const width = functions_.width, elements = count * width, together = 4 * width;
        RowRun const run{blocks_, positions_ * width};
        for (int64_t i = 0; i < elements; i += together)
            functions_.columns(combination_.blocks, x + i, std::min(together, elements - i), &run, 1, nullptr,
                               combined + i);
        functions_.short_rows(combination_.lanes, combined, count, width, nullptr, y);
        finish(y, count);
    }

public:
    ReduceChannels(RowFunctions const& functions, ReduceKind kind, Combination combination, BindArgs const& args)
        : functions_(functions),
          kind_(kind),
          combination_(combination),
          images_(args.inputs[0]->dims[0]),
          channels_(args.inputs[0]->dims[1]),
          blocks_(Addressing(*args.inputs[0]).blocks()),
          positions_(args.outputs[0]->count() / std::max<int64_t>(images_, 1)),
          parts_((positions_ + kPositions - 1) / kPositions),
          chunks_(
              chunks_of(images_ * parts_, static_cast<double>(kPositions * channels_) * kNsPerElement, args.threads)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        auto const all = images_ * parts_;
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            for (auto i = all * c / chunks_; i < all * (c + 1) / chunks_; ++i) {
                auto image = i / parts_, first = i % parts_ * kPositions;
                reduce(x + (image * blocks_ * positions_ + first) * functions_.width,
                       std::min(kPositions, positions_ - first), y + image * positions_ + first);
            }
        });
    }
    double operations() const override { return static_cast<double>(images_ * channels_ * positions_); }
};

class ChannelsKernel final : public Kernel {
    RowFunctions const& functions_;
    std::string id_;
    ReduceKind kind_;
    Combination combination_;

public:
    ChannelsKernel(RowChoice const& choice, ReduceKind kind, Combination combination)
        : functions_(*choice.functions),
          id_(id_of("reduce", "channels", DataType::F32, choice.isa)),
          kind_(kind),
          combination_(combination) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return 20 + static_cast<double>(args.inputs[0]->stored_count()) * kNsPerElement / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto channels = args.inputs[0]->dims[1];
        if (channels == 0 || (channels % functions_.width && !combination_.ignores_zeros))
            return reject("needs whole blocks of " + std::to_string(functions_.width) + " channels for " +
                          std::string(name_of(kind_)) + ", X has " + std::to_string(channels));
        return std::unique_ptr<runtime::Task>(new ReduceChannels(functions_, kind_, combination_, args));
    }
};

}  // namespace

MaybeKernel make_reduce_channels(ReduceInfo const& info, Request const& request) {
    if (request.inputs[0].layout == Layout::Plain) return reject("is for X in blocks of channels");
    if (info.axes != Dims{1}) return reject("is for the axis of channels, expected axes=1, got " + info.attributes());
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end());
    auto const layout = inputs[0].layout;
    inputs[0].layout = Layout::Plain;
    auto plain = request;
    plain.inputs = inputs;
    auto choice = choose_rows(plain);
    if (!choice.functions) return reject(choice.why_not);
    if (block_of(layout) != choice.functions->width)
        return reject("is for blocks of " + std::to_string(choice.functions->width) + " channels, X has blocks of " +
                      std::to_string(block_of(layout)));
    auto combination = combination_of(info.kind);
    if (!combination) return Err{combination.error()};
    return std::unique_ptr<Kernel>(new ChannelsKernel(choice, info.kind, *combination));
}

}  // namespace refactor::kernel
