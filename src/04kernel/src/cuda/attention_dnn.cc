#include "attention/attention.h"
#include "cuda/dnn.h"
#include "cuda/hidden_rows.h"
#include "cuda/kernels.h"
#include "cuda/library.h"
#include "cuda/rates.h"

#include <array>
#include <limits>
#include <optional>

namespace refactor::kernel::cuda {

namespace {

class DnnAttentionTask final : public runtime::Task {
    Dnn dnn_;
    DnnPlan plan_;
    std::array<size_t, 4> first_;  ///< where Q, K, V and Y begin in their tensors, in bytes
    int operands_;
    std::unique_ptr<runtime::Task> mask_;  ///< makes a bias of the mask, if that is none
    size_t bias_bytes_;
    std::unique_ptr<runtime::Task> zeros_;  ///< for rows that see no key; null if they stay as they are
    double operations_;

public:
    DnnAttentionTask(Dnn const& dnn, DnnPlan plan, std::array<size_t, 4> first, int operands,
                     std::unique_ptr<runtime::Task> mask, size_t bias_bytes, std::unique_ptr<runtime::Task> zeros,
                     double operations)
        : dnn_(dnn),
          plan_(std::move(plan)),
          first_(first),
          operands_(operands),
          mask_(std::move(mask)),
          bias_bytes_(bias_bytes),
          zeros_(std::move(zeros)),
          operations_(operations) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        void* bias = operands_ > 3 ? arguments[3] : nullptr;
        if (mask_) {
            void* steps[]{bias, context.workspace};
            mask_->run(steps, context);
            bias = context.workspace;
        }
        auto at = [&](int argument, size_t place) { return static_cast<char*>(arguments[argument]) + first_[place]; };
        void const* operands[]{at(0, 0), at(1, 1), at(2, 2), bias};
        dnn_.run(plan_, context.stream, operands, at(operands_, 3), context.workspace + bias_bytes_);
        if (!zeros_) return;
        void* steps[]{bias, arguments[operands_]};
        zeros_->run(steps, context);
    }
    size_t workspace_bytes() const override { return bias_bytes_ + plan_.workspace_bytes; }
    double operations() const override { return operations_; }
};

/// What a mask of another type adds to scores: its values, or 0 and -infinity.
ElementwiseInfo bias_of(DataType mask, DataType dtype) {
    ElementwiseInfo info;
    info.code.push_back({ExprOp::Input, mask, {0}});
    if (mask == DataType::Bool) {
        ExprInstruction hidden{ExprOp::Constant, DataType::F32};
        hidden.value = -std::numeric_limits<double>::infinity();
        info.code.push_back({ExprOp::Constant, DataType::F32});
        info.code.push_back(hidden);
        info.code.push_back({ExprOp::Where, DataType::F32, {0, 1, 2}});
    }
    info.code.push_back({ExprOp::Cast, dtype, {static_cast<uint16_t>(info.code.size() - 1)}});
    info.outputs = {static_cast<uint16_t>(info.code.size() - 1)};
    return info;
}

class DnnAttentionKernel final : public Kernel {
    AttentionInfo info_;
    DataType dtype_;
    Dnn dnn_;
    std::unique_ptr<Kernel> mask_;  ///< null if there is none, or it is a bias already
    std::optional<HiddenRows> hidden_;

    Result<AttentionShape, Rejection> shape_of(BindArgs const& args) const {
        AttentionShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return Err{Rejection{why}};
        if (shape.operations() == 0) return Err{Rejection{"nothing to compute"}};
        if (info_.causal && shape.queries > shape.keys) return Err{Rejection{"queries that see no key"}};
        // Of fused engines, cuDNN's documentation and, of the second, NVIDIA/cudnn-frontend (sdpa_support_surface.h).
        if (info_.causal && info_.has_mask && shape.queries > 1 && shape.queries != shape.keys)
            return Err{Rejection{"a causal mask that ends in the last corner, with another mask"}};
        if (shape.depth % 8 || shape.value_depth % 8)
            return Err{Rejection{"depths " + std::to_string(shape.depth) + " and " + std::to_string(shape.value_depth) +
                                 ", expected multiples of 8"}};
        for (auto const* p : {&shape.q, &shape.k, &shape.v, &shape.y})
            if ((p->first | p->batch | p->head | p->row) % 8)
                return Err{Rejection{"rows that begin at no multiple of 16 bytes"}};
        return shape;
    }
    RefactorAttention describe(AttentionShape const& shape) const {
        RefactorAttention a{};
        a.dtype = static_cast<int32_t>(dtype_), a.scale = static_cast<double>(info_.scale);
        // The last query of a causal attention sees every key.
        a.causal = info_.causal && shape.queries > 1;
        a.batch = shape.batch, a.heads = shape.heads, a.kv_heads = shape.kv_heads;
        a.queries = shape.queries, a.keys = shape.keys, a.depth = shape.depth, a.value_depth = shape.value_depth;
        // Of steps that are never taken any will do, but 0.
        auto steps = [&](AttentionPlace const& p, int64_t row) {
            auto some = [row](int64_t step) { return step ? step : row; };
            return RefactorSteps{some(p.batch), some(p.head), some(p.row)};
        };
        a.q = steps(shape.q, a.depth), a.k = steps(shape.k, a.depth);
        a.v = steps(shape.v, a.value_depth), a.y = steps(shape.y, a.value_depth);
        int64_t const scores[4]{a.batch, a.heads, a.queries, a.keys};
        if (info_.has_mask)
            for (int i = 0; i < 4; ++i) a.bias[i] = shape.mask_step[i] ? scores[i] : 1;
        return a;
    }

public:
    DnnAttentionKernel(AttentionInfo const& info, DataType dtype, Dnn const& dnn, std::unique_ptr<Kernel> mask,
                       Library const& library)
        : info_(info), dtype_(dtype), dnn_(dnn), mask_(std::move(mask)) {
        if (info.has_mask && (info.unseen_to_zero || info.nan_to_zero)) hidden_.emplace(library, dtype, info.causal);
    }

    std::string id() const override { return id_of("attention", "cudnn", dtype_); }

    /// Half of what its tensor cores could do.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        return kLaunchTime * (1 + (mask_ != nullptr) + hidden_.has_value()) +
               shape->operations() / 2 / (kProcessors * kTiledRate * 8);
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        auto plan = dnn_.attention(describe(*shape), 0);
        if (!plan) return Err{plan.error()};
        std::unique_ptr<runtime::Task> mask;
        size_t bytes = 0;
        if (mask_) {
            TensorDesc bias = *args.inputs[3];
            bias.dtype = dtype_, bytes = (static_cast<size_t>(bias.count()) * 2 + 255) / 256 * 256;
            TensorDesc const *in[]{args.inputs[3]}, *out[]{&bias};
            auto bound = mask_->bind({in, out, {}, args.packs, args.threads});
            if (!bound) return Err{bound.error()};
            mask = std::move(bound).value();
        }
        auto first = [](AttentionPlace const& p) { return static_cast<size_t>(p.first) * 2; };
        std::array<size_t, 4> firsts{first(shape->q), first(shape->k), first(shape->v), first(shape->y)};
        return std::unique_ptr<runtime::Task>(std::make_unique<DnnAttentionTask>(
            dnn_, std::move(plan).value(), firsts, info_.has_mask ? 4 : 3, std::move(mask), bytes,
            hidden_ ? hidden_->bind(*shape) : nullptr, shape->operations()));
    }
};

std::string why_not_cudnn(AttentionInfo const& info, Request const& request) {
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F16 && dtype != DataType::BF16)
        return "dtype " + std::string(refactor::name_of(dtype)) + ", expected f16 or bf16";
    if (info.mask_repeats) return "masks that repeat are for the CPU";
    // Planning with a transposed K ends the process in cuDNN 9.28 for Hopper.
    if (info.has_sinks || info.k_transposed || info.softcap > 0)
        return "sinks, a transposed K and capped scores are left to generated code";
    for (size_t i = 0; i < request.inputs.size(); ++i) {
        auto const& input = request.inputs[i];
        if (input.layout != Layout::Plain || (i < 3 && input.dtype != dtype))
            return "operands must be row-major and of one dtype";
    }
    return {};
}

}  // namespace

MaybeKernel attention_cudnn(AttentionInfo const& info, Request const& request) {
    auto dnn = Dnn::of(request);
    if (!dnn) return Err{dnn.error()};
    if (auto why = why_not_cudnn(info, request); !why.empty()) return Err{Rejection{why}};
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto dtype = request.inputs[0].dtype;
    std::unique_ptr<Kernel> mask;
    if (info.has_mask && request.inputs[3].dtype != dtype) {
        auto bias = request.inputs[3];
        bias.dtype = dtype, bias.constant = nullptr;
        auto inner = request;
        inner.inputs = {&request.inputs[3], 1}, inner.outputs = {&bias, 1};
        auto made = elementwise_nvrtc(bias_of(request.inputs[3].dtype, dtype), inner);
        if (!made) return Err{made.error()};
        mask = std::move(made).value();
    }
    return std::unique_ptr<Kernel>(std::make_unique<DnnAttentionKernel>(info, dtype, *dnn, std::move(mask), *library));
}

}  // namespace refactor::kernel::cuda
