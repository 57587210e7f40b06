#include "linear_attention/linear_attention.h"

#include "common/thread_pool.h"
#include "cuda/kernels.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {

std::string LinearAttentionShape::init(LinearAttentionInfo const& info, BindArgs const& args) {
    heads = info.heads, kv_heads = info.kv_heads;
    for (size_t i = 0; i < 3; ++i)
        if (args.inputs[i]->dims.size() != 3) return "operands must have three axes";
    auto const &q = args.inputs[0]->dims, &k = args.inputs[1]->dims, &v = args.inputs[2]->dims;
    if (heads < 1 || kv_heads < 1 || (heads % kv_heads && kv_heads % heads))
        return "heads and key heads are no multiples of each other";
    batch = q[0], steps = q[1], depth = q[2] / heads, value_depth = v[2] / kv_heads;
    if (q[2] != heads * depth || k != Dims{batch, steps, kv_heads * depth} ||
        v != Dims{batch, steps, kv_heads * value_depth})
        return "the sizes of q, k and v do not fit together";
    if (info.past) past = y++;
    if (info.decay) decay = y++;
    if (info.delta) beta = y++;
    if (past >= 0 && args.inputs[static_cast<size_t>(past)]->dims != Dims{batch, kv_heads, depth, value_depth})
        return "the past state does not fit";
    auto last = [&](int i) { return i < 0 ? 0 : args.inputs[static_cast<size_t>(i)]->dims.back(); };
    decays = last(decay), betas = last(beta);
    if (decay >= 0 && decays != kv_heads && decays != kv_heads * depth) return "decay does not fit";
    if (beta >= 0 && betas != kv_heads && betas != 1) return "beta does not fit";
    return {};
}

namespace {

using Shape = LinearAttentionShape;

/// State; a key or query, a value and a result.
int64_t scratch_of(Shape const& s) { return s.state_size() + s.depth + 2 * s.value_depth; }

/// One key head with element type T, computed in W.
template <class T, class W>
class Head {
    Shape const& s_;
    LinearAttentionInfo const& info_;
    void* const* arguments_;
    int64_t batch_, head_;
    W *state_, *row_, *value_, *result_;

    T const* input(int i) const { return static_cast<T const*>(arguments_[i]); }
    static W wide(T x) { return static_cast<W>(widen(x)); }

    void fade(int64_t position) {
        auto const* g = input(s_.decay) + position * s_.decays + (s_.decays == s_.kv_heads ? head_ : head_ * s_.depth);
        for (int64_t d = 0; d < s_.depth; ++d) {
            auto factor = std::exp(wide(g[s_.decays == s_.kv_heads ? 0 : d]));
            for (int64_t m = 0; m < s_.value_depth; ++m) state_[d * s_.value_depth + m] *= factor;
        }
    }
    /// `result_` = Sᵀ x
    void read(W const* x) {
        std::fill_n(result_, s_.value_depth, W{0});
        for (int64_t d = 0; d < s_.depth; ++d)
            for (int64_t m = 0; m < s_.value_depth; ++m) result_[m] += x[d] * state_[d * s_.value_depth + m];
    }
    void step(int64_t t) {
        auto position = batch_ * s_.steps + t;
        if (s_.decay >= 0) fade(position);
        auto const* k = input(1) + (position * s_.kv_heads + head_) * s_.depth;
        auto const* v = input(2) + (position * s_.kv_heads + head_) * s_.value_depth;
        for (int64_t d = 0; d < s_.depth; ++d) row_[d] = wide(k[d]);
        for (int64_t m = 0; m < s_.value_depth; ++m) value_[m] = wide(v[m]);
        if (s_.beta >= 0) {
            auto beta = wide(input(s_.beta)[position * s_.betas + (s_.betas == 1 ? 0 : head_)]);
            read(row_);
            for (int64_t m = 0; m < s_.value_depth; ++m) value_[m] = beta * (value_[m] - result_[m]);
        }
        for (int64_t d = 0; d < s_.depth; ++d)
            for (int64_t m = 0; m < s_.value_depth; ++m) state_[d * s_.value_depth + m] += row_[d] * value_[m];
        for (auto h = head_ * s_.group(); h < (head_ + 1) * s_.group(); ++h) {
            auto const* q = input(0) + (position * s_.heads + s_.query_of(h)) * s_.depth;
            auto* y = static_cast<T*>(arguments_[s_.y]) + (position * s_.y_heads() + h) * s_.value_depth;
            for (int64_t d = 0; d < s_.depth; ++d) row_[d] = wide(q[d]);
            read(row_);
            for (int64_t m = 0; m < s_.value_depth; ++m)
                y[m] = narrow<T>(static_cast<double>(static_cast<W>(info_.scale) * result_[m]));
        }
    }

public:
    Head(LinearAttentionInfo const& info, Shape const& shape, void* const* arguments, int64_t part, double* scratch)
        : s_(shape), info_(info), arguments_(arguments), batch_(part / shape.kv_heads), head_(part % shape.kv_heads) {
        state_ = reinterpret_cast<W*>(scratch), row_ = state_ + shape.state_size(), value_ = row_ + shape.depth;
        result_ = value_ + shape.value_depth;
    }
    void run() {
        auto at = (batch_ * s_.kv_heads + head_) * s_.state_size();
        for (int64_t i = 0; i < s_.state_size(); ++i) state_[i] = s_.past < 0 ? W{0} : wide(input(s_.past)[at + i]);
        for (int64_t t = 0; t < s_.steps; ++t) step(t);
        auto* present = static_cast<T*>(arguments_[s_.y + 1]) + at;
        for (int64_t i = 0; i < s_.state_size(); ++i) present[i] = narrow<T>(static_cast<double>(state_[i]));
    }
};

class LinearAttentionTask final : public runtime::Task {
    using Body = void (*)(LinearAttentionInfo const&, Shape const&, void* const*, int64_t, double*);
    LinearAttentionInfo info_;
    Shape shape_;
    Body body_ = nullptr;

    template <class T>
    static void body(LinearAttentionInfo const& info, Shape const& shape, void* const* arguments, int64_t part,
                     double* scratch) {
        Head<T, std::conditional_t<std::is_same_v<T, double>, double, float>>(info, shape, arguments, part, scratch)
            .run();
    }
    size_t scratch_bytes() const override { return static_cast<size_t>((scratch_of(shape_) * 8 + 63) / 64 * 64); }

public:
    LinearAttentionTask(LinearAttentionInfo const& info, Shape const& shape, BindArgs const& args)
        : info_(info), shape_(shape) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = body<typename decltype(tag)::type>; });
    }
    static MaybeTask make(LinearAttentionInfo const& info, BindArgs const& args) {
        Shape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new LinearAttentionTask(info, shape, args));
    }
    static Result<double, Rejection> cost(LinearAttentionInfo const& info, BindArgs const& args) {
        Shape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return shape.operations() / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(shape_.batch * shape_.kv_heads, [&](int64_t part, int worker) {
            auto* scratch = context.scratch_of(worker);
            body_(info_, shape_, arguments, part, reinterpret_cast<double*>(scratch));
        });
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

std::string LinearAttentionInfo::attributes() const {
    return std::to_string(heads) + "/" + std::to_string(kv_heads) + ",scale=" + exact_text(scale) +
           (past ? ",past" : "") + (decay ? ",decay" : "") + (delta ? ",delta" : "");
}

std::string why_not_linear_attention(Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return "dtype " + std::string(refactor::name_of(dtype)) + " is not a float";
    for (auto const& input : request.inputs)
        if (input.dtype != dtype) return "operands of different types";
    return {};
}

MaybeKernel make_linear_attention_reference(LinearAttentionInfo const& info, Request const& request) {
    if (auto why = why_not_linear_attention(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    return std::unique_ptr<Kernel>(
        new InfoKernel<LinearAttentionInfo, LinearAttentionTask>(id_of("linear_attention", "reference", dtype), info));
}

Candidates candidates(LinearAttentionInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("linear_attention:nvidia:nvrtc", cuda::linear_attention_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "linear_attention/linear_attention_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
