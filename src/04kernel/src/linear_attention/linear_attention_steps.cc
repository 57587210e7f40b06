#include "common/thread_pool.h"
#include "linear_attention/linear_attention.h"
#include "linear_attention/linear_steps.h"

namespace refactor::kernel {

namespace {

class StepsTask final : public runtime::Task {
    LinearAttentionShape s_;
    float scale_;
    LinearStepsFunctions const& f_;
    int64_t parts_, columns_;  ///< of a head; columns of a part

    LinearSteps part(void* const* arguments, int64_t unit) const {
        auto column = unit % parts_ * columns_, head = unit / parts_ % s_.kv_heads, batch = unit / parts_ / s_.kv_heads;
        auto first = batch * s_.steps, y_head = head * s_.group();
        auto input = [&](int i) { return i < 0 ? nullptr : static_cast<float const*>(arguments[i]); };
        LinearSteps t{};
        t.steps = s_.steps, t.depth = s_.depth, t.group = s_.group(), t.scale = scale_;
        t.columns = static_cast<int>(std::min(columns_, s_.value_depth - column));
        t.q_step = s_.heads * s_.depth, t.k_step = s_.kv_heads * s_.depth, t.v_step = s_.kv_heads * s_.value_depth;
        t.q = input(0) + first * t.q_step + s_.query_of(y_head) * s_.depth;
        t.k = input(1) + first * t.k_step + head * s_.depth;
        t.v = input(2) + first * t.v_step + head * s_.value_depth + column;
        t.decay_step = s_.decays, t.decay_each = s_.decays != s_.kv_heads, t.beta_step = s_.betas;
        if (s_.decay >= 0) t.decay = input(s_.decay) + first * s_.decays + head * (t.decay_each ? s_.depth : 1);
        if (s_.beta >= 0) t.beta = input(s_.beta) + first * s_.betas + (s_.betas == 1 ? 0 : head);
        auto state = (batch * s_.kv_heads + head) * s_.state_size() + column;
        if (s_.past >= 0) t.past = input(s_.past) + state;
        t.present = static_cast<float*>(arguments[s_.y + 1]) + state, t.state_row = s_.value_depth;
        t.y_step = s_.y_heads() * s_.value_depth, t.y_head = s_.value_depth;
        t.y = static_cast<float*>(arguments[s_.y]) + first * t.y_step + y_head * s_.value_depth + column;
        return t;
    }

public:
    /// Parts of a head make coefficients of their own: only as many as threads lack heads.
    StepsTask(LinearAttentionShape const& shape, float scale, LinearStepsFunctions const& f, int threads)
        : s_(shape), scale_(scale), f_(f) {
        auto blocks = (shape.value_depth + f.columns - 1) / f.columns;
        auto heads = std::max<int64_t>(1, shape.batch * shape.kv_heads);
        columns_ = (blocks + (threads - 1) / heads) / ((threads - 1) / heads + 1) * f.columns;
        parts_ = (shape.value_depth + columns_ - 1) / std::max<int64_t>(1, columns_);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(s_.batch * s_.kv_heads * parts_, [&](int64_t unit, int worker) {
            auto t = part(arguments, unit);
            t.scratch = reinterpret_cast<float*>(context.scratch_of(worker));
            f_.run(t);
        });
    }
    size_t scratch_bytes() const override {
        return static_cast<size_t>(linear_scratch(f_, s_.depth, columns_)) * sizeof(float);
    }
    double operations() const override { return s_.operations(); }
};

class StepsKernel final : public Kernel {
    LinearAttentionInfo info_;
    Isa isa_;
    LinearStepsFunctions const& f_;

public:
    StepsKernel(LinearAttentionInfo const& info, Isa isa, LinearStepsFunctions const& f)
        : info_(info), isa_(isa), f_(f) {}
    std::string id() const override { return id_of("linear_attention", "steps", DataType::F32, isa_); }
    /// Passes over the state in L1.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        LinearAttentionShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        if (shape.depth > LinearSteps::kMostDepth)
            return reject("keys of " + std::to_string(shape.depth) + " elements, at most " +
                          std::to_string(LinearSteps::kMostDepth));
        return 500 + shape.operations() / (isa_ >= Isa::Avx512 ? 40 : 25) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto time = estimate(args); !time) return Err{time.error()};
        LinearAttentionShape shape;
        shape.init(info_, args);
        return std::unique_ptr<runtime::Task>(new StepsTask(shape, info_.scale, f_, args.threads));
    }
};

[[maybe_unused]] MaybeKernel make(LinearAttentionInfo const& info, Request const& request, Isa isa,
                                  LinearStepsFunctions const& (*functions)()) {
    if (auto why = why_not_linear_attention(request); !why.empty()) return reject(why);
    if (auto type = request.inputs[0].dtype; type != DataType::F32)
        return reject("dtype is " + std::string(name_of(type)) + ", expected f32");
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new StepsKernel(info, isa, functions()));
}

}  // namespace

#if RG_X86
MaybeKernel make_linear_attention_avx512(LinearAttentionInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, linear_steps_avx512);
}
MaybeKernel make_linear_attention_avx2(LinearAttentionInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, linear_steps_avx2);
}
#else
MaybeKernel make_linear_attention_avx512(LinearAttentionInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_linear_attention_avx2(LinearAttentionInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
