#include "attention/attention.h"
#include "common/thread_pool.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {
namespace {

class AttentionReference final : public runtime::Task {
    using Body = void (*)(AttentionReference const&, void* const*, int64_t, double*);
    AttentionInfo info_;
    AttentionShape shape_;
    int threads_;
    Body body_ = nullptr;

    double mask_at(void const* mask, DataType dtype, int64_t index) const {
        if (shape_.bool_mask) return static_cast<bool const*>(mask)[index] ? 0 : -INFINITY;
        double value = 0;
        visit_float(dtype,
                    [&](auto tag) { value = widen(static_cast<typename decltype(tag)::type const*>(mask)[index]); });
        return value;
    }
    DataType mask_type_ = DataType::Undefined;

    /// One query; `row` counts over batch, head and position; `p` has room for a score per key.
    template <class T>
    static void compute(AttentionReference const& self, void* const* arguments, int64_t row, double* p) {
        auto const& s = self.shape_;
        auto const& info = self.info_;
        auto query = row % s.queries, head = row / s.queries % s.heads, batch = row / s.queries / s.heads;
        auto kv = head / (s.heads / s.kv_heads);
        auto const* q = static_cast<T const*>(arguments[0]) + s.q.at(batch, head) + query * s.q.row;
        auto const* k = static_cast<T const*>(arguments[1]) + s.k.at(batch, kv);
        auto const* v = static_cast<T const*>(arguments[2]) + s.v.at(batch, kv);
        auto* y =
            static_cast<T*>(arguments[3 + info.has_mask + info.has_sinks]) + s.y.at(batch, head) + query * s.y.row;
        auto k_step = info.k_transposed ? 1 : s.k.row, k_depth = info.k_transposed ? s.k.row : 1;
        auto mask_base = batch * s.mask_step[0] + head * s.mask_step[1] + query * s.mask_step[2];
        auto visible = s.visible(info, query);
        double cap = static_cast<double>(info.softcap);
        double sink = info.has_sinks ? widen(static_cast<T const*>(arguments[3 + info.has_mask])[head]) : -INFINITY;
        double max = sink, sum = 0;
        bool none = true, hides = self.mask_type_ == DataType::Bool;
        for (int64_t t = 0; t < visible; ++t) {
            p[t] = 0;
            for (int64_t d = 0; d < s.depth; ++d) p[t] += widen(q[d]) * widen(k[t * k_step + d * k_depth]);
            p[t] *= static_cast<double>(info.scale);
            if (info.softcap > 0) p[t] = cap * std::tanh(p[t] / cap);
            if (info.has_mask) {
                auto added = self.mask_at(arguments[3], self.mask_type_, mask_base + t * s.mask_step[3]);
                p[t] = hides && added < 0 ? added : p[t] + added;
            }
            max = std::fmax(max, p[t]);
            none &= p[t] == -INFINITY;
        }
        if (info.has_sinks && sink != -INFINITY) sum = std::exp(sink - max);
        for (int64_t t = 0; t < visible; ++t) sum += p[t] = std::exp(p[t] - max);
        for (int64_t d = 0; d < s.value_depth; ++d) {
            double value = 0;
            for (int64_t t = 0; t < visible; ++t)
                if (p[t] != 0 || !hides) value += p[t] * widen(v[t * s.v.row + d]);
            y[d] = narrow<T>(none ? (info.nan_to_zero || info.has_sinks ? 0. : static_cast<double>(NAN)) : value / sum);
        }
    }
    size_t scratch_bytes() const { return (static_cast<size_t>(shape_.keys) * 8 + 63) / 64 * 64; }

public:
    AttentionReference(AttentionInfo const& info, AttentionShape const& shape, BindArgs const& args)
        : info_(info), shape_(shape), threads_(args.threads) {
        if (info.has_mask) mask_type_ = args.inputs[3]->dtype;
        visit_float(args.inputs[0]->dtype, [&](auto tag) { body_ = compute<typename decltype(tag)::type>; });
    }
    static MaybeTask make(AttentionInfo const& info, BindArgs const& args) {
        AttentionShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new AttentionReference(info, shape, args));
    }
    static Result<double, Rejection> cost(AttentionInfo const& info, BindArgs const& args) {
        AttentionShape shape;
        if (auto why = shape.init(info, args); !why.empty()) return reject(why);
        return shape.operations() * 0.75 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rows = shape_.batch * shape_.heads * shape_.queries;
        auto ns = static_cast<double>(shape_.keys) * (10 + 1.5 * static_cast<double>(shape_.depth));
        auto chunks = chunks_of(rows, ns, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int worker) {
            auto* scratch = context.workspace + static_cast<size_t>(worker) * scratch_bytes();
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r)
                body_(*this, arguments, r, reinterpret_cast<double*>(scratch));
        });
    }
    size_t workspace_bytes() const override { return scratch_bytes() * static_cast<size_t>(std::max(threads_, 1)); }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

MaybeKernel make_attention_reference(AttentionInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    for (int i = 1; i < 3; ++i)
        if (request.inputs[i].dtype != dtype)
            return reject("inputs are of types " + std::string(refactor::name_of(dtype)) + " and " +
                          std::string(refactor::name_of(request.inputs[i].dtype)));
    if (info.has_sinks && request.inputs[3 + info.has_mask].dtype != dtype)
        return reject("the sinks are of type " +
                      std::string(refactor::name_of(request.inputs[3 + info.has_mask].dtype)) + ", expected " +
                      std::string(refactor::name_of(dtype)));
    if (info.has_mask && request.inputs[3].dtype != DataType::Bool && !is_any_float(request.inputs[3].dtype))
        return reject("the mask is of type " + std::string(refactor::name_of(request.inputs[3].dtype)) +
                      ", expected a float or bool");
    return std::unique_ptr<Kernel>(
        new InfoKernel<AttentionInfo, AttentionReference>(id_of("attention", "reference", dtype), info));
}

}  // namespace refactor::kernel
