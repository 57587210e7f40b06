#include "common/thread_pool.h"
#include "reduce/order.h"
#include "reduce/reduce.h"
#include "reduce/scalar_type.h"

#include <algorithm>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Four bytes from L3 or memory.
constexpr double kNsPerElement = 0.2;
/// Columns that go down together: runs of 2 KiB of i32, which the prefetchers follow.
constexpr int64_t kTile = 512;

/// The largest or smallest integers of one run of axes.
class ReduceOrder final : public runtime::Task {
    using Body = void (*)(ReduceOrder const&, void const*, void*, int64_t, int64_t);
    AxisSplit split_;
    int64_t tiles_, chunks_;
    bool max_;
    Body body_ = nullptr;

    template <class T>
    static void reduce(ReduceOrder const& self, void const* source, void* target, int64_t begin, int64_t end) {
        auto [_, size, inner] = self.split_;
        for (auto i = begin; i < end; ++i) {
            auto outer = i / self.tiles_, column = i % self.tiles_ * kTile;
            order_columns_avx2(OrderColumns<T>{static_cast<T const*>(source) + outer * size * inner + column,
                                               static_cast<T*>(target) + outer * inner + column, size, inner,
                                               std::min(kTile, inner - column), self.max_});
        }
    }

public:
    ReduceOrder(AxisSplit const& split, bool max, BindArgs const& args)
        : split_(split), tiles_((split.inner + kTile - 1) / kTile), max_(max) {
        auto ns = static_cast<double>(split_.size * std::min(split_.inner, kTile)) * kNsPerElement;
        chunks_ = chunks_of(split_.outer * tiles_, ns, args.threads);
        switch (args.inputs[0]->dtype) {
            case DataType::I8:
                body_ = reduce<int8_t>;
                break;
            case DataType::U8:
                body_ = reduce<uint8_t>;
                break;
            case DataType::I32:
                body_ = reduce<int32_t>;
                break;
            default:
                body_ = reduce<int64_t>;
        }
    }
    static Result<AxisSplit, Rejection> split_of(ReduceInfo const& info, BindArgs const& args) {
        auto first = std::min_element(info.axes.begin(), info.axes.end());
        auto count = static_cast<int64_t>(info.axes.size());
        if (!count || *std::max_element(info.axes.begin(), info.axes.end()) != *first + count - 1)
            return reject("the axes are not neighbours");
        AxisSplit split(args.inputs[0]->dims, *first, count);
        if (split.size == 0) return reject("the axes are empty");
        return split;
    }
    static MaybeTask make(ReduceInfo const& info, BindArgs const& args) {
        auto split = split_of(info, args);
        if (!split) return Err{split.error()};
        return std::unique_ptr<runtime::Task>(new ReduceOrder(*split, info.kind == ReduceKind::Max, args));
    }
    static Result<double, Rejection> cost(ReduceInfo const& info, BindArgs const& args) {
        if (auto split = split_of(info, args); !split) return Err{split.error()};
        return 20 + static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto items = split_.outer * tiles_;
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            body_(*this, arguments[0], arguments[1], items * c / chunks_, items * (c + 1) / chunks_);
        });
    }
    double operations() const override { return static_cast<double>(split_.outer * split_.size * split_.inner); }
};

}  // namespace
#endif

MaybeKernel make_reduce_order(ReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (info.kind != ReduceKind::Max && info.kind != ReduceKind::Min)
        return reject("finds the largest and smallest, no " + std::string(name_of(info.kind)));
    if (dtype != DataType::I8 && dtype != DataType::U8 && dtype != DataType::I32 && dtype != DataType::I64)
        return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected i8, u8, i32 or i64");
#if RG_X86
    if (auto why = why_not_isa(request, Isa::Avx2); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<ReduceInfo, ReduceOrder>(id_of("reduce", "order", dtype, Isa::Avx2), info));
#else
    return reject("needs avx2");
#endif
}

}  // namespace refactor::kernel
