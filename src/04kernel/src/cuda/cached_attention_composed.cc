#include "attention/cached_attention.h"
#include "cuda/kernels.h"
#include "cuda/library.h"
#include "cuda/rates.h"
#include "cuda/workspace.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Joins K, then V, then attends.
class ComposedTask final : public runtime::Task {
    std::unique_ptr<runtime::Task> joins_[2], attention_;
    size_t copies_[2];  ///< bytes of the joined tensors in the type of Q; 0: the present caches are of that type
    size_t inputs_;

public:
    ComposedTask(std::unique_ptr<runtime::Task> join_k, std::unique_ptr<runtime::Task> join_v,
                 std::unique_ptr<runtime::Task> attention, size_t copy_k, size_t copy_v, size_t inputs)
        : joins_{std::move(join_k), std::move(join_v)},
          attention_(std::move(attention)),
          copies_{copy_k, copy_v},
          inputs_(inputs) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rest = context;
        SmallVector<void*, 8> attended{arguments[0]};
        for (size_t i = 0; i < 2; ++i) {
            auto place = 1 + 2 * i;
            auto* present = arguments[inputs_ + JoinedCaches::kPresentK + i];
            void* read = copies_[i] ? rest.workspace : present;
            rest.workspace += copies_[i];
            void* operands[]{arguments[place], arguments[place + 1], read, present};
            joins_[i]->run(operands, rest);
            attended.push_back(read);
        }
        for (size_t i = JoinedCaches::kMask; i < inputs_; ++i) attended.push_back(arguments[i]);
        attended.push_back(arguments[inputs_]);
        attention_->run(attended.data(), rest);
    }
    size_t workspace_bytes() const override {
        return copies_[0] + copies_[1] +
               std::max({joins_[0]->workspace_bytes(), joins_[1]->workspace_bytes(), attention_->workspace_bytes()});
    }
    bool can_replay() const override {
        return joins_[0]->can_replay() && joins_[1]->can_replay() && attention_->can_replay();
    }
    double operations() const override { return attention_->operations(); }
};

class ComposedKernel final : public Kernel {
    DataType dtype_;
    bool copies_[2];  ///< whether the present caches are of another type than Q
    std::unique_ptr<Kernel> joins_[2];
    std::vector<std::unique_ptr<Kernel>> attentions_;

    struct Choice {
        double time;
        Kernel const* kernel;
    };
    /// Those that take the sizes, the fastest by their estimates first.
    Result<std::vector<Choice>, Rejection> choices(BindArgs const& args) const {
        std::vector<Choice> choices;
        std::string reasons;
        for (auto const& kernel : attentions_)
            if (auto time = kernel->estimate(args))
                choices.push_back({*time, kernel.get()});
            else
                reasons += (reasons.empty() ? "" : "; ") + time.error().reason;
        if (choices.empty()) return Err{Rejection{reasons}};
        std::stable_sort(choices.begin(), choices.end(), [](auto const& a, auto const& b) { return a.time < b.time; });
        return choices;
    }

    MaybeTask bind_join(BindArgs const& args, JoinedCaches const& joined, size_t i) const {
        auto pieces = args.inputs.subspan(1 + 2 * i, 2);
        TensorDesc const* outputs[]{i ? &joined.v() : &joined.k(), args.outputs[1 + i]};
        std::span<TensorDesc const* const> whole(outputs);
        return joins_[i]->bind({pieces, copies_[i] ? whole : whole.last(1), {}, args.packs, args.threads});
    }

public:
    ComposedKernel(DataType dtype, bool copy_k, bool copy_v, std::unique_ptr<Kernel> join_k,
                   std::unique_ptr<Kernel> join_v, std::vector<std::unique_ptr<Kernel>> attentions)
        : dtype_(dtype),
          copies_{copy_k, copy_v},
          joins_{std::move(join_k), std::move(join_v)},
          attentions_(std::move(attentions)) {}

    std::string id() const override { return id_of("cached_attention", "composed", dtype_); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        JoinedCaches joined(args);
        if (auto why = joined.problem(); !why.empty()) return Err{Rejection{why}};
        auto kernels = choices(joined.attention());
        if (!kernels) return Err{kernels.error()};
        auto copies = (copies_[0] ? joined.k().count() : 0) + (copies_[1] ? joined.v().count() : 0);
        auto bytes = joined.bytes() + copies * static_cast<int64_t>(bits_of(dtype_)) / 8;
        return 2 * kLaunchTime + static_cast<double>(bytes) / (0.75 * kMemoryRate) + kernels->front().time;
    }

    MaybeTask bind(BindArgs const& args) const override {
        JoinedCaches joined(args);
        if (auto why = joined.problem(); !why.empty()) return Err{Rejection{why}};
        auto attention = joined.attention();
        auto kernels = choices(attention);
        if (!kernels) return Err{kernels.error()};
        auto join_k = bind_join(args, joined, 0), join_v = bind_join(args, joined, 1);
        if (!join_k || !join_v) return Err{(join_k ? join_v : join_k).error()};
        auto copied = [&](size_t i, TensorDesc const& desc) {
            return copies_[i] ? workspace_part(storage_bytes(dtype_, desc.count())) : 0;
        };
        for (auto const& choice : *kernels) {
            auto task = choice.kernel->bind(attention);
            if (!task && &choice != &kernels->back()) continue;
            if (!task) return task;
            return std::unique_ptr<runtime::Task>(std::make_unique<ComposedTask>(
                std::move(join_k).value(), std::move(join_v).value(), std::move(task).value(), copied(0, joined.k()),
                copied(1, joined.v()), args.inputs.size()));
        }
        return Err{Rejection{"no kernel of attention"}};
    }
};

}  // namespace

MaybeKernel cached_attention_composed(CachedAttentionInfo const& info, Request const& request) {
    auto const &in = request.inputs, &out = request.outputs;
    auto dtype = in[0].dtype;
    bool copies[2];
    std::unique_ptr<Kernel> joins[2];
    std::vector<Operand> attended{in[0]};
    for (size_t i = 0; i < 2; ++i) {
        auto const& present = out[JoinedCaches::kPresentK + i];
        copies[i] = present.dtype != dtype;
        Operand whole[]{present, present};
        whole[0].dtype = dtype;
        auto inner = request;
        inner.inputs = in.subspan(1 + 2 * i, 2), inner.outputs = std::span(whole).subspan(copies[i] ? 0 : 1);
        auto found = kernel::candidates(ConcatInfo{2}, inner);
        if (found.kernels.empty()) return Err{found.rejections.back()};
        joins[i] = std::move(found.kernels.front());
        attended.push_back(whole[0]);
    }
    for (size_t i = JoinedCaches::kMask; i < in.size(); ++i) attended.push_back(in[i]);
    auto inner = request;
    inner.inputs = attended, inner.outputs = out.first(1);
    auto found = kernel::candidates(info.attention, inner);
    if (found.kernels.empty()) return Err{found.rejections.back()};
    return std::unique_ptr<Kernel>(std::make_unique<ComposedKernel>(dtype, copies[0], copies[1], std::move(joins[0]),
                                                                    std::move(joins[1]), std::move(found.kernels)));
}

}  // namespace refactor::kernel::cuda
