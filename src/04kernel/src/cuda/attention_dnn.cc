#include "attention/attention.h"
#include "cuda/dnn.h"
#include "cuda/kernels.h"
#include "cuda/rates.h"

namespace refactor::kernel::cuda {

namespace {

class DnnAttentionTask final : public runtime::Task {
    Dnn dnn_;
    DnnPlan plan_;
    double operations_;

public:
    DnnAttentionTask(Dnn const& dnn, DnnPlan plan, double operations)
        : dnn_(dnn), plan_(std::move(plan)), operations_(operations) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        void const* operands[]{arguments[0], arguments[1], arguments[2]};
        dnn_.run(plan_, context.stream, operands, arguments[3], context.workspace);
    }
    size_t workspace_bytes() const override { return plan_.workspace_bytes; }
    double operations() const override { return operations_; }
};

class DnnAttentionKernel final : public Kernel {
    AttentionInfo info_;
    DataType dtype_;
    Dnn dnn_;

    Result<AttentionShape, Rejection> shape_of(BindArgs const& args) const {
        AttentionShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        if (shape.operations() == 0) return Err{Rejection{"nothing to compute"}};
        // The last query of a causal attention sees every key.
        if (info_.causal && shape.queries != 1) return Err{Rejection{"causal with several queries"}};
        return shape;
    }

public:
    DnnAttentionKernel(AttentionInfo const& info, DataType dtype, Dnn const& dnn)
        : info_(info), dtype_(dtype), dnn_(dnn) {}

    std::string id() const override { return id_of("attention", "cudnn", dtype_); }

    /// Half of what its tensor cores could do.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        return kLaunchTime + shape->operations() / 2 / (kProcessors * kTiledRate * 8);
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        RefactorAttention a{};
        a.dtype = static_cast<int32_t>(dtype_), a.scale = static_cast<double>(info_.scale);
        a.batch = shape->batch, a.heads = shape->heads, a.kv_heads = shape->kv_heads;
        a.queries = shape->queries, a.keys = shape->keys, a.depth = shape->depth, a.value_depth = shape->value_depth;
        auto plan = dnn_.attention(a, 0);
        if (!plan) return Err{plan.error()};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<DnnAttentionTask>(dnn_, std::move(plan).value(), shape->operations()));
    }
};

}  // namespace

MaybeKernel attention_cudnn(AttentionInfo const& info, Request const& request) {
    auto dnn = Dnn::of(request);
    if (!dnn) return Err{dnn.error()};
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F16 && dtype != DataType::BF16)
        return Err{Rejection{"dtype " + std::string(refactor::name_of(dtype)) + ", expected f16 or bf16"}};
    if (info.has_mask || info.has_sinks || info.k_transposed)
        return Err{Rejection{"masks, sinks and a transposed K are left to generated code"}};
    for (auto const& input : request.inputs)
        if (input.dtype != dtype || input.layout != Layout::Plain)
            return Err{Rejection{"operands must be row-major and of one dtype"}};
    return std::unique_ptr<Kernel>(std::make_unique<DnnAttentionKernel>(info, dtype, *dnn));
}

}  // namespace refactor::kernel::cuda
