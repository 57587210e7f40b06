#include "attention/attention_row.h"
#include "common/thread_pool.h"

namespace refactor::kernel {
namespace {

class AttentionReference final : public runtime::Task {
    using Body = void (*)(AttentionReference const&, void* const*, int64_t, double*);
    AttentionInfo info_;
    AttentionShape shape_;
    int threads_;
    Body body_ = nullptr;

    DataType mask_type_ = DataType::Undefined;

    /// One query; `row` counts over batch, head and position; `p` has room for a weight per key.
    template <class T>
    static void compute(AttentionReference const& self, void* const* arguments, int64_t row, double* p) {
        auto const& info = self.info_;
        auto const& s = self.shape_;
        auto batch = row / s.queries / s.heads, head = row / s.queries % s.heads, query = row % s.queries;
        auto* y =
            static_cast<T*>(arguments[3 + info.has_mask + info.has_sinks]) + s.y.at(batch, head) + query * s.y.row;
        AttentionRow<T>(info, s, self.mask_type_, arguments, batch, head, query, y).compute(p);
    }
    size_t scratch_bytes() const override { return (static_cast<size_t>(shape_.keys) * 8 + 63) / 64 * 64; }

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
            auto* scratch = context.scratch_of(worker);
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r)
                body_(*this, arguments, r, reinterpret_cast<double*>(scratch));
        });
    }
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
    if (auto why = why_not_outputs_of(request, dtype); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<AttentionInfo, AttentionReference>(id_of("attention", "reference", dtype), info));
}

}  // namespace refactor::kernel
