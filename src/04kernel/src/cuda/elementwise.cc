#include "cuda/expression_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"

namespace refactor::kernel::cuda {

namespace {

class ExpressionKernel final : public Kernel {
    ElementwiseInfo info_;
    std::string id_;
    std::vector<DataType> inputs_;
    std::vector<bool> used_;
    int64_t widest_ = 1;
    FunctionCache functions_;

    void* function_of(ExpressionLoops const& loops) const {
        std::string name = "rg_elementwise";
        return functions_.get(name, loops.key(),
                              [&] { return kPrelude + expression_source(info_, loops, inputs_, name); });
    }

    /// Every thread reads its elements of such an input before it writes the same bytes.
    uint64_t in_place(ExpressionLoops const& loops) const {
        uint64_t inputs = 0;
        auto bits = bits_of(info_.code[info_.outputs[0]].dtype);
        for (size_t i = 0; i < inputs_.size() && i < 64; ++i)
            if (loops.walks[i] == Walk::Linear && bits_of(inputs_[i]) == bits) inputs |= uint64_t{1} << i;
        return inputs;
    }

public:
    ExpressionKernel(ElementwiseInfo info, Request const& request, Library const& library)
        : info_(std::move(info)), used_(request.inputs.size()), functions_(library) {
        for (auto const& operand : request.inputs) inputs_.push_back(operand.dtype);
        for (auto const& code : info_.code) {
            if (code.op != ExprOp::Input) continue;
            used_[code.operands[0]] = true;
            widest_ = std::max<int64_t>(widest_, bits_of(code.dtype) / 8);
        }
        for (auto output : info_.outputs) widest_ = std::max<int64_t>(widest_, bits_of(info_.code[output].dtype) / 8);
        id_ = id_of("elementwise", "nvrtc", info_.code[info_.outputs[0]].dtype);
    }

    std::string id() const override { return id_; }

    MaybeTask bind(BindArgs const& args) const override {
        auto loops = ExpressionLoops::make(args, used_, widest_);
        if (!loops) return Err{loops.error()};
        auto addresses = all_operands(args.inputs.size() + args.outputs.size());
        if (can_fault(info_)) addresses.push_back({Address::kFault});
        Launch launch{function_of(*loops), blocks_for(loops->count, int64_t{kBlockThreads} * loops->vector),
                      kBlockThreads, std::move(addresses), expression_words(*loops)};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LaunchTask>(functions_.library(), std::vector{std::move(launch)}, 0, in_place(*loops)));
    }
};

}  // namespace

MaybeKernel elementwise_nvrtc(ElementwiseInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto no = why_no_source(info, request)) return Err{*no};
    return std::unique_ptr<Kernel>(std::make_unique<ExpressionKernel>(info, request, *library));
}

}  // namespace refactor::kernel::cuda
