#include "common/thread_pool.h"
#include "reduce/integers.h"
#include "reduce/reduce.h"
#include "reduce/scalar_type.h"
#include "reduce/turned_sets.h"

#include <algorithm>
#include <optional>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Four bytes from L3 or memory.
constexpr double kNsPerElement = 0.2;
/// Columns that go down together: runs of 2 KiB of i32, which the prefetchers follow.
constexpr int64_t kTile = 512;
/// Longest sets that are turned, of rows and of columns that do not fill a vector; fewest sets.
constexpr int64_t kTurnedRow = 64, kTurnedSet = 256, kFewestSets = 16;

/// What becomes of integers, but for kinds that are none of these; means are sums that are divided.
std::optional<Fold> fold_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::Max:
            return Fold::Max;
        case ReduceKind::Min:
            return Fold::Min;
        case ReduceKind::Sum:
        case ReduceKind::Mean:
            return Fold::Sum;
        case ReduceKind::Prod:
            return Fold::Product;
        default:
            return std::nullopt;
    }
}
bool is_ordered(Fold fold) { return fold == Fold::Max || fold == Fold::Min; }

struct Columns {
    void const* x;
    void* y;
    int64_t size, stride, columns;
    Fold fold;
};
using ColumnsFunction = void (*)(Columns const&);

template <class T>
void fold_columns(Columns const& c) {
    fold_columns_avx2(
        FoldColumns<T>{static_cast<T const*>(c.x), static_cast<T*>(c.y), c.size, c.stride, c.columns, c.fold});
}
void widen_columns(Columns const& c) {
    widen_columns_avx2({static_cast<int32_t const*>(c.x), static_cast<int64_t*>(c.y), c.size, c.stride, c.columns});
}
ColumnsFunction columns_of(DataType dtype, Fold fold) {
    auto bytes = bits_of(dtype) / 8;
    if (!is_ordered(fold)) return bytes == 4 ? fold_columns<uint32_t> : fold_columns<uint64_t>;
    if (dtype == DataType::I8) return fold_columns<int8_t>;
    return bytes == 1 ? fold_columns<uint8_t> : bytes == 4 ? fold_columns<int32_t> : fold_columns<int64_t>;
}

/// Integers of one run of axes.
class IntegersPass {
    ReducePass of_;
    ColumnsFunction columns_;
    Fold fold_;
    DataType to_;
    int64_t from_bytes_, to_bytes_;  // of an element
    int64_t divisor_;                // of 64-bit sums; 0: there is none
    bool is_turned_;
    int64_t tiles_, items_, chunks_;  // of a set, of all: tiles or some turned sets
    TurnedSets sets_;

    size_t sums_bytes() const {
        return divisor_ ? static_cast<size_t>(is_turned_ ? sets_.most() * of_.inner : std::min(kTile, of_.inner)) * 8
                        : 0;
    }
    /// `columns.y`: where results go to once they are divided.
    void fold(Columns columns, std::byte* sums) const {
        auto* y = columns.y;
        if (divisor_) columns.y = sums;
        columns_(columns);
        if (!divisor_) return;
        auto const* undivided = reinterpret_cast<int64_t const*>(sums);
        if (to_ == DataType::I32)
            divide_sums_avx2(undivided, columns.columns, divisor_, static_cast<int32_t*>(y));
        else
            divide_sums_avx2(undivided, columns.columns, divisor_, static_cast<int64_t*>(y));
    }
    void tile(std::byte const* x, std::byte* y, int64_t item, std::byte* scratch) const {
        auto outer = tiles_ == 1 ? item : item / tiles_, column = (item - outer * tiles_) * kTile;
        x += (outer * of_.size * of_.inner + column) * from_bytes_;
        y += (outer * of_.inner + column) * to_bytes_;
        fold({x, y, of_.size, of_.inner, std::min(kTile, of_.inner - column), fold_}, scratch);
    }
    void some_sets(std::byte const* x, std::byte* y, int64_t item, std::byte* scratch) const {
        auto first = item * sets_.most(), sets = std::min(sets_.most(), of_.outer - first);
        auto *sums = scratch + sets_.turned_bytes(), *results = sums + (sums_bytes() + 63) / 64 * 64;
        y += first * of_.inner * to_bytes_;
        sets_.turn(x + first * of_.size * of_.inner * from_bytes_, sets, scratch);
        auto columns = of_.inner * sets;
        fold({scratch, of_.inner == 1 ? y : results, of_.size, columns, columns, fold_}, sums);
        if (of_.inner > 1) sets_.turn_back(results, sets, y);
    }

public:
    IntegersPass(ReducePass const& of, ColumnsFunction columns, Fold fold, DataType from, DataType to, int64_t divisor,
                 int threads)
        : of_(of),
          columns_(columns),
          fold_(fold),
          to_(to),
          from_bytes_(bits_of(from) / 8),
          to_bytes_(bits_of(to) / 8),
          divisor_(divisor) {
        auto [outer, size, inner] = of_;
        int64_t const bytes = from_bytes_, length = size * inner;
        is_turned_ =
            outer >= kFewestSets && size > 1 && inner * bytes < 32 && length <= (inner == 1 ? kTurnedRow : kTurnedSet);
        if (is_turned_) sets_ = {length, inner, bytes, to_bytes_, Isa::Avx2};
        tiles_ = (inner + kTile - 1) / kTile;
        items_ = is_turned_ ? (outer + sets_.most() - 1) / sets_.most() : outer * tiles_;
        auto elements = length * (is_turned_ ? sets_.most() : 1);
        if (!is_turned_) elements = size * std::min(inner, kTile);
        chunks_ = chunks_of(items_, static_cast<double>(elements) * kNsPerElement, threads);
    }
    size_t scratch_bytes() const {
        auto bytes = (sums_bytes() + 63) / 64 * 64;
        return is_turned_ ? bytes + sets_.turned_bytes() + sets_.result_bytes() : bytes;
    }
    void run(void const* x, void* y, runtime::RunContext const& context) const {
        context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
            auto* scratch = context.scratch_of(worker);
            for (auto i = items_ * c / chunks_; i < items_ * (c + 1) / chunks_; ++i)
                (this->*(is_turned_ ? &IntegersPass::some_sets : &IntegersPass::tile))(
                    static_cast<std::byte const*>(x), static_cast<std::byte*>(y), i, scratch);
        });
    }
};

class ReduceIntegers final : public runtime::Task {
    std::vector<IntegersPass> passes_;
    size_t between_bytes_[2]{}, scratch_bytes_ = 0;  // of results in between, in turns
    double operations_;

public:
    ReduceIntegers(ReduceInfo const& info, BindArgs const& args) {
        ReduceShape shape(args.inputs[0]->dims, info.axes);
        operations_ = static_cast<double>(shape.kept_count) * static_cast<double>(shape.reduced_count);
        auto fold = *fold_of(info.kind);
        auto dtype = args.inputs[0]->dtype, from = dtype;
        auto columns = columns_of(dtype, fold);
        bool is_mean = info.kind == ReduceKind::Mean;
        if (is_mean && dtype == DataType::I32) columns = widen_columns;
        auto passes = passes_of(shape);
        for (size_t i = 0; i < passes.size(); ++i) {
            bool is_last = i + 1 == passes.size();
            auto to = is_mean && !is_last ? DataType::I64 : dtype;
            auto divisor = is_mean && is_last ? shape.reduced_count : 0;
            passes_.emplace_back(passes[i], columns, fold, from, to, divisor, args.threads);
            scratch_bytes_ = std::max(scratch_bytes_, passes_.back().scratch_bytes());
            if (is_last) break;
            if (is_mean) columns = fold_columns<uint64_t>;
            auto bytes = static_cast<size_t>(passes[i].outer * passes[i].inner) * static_cast<size_t>(bits_of(to) / 8);
            between_bytes_[i % 2] = std::max(between_bytes_[i % 2], (bytes + 63) / 64 * 64);
            from = to;
        }
    }
    static MaybeTask make(ReduceInfo const& info, BindArgs const& args) {
        if (ReduceShape(args.inputs[0]->dims, info.axes).reduced_count == 0) return reject("the axes are empty");
        return std::unique_ptr<runtime::Task>(new ReduceIntegers(info, args));
    }
    static Result<double, Rejection> cost(ReduceInfo const& info, BindArgs const& args) {
        if (ReduceShape(args.inputs[0]->dims, info.axes).reduced_count == 0) return reject("the axes are empty");
        return 20 + static_cast<double>(args.inputs[0]->count()) * kNsPerElement / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<void const*>(arguments[0]);
        std::byte* between[]{context.workspace, context.workspace + between_bytes_[0]};
        for (size_t i = 0; i < passes_.size(); ++i) {
            auto* y = i + 1 == passes_.size() ? arguments[1] : between[i % 2];
            passes_[i].run(x, y, context);
            x = y;
        }
    }
    size_t workspace_bytes() const override { return between_bytes_[0] + between_bytes_[1]; }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    double operations() const override { return operations_; }
};

}  // namespace
#endif

MaybeKernel make_reduce_integers([[maybe_unused]] ReduceInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
#if RG_X86
    using enum DataType;
    auto fold = fold_of(info.kind);
    if (!fold) return reject("finds extremes, sums, means and products, no " + std::string(name_of(info.kind)));
    auto dtype = request.inputs[0].dtype;
    auto is_one_of = [&](std::initializer_list<DataType> types) {
        return std::ranges::find(types, dtype) != types.end();
    };
    auto complain = [&](char const* expected) {
        return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected " + expected);
    };
    if (info.kind == ReduceKind::Mean && !is_one_of({I32, I64})) return complain("i32 or i64");
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
