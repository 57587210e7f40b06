#include "common/thread_pool.h"
#include "reduce/reduce.h"
#include "reduce/rows_choice.h"

#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.15;
/// Elements whose sum is taken at once; those sums are added in f64.
constexpr int64_t kSumLength = 8192;
/// Columns, or short rows, of one call: eight vectors of AVX-512.
constexpr int kMostTogether = 128;
/// From here on the rows of a column are worth runs of 512 bytes; fewer are done before the next run is fetched ahead.
constexpr int64_t kManyRows = 32;
/// A call for a row costs about 20 ns, as much as this many elements from L1.
constexpr int64_t kShortRow = 256;

RowOp op_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::Max:
            return RowOp::Max;
        case ReduceKind::Min:
            return RowOp::Min;
        case ReduceKind::Prod:
            return RowOp::Prod;
        case ReduceKind::L1:
            return RowOp::Abs;
        case ReduceKind::L2:
        case ReduceKind::SumSquare:
            return RowOp::Square;
        case ReduceKind::LogSumExp:
            return RowOp::Exp;
        default:
            return RowOp::Sum;
    }
}

template <class T>
class ReduceRows final : public runtime::Task {
    RowFunctionsOf<T> const& functions_;
    ReduceKind kind_;
    RowOp op_;
    ReduceShape shape_;
    SmallVector<RowRun, 8> runs_;                // reduced, outermost first
    int64_t inner_ = 1, step_ = 1, blocks_ = 1;  // kept columns or rows behind each other, of a block, blocks
    int64_t folds_ = 0;                          // rows that are taken as one; 0: none
    int64_t segments_ = 0;                       // of a row, whose sums are taken by any thread; 0: rows are whole
    int64_t chunks_ = 1;

    T finish(double total, T shift) const {
        switch (kind_) {
            case ReduceKind::Mean:
                return static_cast<T>(total / static_cast<double>(shape_.reduced_count));
            case ReduceKind::L2:
                return static_cast<T>(std::sqrt(total));
            case ReduceKind::LogSum:
                return static_cast<T>(std::log(total));
            case ReduceKind::LogSumExp:
                return static_cast<T>(std::log(total) + static_cast<double>(shift));
            default:
                return static_cast<T>(total);
        }
    }
    static double nothing_of(RowOp op) {
        return op == RowOp::Max ? -INFINITY : op == RowOp::Min ? INFINITY : op == RowOp::Prod ? 1 : 0;
    }
    static double join(RowOp op, double a, double b) {
        if (op == RowOp::Max) return a != a || b < a ? a : b;
        if (op == RowOp::Min) return a != a || b > a ? a : b;
        return op == RowOp::Prod ? a * b : a + b;
    }
    /// Combines all reduced elements from `x` on where the innermost run is contiguous.
    double row(RowOp op, T const* x, size_t level, T shift) const {
        double total = nothing_of(op);
        if (shape_.reduced_count == 0) return total;
        if (level + 1 < runs_.size()) {
            for (int64_t i = 0; i < runs_[level].size; ++i)
                total = join(op, total, row(op, x + i * runs_[level].stride, level + 1, shift));
            return total;
        }
        auto size = runs_.empty() ? 1 : runs_[level].size;
        for (int64_t i = 0; i < size; i += kSumLength) total = join(op, total, segment(op, x, i, size, shift));
        return total;
    }
    double segment(RowOp op, T const* x, int64_t first, int64_t size, T shift) const {
        return static_cast<double>(functions_.partial(op, x + first, std::min(kSumLength, size - first), shift));
    }
    /// Fewer rows than threads: their segments are shared, and joined in the order of one thread.
    void run_segments(T const* x, T* y, runtime::RunContext const& context) const {
        auto* totals = reinterpret_cast<double*>(context.workspace);
        auto all = shape_.kept_count * segments_;
        auto levels = shape_.kept.size();
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            for (auto i = all * c / chunks_; i < all * (c + 1) / chunks_; ++i)
                totals[i] = segment(op_, x + base_of(i / segments_, levels), i % segments_ * kSumLength,
                                    shape_.reduced_count, 0);
        });
        for (int64_t row = 0; row < shape_.kept_count; ++row, totals += segments_) {
            auto total = nothing_of(op_);
            for (int64_t i = 0; i < segments_; ++i) total = join(op_, total, totals[i]);
            y[row] = finish(total, 0);
        }
    }
    T whole_row(T const* x) const {
        T shift = 0;
        if (op_ == RowOp::Exp) {
            shift = static_cast<T>(row(RowOp::Max, x, 0, 0));
            if (!std::isfinite(shift)) shift = 0;
        }
        return finish(row(op_, x, 0, shift), shift);
    }
    /// `combine(op, shift, y)` gives `count` values, one for each row or column.
    template <class Combine>
    void several(Combine combine, T* y, int64_t count) const {
        T shift[kMostTogether];
        if (op_ == RowOp::Exp) {
            combine(RowOp::Max, nullptr, shift);
            for (int64_t i = 0; i < count; ++i)
                if (!std::isfinite(shift[i])) shift[i] = 0;
        }
        combine(op_, op_ == RowOp::Exp ? shift : nullptr, y);
        if (kind_ == ReduceKind::Sum || kind_ == ReduceKind::Max || kind_ == ReduceKind::Min) return;
        // The divisor is exact: the quotient is that of f64.
        if (kind_ == ReduceKind::Mean && shape_.reduced_count <= int64_t{1} << 24)
            return functions_.divide(y, count, static_cast<T>(shape_.reduced_count));
        for (int64_t i = 0; i < count; ++i) y[i] = finish(static_cast<double>(y[i]), op_ == RowOp::Exp ? shift[i] : 0);
    }
    void columns(T const* x, T* y, int64_t count) const {
        auto levels = static_cast<int>(runs_.size());
        several(
            [&](RowOp op, T const* shift, T* to) {
                if (folds_)
                    folded_columns(op, x, count, shift, to);
                else
                    functions_.columns(op, x, count, runs_.data(), levels, shift, to);
            },
            y, count);
    }
    /// Few columns whose rows are behind each other: several rows make one, of which each column is a number of
    /// columns.
    void folded_columns(RowOp op, T const* x, int64_t count, T const* shift, T* y) const {
        T shifts[kMostTogether], parts[2 * kMostTogether];
        auto rows = runs_.back().size, wide = folds_ * count;
        for (int64_t i = 0; shift && i < wide; ++i) shifts[i] = shift[i % count];
        auto runs = runs_;
        runs.back() = {rows / folds_, wide};
        auto levels = static_cast<int>(runs.size());
        functions_.columns(op, x, wide, runs.data(), levels, shift ? shifts : nullptr, parts);
        auto joined = folds_;
        if (rows % folds_) {
            runs.back() = {rows % folds_, count};
            functions_.columns(op, x + rows / folds_ * wide, count, runs.data(), levels, shift, parts + wide);
            ++joined;
        }
        RowRun const run{joined, count};
        auto then = op == RowOp::Max || op == RowOp::Min || op == RowOp::Prod ? op : RowOp::Sum;
        functions_.columns(then, parts, count, &run, 1, nullptr, y);
    }
    void short_rows(T const* x, T* y, int64_t count) const {
        several([&](RowOp op, T const* shift,
                    T* to) { functions_.short_rows(op, x, count, shape_.reduced_count, shift, to); },
                y, count);
    }
    /// Rows behind each other, too short to be worth a call each.
    bool has_short_rows() const {
        return shape_.reduces_last && shape_.reduced.size() == 1 && shape_.kept.size() == 1 &&
               shape_.kept[0].stride == shape_.reduced_count && shape_.reduced_count <= kShortRow;
    }
    int64_t base_of(int64_t index, size_t levels) const {
        if (levels == 1) return index * shape_.kept[0].stride;
        int64_t offset = 0;
        for (auto i = levels; i-- > 0; index /= shape_.kept[i].size)
            offset += index % shape_.kept[i].size * shape_.kept[i].stride;
        return offset;
    }

public:
    static std::string why_not(ReduceInfo const&, BindArgs const&) { return {}; }
    ReduceRows(RowFunctionsOf<T> const& functions, ReduceInfo const& info, BindArgs const& args)
        : functions_(functions), kind_(info.kind), op_(op_of(info.kind)), shape_(args.inputs[0]->dims, info.axes) {
        for (auto const& run : shape_.reduced) runs_.push_back({run.size, run.stride});
        auto ns = static_cast<double>(shape_.reduced_count) * kNsPerElement;
        if (!shape_.reduces_last) {
            inner_ = shape_.kept.back().size,
            step_ = shape_.reduced_count < kManyRows ? 4 * functions.width : functions.together;
            bool behind = !runs_.empty() && runs_.back().stride == inner_;
            if (behind && 2 * inner_ <= step_ && runs_.back().size >= 2 * (step_ / inner_)) folds_ = step_ / inner_;
        } else if (has_short_rows()) {
            inner_ = shape_.kept_count, step_ = kMostTogether;
        } else if (runs_.size() == 1 && op_ != RowOp::Exp && shape_.kept_count < args.threads &&
                   shape_.reduced_count > kSumLength) {
            segments_ = (shape_.reduced_count + kSumLength - 1) / kSumLength;
            chunks_ =
                chunks_of(shape_.kept_count * segments_, static_cast<double>(kSumLength) * kNsPerElement, args.threads);
            return;
        }
        blocks_ = (inner_ + step_ - 1) / step_, ns *= static_cast<double>(step_);
        chunks_ = inner_ ? chunks_of(shape_.kept_count / inner_ * blocks_, ns, args.threads) : 1;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<T const*>(arguments[0]);
        auto* y = static_cast<T*>(arguments[1]);
        if (shape_.kept_count == 0) return;
        if (segments_) return run_segments(x, y, context);
        auto all = shape_.kept_count / inner_ * blocks_;
        auto levels = shape_.kept.size();
        context.pool.parallel_for(chunks_, [&](int64_t c, int) {
            for (auto i = all * c / chunks_; i < all * (c + 1) / chunks_; ++i) {
                auto first = i % blocks_ * step_, outer = i / blocks_, count = std::min(step_, inner_ - first);
                if (!shape_.reduces_last)
                    columns(x + base_of(outer, levels - 1) + first, y + outer * inner_ + first, count);
                else if (step_ > 1)
                    short_rows(x + first * shape_.reduced_count, y + first, count);
                else
                    y[i] = whole_row(x + base_of(i, levels));
            }
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(shape_.kept_count * segments_) * sizeof(double);
    }
    double operations() const override {
        return static_cast<double>(shape_.kept_count) * static_cast<double>(shape_.reduced_count);
    }
};

}  // namespace

MaybeKernel make_reduce_rows(ReduceInfo const& info, Request const& request) {
    return make_row_kernel<ReduceInfo, ReduceRows>("reduce", info, request, kNsPerElement);
}

}  // namespace refactor::kernel
