#include "common/thread_pool.h"
#include "reduce/reduce.h"
#include "reduce/scalar_type.h"

#include <cmath>
#include <limits>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 2.5;

template <ReduceKind K, class T>
Wide<T> identity() {
    using W = Wide<T>;
    if constexpr (K == ReduceKind::Max || K == ReduceKind::Min) {
        constexpr bool kMax = K == ReduceKind::Max;
        if constexpr (!std::is_integral_v<T>)
            return kMax ? -INFINITY : INFINITY;
        else
            return static_cast<W>(kMax ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    } else {
        return K == ReduceKind::Prod ? W{1} : W{0};
    }
}

template <ReduceKind K, class W>
W combine(W acc, W x) {
    if constexpr (K == ReduceKind::Max)
        return x > acc || x != x ? x : acc;
    else if constexpr (K == ReduceKind::Min)
        return x < acc || x != x ? x : acc;
    else if constexpr (K == ReduceKind::Prod)
        return multiply(acc, x);
    else if constexpr (K == ReduceKind::L1)
        return add(acc, x < W{0} ? multiply(x, static_cast<W>(-1)) : x);
    else if constexpr (K == ReduceKind::L2 || K == ReduceKind::SumSquare)
        return add(acc, multiply(x, x));
    else
        return add(acc, x);
}

template <ReduceKind K, class W>
W finish(W acc, int64_t count) {
    if constexpr (K == ReduceKind::Mean) {
        if constexpr (std::is_integral_v<W>)
            return count ? acc / static_cast<W>(count) : W{0};
        else
            return acc / static_cast<W>(count);
    } else if constexpr (K == ReduceKind::L2)
        return static_cast<W>(std::sqrt(static_cast<double>(acc)));
    else if constexpr (K == ReduceKind::LogSum)
        return static_cast<W>(std::log(static_cast<double>(acc)));
    else
        return acc;
}

class ReduceReference final : public runtime::Task {
    using Body = void (*)(ReduceReference const&, void const*, void*, int64_t, int64_t);
    ReduceShape shape_;
    Body body_ = nullptr;
    int threads_;

    int64_t base_of(int64_t index) const {
        int64_t offset = 0;
        for (auto i = shape_.kept.size(); i-- > 0;) {
            offset += index % shape_.kept[i].size * shape_.kept[i].stride;
            index /= shape_.kept[i].size;
        }
        return offset;
    }
    /// Calls `f(x)` for every element of one reduced set.
    template <class T, class F>
    void each(T const* x, size_t level, F&& f) const {
        if (level == shape_.reduced.size()) return f(widen(*x));
        auto run = shape_.reduced[level];
        if (level + 1 == shape_.reduced.size())
            for (int64_t i = 0; i < run.size; ++i) f(widen(x[i * run.stride]));
        else
            for (int64_t i = 0; i < run.size; ++i) each(x + i * run.stride, level + 1, f);
    }

    template <class T, ReduceKind K>
    static void reduce(ReduceReference const& self, void const* source, void* target, int64_t begin, int64_t end) {
        using W = Wide<T>;
        for (int64_t o = begin; o < end; ++o) {
            auto const* x = static_cast<T const*>(source) + (self.shape_.reduced_count ? self.base_of(o) : 0);
            auto& y = static_cast<T*>(target)[o];
            if constexpr (K == ReduceKind::LogSumExp) {
                double max = -INFINITY, sum = 0;
                if (self.shape_.reduced_count)
                    self.each(x, 0, [&](W v) { max = combine<ReduceKind::Max>(max, static_cast<double>(v)); });
                auto shift = std::isfinite(max) ? max : 0;
                if (self.shape_.reduced_count)
                    self.each(x, 0, [&](W v) { sum += std::exp(static_cast<double>(v) - shift); });
                y = narrow<T>(static_cast<W>(std::log(sum) + shift));
            } else {
                auto acc = identity<K, T>();
                if (self.shape_.reduced_count) self.each(x, 0, [&](W v) { acc = combine<K>(acc, v); });
                y = narrow<T>(finish<K>(acc, self.shape_.reduced_count));
            }
        }
    }

    template <class T>
    static Body select(ReduceKind kind) {
        switch (kind) {
            case ReduceKind::Sum:
                return reduce<T, ReduceKind::Sum>;
            case ReduceKind::Mean:
                return reduce<T, ReduceKind::Mean>;
            case ReduceKind::Max:
                return reduce<T, ReduceKind::Max>;
            case ReduceKind::Min:
                return reduce<T, ReduceKind::Min>;
            case ReduceKind::Prod:
                return reduce<T, ReduceKind::Prod>;
            case ReduceKind::L1:
                return reduce<T, ReduceKind::L1>;
            case ReduceKind::L2:
                return reduce<T, ReduceKind::L2>;
            case ReduceKind::SumSquare:
                return reduce<T, ReduceKind::SumSquare>;
            case ReduceKind::LogSum:
                return reduce<T, ReduceKind::LogSum>;
            case ReduceKind::LogSumExp:
                return reduce<T, ReduceKind::LogSumExp>;
        }
        return nullptr;
    }

public:
    ReduceReference(ReduceInfo const& info, BindArgs const& args)
        : shape_(args.inputs[0]->dims, info.axes), threads_(args.threads) {
        auto dtype = args.inputs[0]->dtype == DataType::Bool ? DataType::U8 : args.inputs[0]->dtype;
        visit_numeric(dtype, [&](auto tag) { body_ = select<typename decltype(tag)::type>(info.kind); });
    }
    static MaybeTask make(ReduceInfo const& info, BindArgs const& args) {
        return std::unique_ptr<runtime::Task>(new ReduceReference(info, args));
    }
    static Result<double, Rejection> cost(ReduceInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * kNsPerElement;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto ns = static_cast<double>(shape_.reduced_count) * kNsPerElement;
        auto chunks = chunks_of(shape_.kept_count, ns, threads_);
        context.pool.parallel_for(chunks, [&](int64_t i, int) {
            body_(*this, arguments[0], arguments[1], shape_.kept_count * i / chunks,
                  shape_.kept_count * (i + 1) / chunks);
        });
    }
    double operations() const override {
        return static_cast<double>(shape_.kept_count) * static_cast<double>(shape_.reduced_count);
    }
};

}  // namespace

MaybeKernel make_reduce_reference(ReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    auto order = info.kind == ReduceKind::Max || info.kind == ReduceKind::Min;
    if (!is_any_numeric(dtype) && !(dtype == DataType::Bool && order))
        return reject("dtype " + std::string(refactor::name_of(dtype)) + " cannot be reduced by " +
                      std::string(name_of(info.kind)));
    return std::unique_ptr<Kernel>(
        new InfoKernel<ReduceInfo, ReduceReference>(id_of("reduce", "reference", dtype), info));
}

}  // namespace refactor::kernel
