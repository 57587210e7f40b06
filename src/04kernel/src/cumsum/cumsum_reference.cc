#include "common/thread_pool.h"
#include "cumsum/cumsum.h"
#include "reduce/scalar_type.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 1.5;

class CumSumReference final : public runtime::Task {
    using Body = void (*)(CumSumReference const&, void const*, void*, int64_t);
    CumSumInfo info_;
    AxisSplit split_;
    int threads_;
    Body body_ = nullptr;

    template <class T, bool product>
    static void accumulate(CumSumReference const& self, void const* source, void* target, int64_t outer) {
        auto [_, size, inner] = self.split_;
        auto step = self.info_.reverse ? -inner : inner;
        auto first = outer * size * inner + (self.info_.reverse ? (size - 1) * inner : 0);
        for (int64_t i = 0; i < inner; ++i) {
            auto const* x = static_cast<T const*>(source) + first + i;
            auto* y = static_cast<T*>(target) + first + i;
            Wide<T> total = product ? 1 : 0;
            for (int64_t k = 0; k < size; ++k) {
                auto value = widen(x[k * step]);
                auto next = product ? multiply(total, value) : add(total, value);
                y[k * step] = narrow<T>(self.info_.exclusive ? total : next);
                total = next;
            }
        }
    }

public:
    CumSumReference(CumSumInfo const& info, BindArgs const& args)
        : info_(info), split_(args.inputs[0]->dims, info.axis), threads_(args.threads) {
        visit_numeric(args.inputs[0]->dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            body_ = info.product ? accumulate<T, true> : accumulate<T, false>;
        });
    }
    static MaybeTask make(CumSumInfo const& info, BindArgs const& args) {
        return std::unique_ptr<runtime::Task>(new CumSumReference(info, args));
    }
    static Result<double, Rejection> cost(CumSumInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto ns = static_cast<double>(split_.size * split_.inner) * kNsPerElement;
        auto chunks = chunks_of(split_.outer, ns, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto o = split_.outer * c / chunks; o < split_.outer * (c + 1) / chunks; ++o)
                body_(*this, arguments[0], arguments[1], o);
        });
    }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override { return static_cast<double>(split_.outer * split_.size * split_.inner); }
};

}  // namespace

MaybeKernel make_cumsum_reference(CumSumInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_numeric(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " has no sum");
    return std::unique_ptr<Kernel>(
        new InfoKernel<CumSumInfo, CumSumReference>(id_of("cumsum", "reference", dtype), info));
}

}  // namespace refactor::kernel
