#include "common/thread_pool.h"
#include "reduce/integers.h"
#include "reduce/reduce.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <optional>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Four bytes from L3 or memory.
constexpr double kNsPerElement = 0.2;
/// Columns that go down together: runs of 2 KiB of i32, which the prefetchers follow.
constexpr int64_t kTile = 512;

/// What becomes of integers, but for kinds that are none of these.
std::optional<Fold> fold_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::Max:
            return Fold::Max;
        case ReduceKind::Min:
            return Fold::Min;
        case ReduceKind::Sum:
            return Fold::Sum;
        case ReduceKind::Prod:
            return Fold::Product;
        default:
            return std::nullopt;
    }
}
bool is_ordered(Fold fold) { return fold == Fold::Max || fold == Fold::Min; }

/// Integers of one run of axes.
class ReduceIntegers final : public runtime::Task {
    using Body = void (*)(ReduceIntegers const&, void const*, void*, int64_t, int64_t);
    AxisSplit split_;
    int64_t tiles_, chunks_;
    Fold fold_;
    Body body_ = nullptr;

    template <class T>
    static void reduce(ReduceIntegers const& self, void const* source, void* target, int64_t begin, int64_t end) {
        auto [_, size, inner] = self.split_;
        for (auto i = begin; i < end; ++i) {
            auto outer = i / self.tiles_, column = i % self.tiles_ * kTile;
            fold_columns_avx2(FoldColumns<T>{static_cast<T const*>(source) + outer * size * inner + column,
                                             static_cast<T*>(target) + outer * inner + column, size, inner,
                                             std::min(kTile, inner - column), self.fold_});
        }
    }

    static Body body_of(DataType dtype, Fold fold) {
        auto bytes = bits_of(dtype) / 8;
        if (!is_ordered(fold)) return bytes == 4 ? reduce<uint32_t> : reduce<uint64_t>;
        if (dtype == DataType::I8) return reduce<int8_t>;
        return bytes == 1 ? reduce<uint8_t> : bytes == 4 ? reduce<int32_t> : reduce<int64_t>;
    }

public:
    ReduceIntegers(AxisSplit const& split, Fold fold, BindArgs const& args)
        : split_(split), tiles_((split.inner + kTile - 1) / kTile), fold_(fold) {
        auto ns = static_cast<double>(split_.size * std::min(split_.inner, kTile)) * kNsPerElement;
        chunks_ = chunks_of(split_.outer * tiles_, ns, args.threads);
        body_ = body_of(args.inputs[0]->dtype, fold);
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
        return std::unique_ptr<runtime::Task>(new ReduceIntegers(*split, *fold_of(info.kind), args));
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

MaybeKernel make_reduce_integers([[maybe_unused]] ReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
#if RG_X86
    using enum DataType;
    auto fold = fold_of(info.kind);
    if (!fold) return reject("finds extremes, sums and products, no " + std::string(name_of(info.kind)));
    auto dtype = request.inputs[0].dtype;
    auto is_one_of = [&](std::initializer_list<DataType> types) {
        return std::ranges::find(types, dtype) != types.end();
    };
    auto complain = [&](char const* expected) {
        return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected " + expected);
    };
    if (is_ordered(*fold) && !is_one_of({I8, U8, I32, I64, Bool})) return complain("i8, u8, i32, i64 or bool");
    if (!is_ordered(*fold) && !is_one_of({I32, I64, U32, U64})) return complain("i32, i64, u32 or u64");
    if (auto why = why_not_isa(request, Isa::Avx2); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<ReduceInfo, ReduceIntegers>(id_of("reduce", "integers", dtype, Isa::Avx2), info));
#else
    return reject("needs avx2");
#endif
}

}  // namespace refactor::kernel
