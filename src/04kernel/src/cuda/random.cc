#include "random/random.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"

#include <atomic>
#include <bit>

namespace refactor::kernel::cuda {

namespace {

/// Runs begun, shared by all plans of a kernel.
using Runs = std::shared_ptr<std::atomic<uint64_t>>;

/// One launch whose first number is that of the run.
class RandomTask final : public runtime::Task {
    Library library_;
    Launch launch_;
    size_t workspace_;
    Runs runs_;

public:
    RandomTask(Library const& library, Launch launch, size_t workspace, Runs runs)
        : library_(library), launch_(std::move(launch)), workspace_(workspace), runs_(std::move(runs)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        uint64_t number = runs_->fetch_add(1, std::memory_order_relaxed);
        if (launch_.blocks > 0) start(library_, launch_, arguments, context, &number);
    }
    size_t workspace_bytes() const override { return workspace_; }
    bool can_replay() const override { return false; }
};

/// `Bound` makes the launch of an info.
template <class Info, auto Bound>
class RandomKernel final : public Kernel {
    Info info_;
    std::string id_;
    Instances instances_;
    std::unique_ptr<Kernel> reference_;
    Runs runs_ = std::make_shared<std::atomic<uint64_t>>(0);

public:
    RandomKernel(Info info, std::string id, Library const& library, std::unique_ptr<Kernel> reference)
        : info_(std::move(info)),
          id_(std::move(id)),
          instances_(library, kRandomSource),
          reference_(std::move(reference)) {}
    std::string id() const override { return id_; }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto checked = reference_->bind(args); !checked) return Err{checked.error()};
        size_t workspace = 0;
        auto launch = Bound(info_, args, instances_, workspace);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<RandomTask>(instances_.library(), std::move(launch), workspace, runs_));
    }
};

Launch random_launch(RandomInfo const& info, BindArgs const& args, Instances const& instances, size_t&) {
    auto const& y = *args.outputs[0];
    bool normal = info.distribution == Distribution::Normal;
    return instances.launch("rg_random", template_text("rg_random", element_text(y.dtype), normal),
                            ceil_div(y.count(), 2 * kBlockThreads), {operand(0)},
                            {0, static_cast<uint64_t>(y.count()), info.seed, std::bit_cast<uint64_t>(info.a),
                             std::bit_cast<uint64_t>(info.b)});
}

Launch multinomial_launch(MultinomialInfo const& info, BindArgs const& args, Instances const& instances,
                          size_t& workspace) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    workspace = static_cast<size_t>(x.count()) * sizeof(double);
    return instances.launch("rg_multinomial",
                            template_text("rg_multinomial", element_text(x.dtype), element_text(y.dtype)),
                            y.count() ? x.dims[0] : 0, {operand(0), scratch(), operand(1), {Address::kFault}},
                            {0, static_cast<uint64_t>(x.dims[1]), static_cast<uint64_t>(y.dims[1]), info.seed});
}

template <class Info, auto Bound, class Reference>
MaybeKernel make_random(Info const& info, Request const& request, char const* op, DataType dtype, Reference reference) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = host_request(request);
    if (!on_host) return Err{on_host.error()};
    auto checks = reference(info, *on_host);
    if (!checks) return Err{checks.error()};
    return std::unique_ptr<Kernel>(std::make_unique<RandomKernel<Info, Bound>>(info, id_of(op, "nvrtc", dtype),
                                                                               *library, std::move(checks).value()));
}

}  // namespace

MaybeKernel random_nvrtc(RandomInfo const& info, Request const& request) {
    return make_random<RandomInfo, random_launch>(info, request, "random", request.outputs[0].dtype,
                                                  make_random_reference);
}

MaybeKernel multinomial_nvrtc(MultinomialInfo const& info, Request const& request) {
    return make_random<MultinomialInfo, multinomial_launch>(info, request, "multinomial", request.inputs[0].dtype,
                                                            make_multinomial_reference);
}

}  // namespace refactor::kernel::cuda
