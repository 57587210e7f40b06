#include "arg_reduce/arg_reduce.h"
#include "common/thread_pool.h"
#include "reduce/scalar_type.h"

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 1.5;

/// The NaN that comes first wins, as in numpy.
template <class W>
bool better(W x, W best, bool min, bool or_equal) {
    if (best != best) return x != x && or_equal;
    return x != x || (min ? x < best : x > best) || (or_equal && x == best);
}

class ArgReduceReference final : public runtime::Task {
    using Body = void (*)(ArgReduceReference const&, void const*, int64_t*, int64_t);
    ArgReduceInfo info_;
    AxisSplit split_;
    int threads_;
    Body body_ = nullptr;

    template <class T>
    static void search(ArgReduceReference const& self, void const* source, int64_t* target, int64_t outer) {
        auto [_, size, inner] = self.split_;
        auto const* x = static_cast<T const*>(source) + outer * size * inner;
        for (int64_t i = 0; i < inner; ++i) {
            auto best = widen(x[i]);
            int64_t index = 0;
            for (int64_t k = 1; k < size; ++k)
                if (auto v = widen(x[k * inner + i]); better(v, best, self.info_.min, self.info_.select_last_index))
                    best = v, index = k;
            target[outer * inner + i] = index;
        }
    }

public:
    ArgReduceReference(ArgReduceInfo const& info, BindArgs const& args)
        : info_(info), split_(args.inputs[0]->dims, info.axis), threads_(args.threads) {
        visit_numeric(args.inputs[0]->dtype, [&](auto tag) { body_ = search<typename decltype(tag)::type>; });
    }
    static MaybeTask make(ArgReduceInfo const& info, BindArgs const& args) {
        if (args.inputs[0]->dims[info.axis] == 0) return reject("axis " + std::to_string(info.axis) + " is empty");
        return std::unique_ptr<runtime::Task>(new ArgReduceReference(info, args));
    }
    static Result<double, Rejection> cost(ArgReduceInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto ns = static_cast<double>(split_.size * split_.inner) * kNsPerElement;
        auto chunks = chunks_of(split_.outer, ns, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto o = split_.outer * c / chunks; o < split_.outer * (c + 1) / chunks; ++o)
                body_(*this, arguments[0], static_cast<int64_t*>(arguments[1]), o);
        });
    }
};

}  // namespace

MaybeKernel make_arg_reduce_reference(ArgReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_numeric(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " has no order");
    return std::unique_ptr<Kernel>(
        new InfoKernel<ArgReduceInfo, ArgReduceReference>(id_of("arg_reduce", "reference", dtype), info));
}

}  // namespace refactor::kernel
