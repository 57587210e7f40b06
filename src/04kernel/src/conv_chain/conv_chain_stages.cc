#include "conv_chain/conv_chain.h"

namespace refactor::kernel {

namespace {

/// The operands of one stage: those of the chain, and what lies between the stages.
template <class T>
struct StageOperands {
    SmallVector<T const*, 4> inputs;
    T const* output;

    StageOperands(ConvChainInfo const& info, size_t stage, std::span<T const* const> chain, std::span<T const> between,
                  T const* last) {
        ChainOperands operands(info);
        auto position = [&](int i) { return chain[static_cast<size_t>(i)]; };
        bool is_last = stage + 1 == info.stages.size();
        inputs.push_back(stage == 0 ? chain[0] : &between[stage - 1]);
        inputs.push_back(position(operands.stages[stage].weights));
        if (operands.stages[stage].bias >= 0) inputs.push_back(position(operands.stages[stage].bias));
        if (is_last && operands.residual >= 0) inputs.push_back(position(operands.residual));
        output = is_last ? last : &between[stage];
    }
};

/// The tensors between the stages, in the dtype and layout of `like`.
template <class T>
std::vector<T> tensors_between(ConvChainInfo const& info, TensorDesc const& like, std::span<T const* const> inputs) {
    ChainOperands operands(info);
    std::vector<T> between;
    for (size_t i = 0; i + 1 < info.stages.size(); ++i) {
        auto const& x = i == 0 ? inputs[0]->dims : between.back().dims;
        auto const& w = inputs[static_cast<size_t>(operands.stages[i].weights)]->dims;
        T tensor;
        static_cast<TensorDesc&>(tensor) = {like.dtype, like.layout, conv_output_dims(info.stages[i].window, x, w)};
        between.push_back(std::move(tensor));
    }
    return between;
}

/// One stage after the other, through whole tensors in scratch memory.
class StagesTask final : public runtime::Task {
    struct Stage {
        std::unique_ptr<runtime::Task> task;
        SmallVector<int, 5> arguments;  ///< of the chain; -1 - i: tensor i between the stages
    };
    std::vector<Stage> stages_;
    SmallVector<size_t, 3> offsets_;  ///< of the tensors between
    size_t between_ = 0, workspace_ = 0, scratch_ = 0;

public:
    StagesTask(ConvChainInfo const& info, std::span<TensorDesc const> between,
               std::vector<std::unique_ptr<runtime::Task>> tasks) {
        ChainOperands operands(info);
        for (auto const& tensor : between) {
            offsets_.push_back(between_);
            between_ += (storage_bytes(tensor.dtype, tensor.stored_count()) + 63) / 64 * 64;
        }
        for (size_t i = 0; i < tasks.size(); ++i) {
            auto& stage = stages_.emplace_back();
            bool last = i + 1 == tasks.size();
            stage.arguments.push_back(i == 0 ? 0 : -static_cast<int>(i));
            stage.arguments.push_back(operands.stages[i].weights);
            if (operands.stages[i].bias >= 0) stage.arguments.push_back(operands.stages[i].bias);
            if (last && operands.residual >= 0) stage.arguments.push_back(operands.residual);
            stage.arguments.push_back(last ? operands.output : -1 - static_cast<int>(i));
            workspace_ = std::max(workspace_, tasks[i]->workspace_bytes());
            scratch_ = std::max(scratch_, tasks[i]->scratch_bytes());
            stage.task = std::move(tasks[i]);
        }
    }

    size_t workspace_bytes() const override { return between_ + workspace_; }
    size_t scratch_bytes() const override { return scratch_; }
    uint64_t unread_inputs() const override {
        uint64_t unread = 0;
        for (auto const& stage : stages_)
            for (size_t i = 1; i + 1 < stage.arguments.size(); ++i)
                if (stage.task->unread_inputs() >> i & 1) unread |= uint64_t{1} << stage.arguments[i];
        return unread;
    }
    double operations() const override {
        double sum = 0;
        for (auto const& stage : stages_) sum += stage.task->operations();
        return sum;
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto inner = context;
        inner.workspace = context.workspace + between_;
        for (auto const& stage : stages_) {
            void* pointers[5];
            for (size_t i = 0; i < stage.arguments.size(); ++i) {
                auto argument = stage.arguments[i];
                pointers[i] = argument >= 0 ? arguments[argument]
                                            : context.workspace + offsets_[static_cast<size_t>(-1 - argument)];
            }
            stage.task->run(pointers, inner);
        }
    }
};

class StagesKernel final : public NamedKernel {
    ConvChainInfo info_;
    std::vector<std::vector<std::unique_ptr<Kernel>>> kernels_;

    struct Choice {
        Kernel const* kernel = nullptr;
        double time = 0;
        std::string reasons;
    };
    Choice choose(size_t stage, BindArgs const& args) const {
        Choice best;
        for (auto const& kernel : kernels_[stage]) {
            auto time = kernels_[stage].size() == 1 ? Result<double, Rejection>(0.) : kernel->estimate(args);
            if (!time)
                best.reasons += kernel->id() + ": " + time.error().reason + "; ";
            else if (!best.kernel || *time < best.time)
                best.kernel = kernel.get(), best.time = *time;
        }
        return best;
    }
    /// Calls `use(choice, arguments of the stage)` for every stage until one has no kernel.
    template <class F>
    Result<double, Rejection> for_stages(std::span<TensorDesc const> between, BindArgs const& args, F&& use) const {
        double time = 0;
        for (size_t i = 0; i < info_.stages.size(); ++i) {
            StageOperands<TensorDesc> stage(info_, i, args.inputs, between, args.outputs[0]);
            BindArgs inner{stage.inputs, {&stage.output, 1}, {}, args.packs, args.threads};
            auto choice = choose(i, inner);
            if (!choice.kernel) return Err{Rejection{"stage " + std::to_string(i) + ": " + choice.reasons}};
            if (auto reason = use(*choice.kernel, inner); !reason.empty())
                return Err{Rejection{"stage " + std::to_string(i) + ": " + reason}};
            time += choice.time;
        }
        return time;
    }

public:
    StagesKernel(std::string id, ConvChainInfo info, std::vector<std::vector<std::unique_ptr<Kernel>>> kernels)
        : NamedKernel(std::move(id)), info_(std::move(info)), kernels_(std::move(kernels)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto between = tensors_between<TensorDesc>(info_, *args.outputs[0], args.inputs);
        return for_stages(between, args, [](Kernel const&, BindArgs const&) { return std::string(); });
    }
    TaskResult bind(BindArgs const& args) const override {
        auto between = tensors_between<TensorDesc>(info_, *args.outputs[0], args.inputs);
        std::vector<std::unique_ptr<runtime::Task>> tasks;
        auto bound = for_stages(between, args, [&](Kernel const& kernel, BindArgs const& inner) {
            auto task = kernel.bind(inner);
            if (!task) return task.error().reason;
            tasks.push_back(std::move(task).value());
            return std::string();
        });
        if (!bound) return Err{bound.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<StagesTask>(info_, between, std::move(tasks)));
    }
};

}  // namespace

KernelResult conv_chain_stages(ConvChainInfo const& info, Request const& request) {
    if (auto reason = conv_chain_mismatch(info, request); !reason.empty()) return Err{Rejection{reason}};
    SmallVector<Operand const*, 12> inputs;
    for (auto const& input : request.inputs) inputs.push_back(&input);
    auto between = tensors_between<Operand>(info, request.outputs[0], inputs);
    std::vector<std::vector<std::unique_ptr<Kernel>>> kernels;
    for (size_t i = 0; i < info.stages.size(); ++i) {
        StageOperands<Operand> stage(info, i, inputs, between, &request.outputs[0]);
        std::vector<Operand> operands;
        for (auto const* operand : stage.inputs) operands.push_back(*operand);
        auto inner = request;
        inner.inputs = operands, inner.outputs = {stage.output, 1};
        auto found = candidates(info.stages[i], inner);
        if (found.kernels.empty()) {
            std::string reasons = "stage " + std::to_string(i) + ": ";
            for (auto const& rejection : found.rejections) reasons += rejection.reason + "; ";
            return Err{Rejection{reasons}};
        }
        kernels.push_back(std::move(found.kernels));
    }
    auto dtype = std::string(name_of(request.inputs[0].dtype));
    return std::unique_ptr<Kernel>(
        std::make_unique<StagesKernel>("conv_chain:cpu:stages:" + dtype, info, std::move(kernels)));
}

}  // namespace refactor::kernel
