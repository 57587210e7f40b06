#include "cuda/launch_kernel.h"

namespace refactor::kernel::cuda {

namespace {

/// A copy of input 0 in output 0, changed by launches.
class ChangedCopy final : public runtime::Task {
    Library library_;
    size_t inputs_, bytes_;
    bool repeatable_;
    LaunchTask launches_;

public:
    ChangedCopy(Library const& library, Launches launches, BindArgs const& args)
        : library_(library),
          inputs_(args.inputs.size()),
          bytes_(storage_bytes(args.inputs[0]->dtype, args.inputs[0]->count())),
          repeatable_(launches.repeatable),
          launches_(library, std::move(launches.list), launches.workspace, launches.in_place, launches.operations) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (arguments[0] != arguments[inputs_]) library_.copy(context.stream, arguments[inputs_], arguments[0], bytes_);
        launches_.run(arguments, context);
    }
    size_t workspace_bytes() const override { return launches_.workspace_bytes(); }
    uint64_t in_place_inputs() const override { return launches_.in_place_inputs(); }
    bool is_repeatable_in_place() const override { return repeatable_; }
    double operations() const override { return launches_.operations(); }
};

}  // namespace

Result<std::unique_ptr<runtime::Task>, Rejection> make_launch_task(Library const& library, Launches launches,
                                                                   BindArgs const& args) {
    std::erase_if(launches.list, [](Launch const& launch) { return launch.blocks == 0; });
    for (auto const& launch : launches.list)
        if (auto words = launch.addresses.size() + launch.numbers.size(); words > kMostWords)
            return Err{
                Rejection{"an argument of " + std::to_string(words) + " words, at most " + std::to_string(kMostWords)}};
    if (launches.copies)
        return std::unique_ptr<runtime::Task>(std::make_unique<ChangedCopy>(library, std::move(launches), args));
    return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
        library, std::move(launches.list), launches.workspace, launches.in_place, launches.operations));
}

}  // namespace refactor::kernel::cuda
