#include "conv/cost.h"
#include "reorder/reorder.h"
#include "reorder/reorder_task.h"

namespace refactor::kernel {

namespace {

template <class T>
class SimdTask final : public runtime::Task {
    TensorReorderOf<T> reorder_;

public:
    explicit SimdTask(TensorReorderOf<T> const& reorder) : reorder_(reorder) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        reorder_.run(arguments[0], arguments[1], context.pool);
    }
};

template <class T>
class SimdKernel final : public NamedKernel {
    ReorderIsaOf<T> const* isa_;
    bool to_blocked_;

public:
    SimdKernel(std::string id, ReorderIsaOf<T> const& isa, bool to_blocked)
        : NamedKernel(std::move(id)), isa_(&isa), to_blocked_(to_blocked) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto const &plain = *(to_blocked_ ? args.inputs : args.outputs)[0],
                   &blocked = *(to_blocked_ ? args.outputs : args.inputs)[0];
        auto bytes = sizeof(float) * static_cast<double>(plain.count()) +
                     sizeof(T) * static_cast<double>(blocked.stored_count());
        CostModel cost(isa_->block >= 16 ? Isa::Avx512 : Isa::Avx2, args.threads);
        return bytes / (cost.bandwidth(bytes) * cost.threads);
    }
    TaskResult bind(BindArgs const& args) const override {
        return std::unique_ptr<runtime::Task>(
            std::make_unique<SimdTask<T>>(TensorReorderOf<T>(*isa_, to_blocked_, *args.inputs[0])));
    }
};

KernelResult make(ReorderInfo const& info, Request const& request, Isa isa, ReorderIsa const& functions) {
    if (auto reason = reorder_mismatch(info, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (bits_of(x.dtype) != 32)
        return Err{Rejection{"handles elements of 4 bytes, got " + std::string(name_of(x.dtype))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    bool to_blocked = x.layout == Layout::Plain && y.layout == blocked;
    if (!to_blocked && !(x.layout == blocked && y.layout == Layout::Plain))
        return Err{Rejection{"is for Plain and blocks of " + std::to_string(functions.block) + " channels"}};
    auto id = "reorder:cpu:transpose:" + std::string(name_of(x.dtype)) + ":" + std::string(name_of(isa));
    return std::unique_ptr<Kernel>(std::make_unique<SimdKernel<float>>(std::move(id), functions, to_blocked));
}

}  // namespace

KernelResult reorder_transpose_bf16(ReorderInfo const& info, Request const& request) {
    if (info.channels_last) return Err{Rejection{"is for channels in front"}};
    if (auto reason = rounding_mismatch(request); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(std::make_unique<SimdKernel<uint16_t>>(
        "reorder:cpu:transpose:bf16:avx512bf16", reorder_avx512bf16(), request.inputs[0].layout == Layout::Plain));
}
KernelResult reorder_transpose_avx512(ReorderInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, reorder_avx512());
}
KernelResult reorder_transpose_avx2(ReorderInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, reorder_avx2());
}

}  // namespace refactor::kernel
