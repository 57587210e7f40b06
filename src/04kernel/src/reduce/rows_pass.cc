#include "reduce/rows_pass.h"

#include "common/thread_pool.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 0.15;
/// Elements whose sum is taken at once; those sums are added in f64.
constexpr int64_t kSumLength = 8192;
/// Columns, or short rows, of one call: eight vectors of AVX-512.
constexpr int64_t kMostTogether = 128;
/// From here on the rows of a column are worth runs of 512 bytes; fewer are done before the next run is fetched ahead.
constexpr int64_t kManyRows = 32;
/// A call for a row costs about 20 ns, as much as this many elements from L1.
constexpr int64_t kShortRow = 256;
/// Rows of a set whose sums do not round more than others.
constexpr int64_t kRowsOfSet = 1024;

/// Elements that are copied at once.
constexpr int64_t kCopied = 8192;

double nothing_of(RowOp op) {
    return op == RowOp::Max ? -INFINITY : op == RowOp::Min ? INFINITY : op == RowOp::Prod ? 1 : 0;
}
double join(RowOp op, double a, double b) {
    if (op == RowOp::Max) return a != a || b < a ? a : b;
    if (op == RowOp::Min) return a != a || b > a ? a : b;
    return op == RowOp::Prod ? a * b : a + b;
}

/// Whether a single element is left as it is.
bool is_kept(RowsStep const& step) {
    bool is_mapped = step.op == RowOp::Abs || step.op == RowOp::Square;
    return !is_mapped && step.kind != ReduceKind::L2 && step.kind != ReduceKind::LogSum;
}

}  // namespace

template <class T>
RowsPass<T>::RowsPass(RowFunctionsOf<T> const& functions, RowsStep step, ReduceShape shape, int threads)
    : functions_(functions), step_(step), shape_(std::move(shape)) {
    for (auto const& run : shape_.reduced) runs_.push_back({run.size, run.stride});
    if (!shape_.reduces_last) inner_ = shape_.kept.back().size;
    way_ = way_of(threads);
    choose_step(threads);
}

template <class T>
typename RowsPass<T>::Way RowsPass<T>::way_of(int threads) const {
    auto size = shape_.reduced_count;
    if (size == 1 && is_kept(step_)) return Way::Copy;
    bool one_run = runs_.size() == 1 && size > 0, behind = one_run && runs_[0].stride == inner_;
    if (!shape_.reduces_last) {
        // A set is all there is between two of its columns.
        bool sets = behind && shape_.kept.size() <= 2 && shape_.kept_count > inner_;
        if (sets && 2 * inner_ <= functions_.width && size * inner_ <= kShortRow &&
            shape_.kept_count / inner_ >= functions_.width)
            return Way::Turned;
        if (sets && 2 * inner_ > functions_.width && inner_ <= 2 * functions_.width && size <= kRowsOfSet)
            return Way::Sets;
        return Way::Columns;
    }
    if (one_run && shape_.kept.size() == 1 && shape_.kept[0].stride == size && size <= kShortRow) return Way::Rows;
    if (one_run && step_.op != RowOp::Exp && shape_.kept_count < threads && size > kSumLength) return Way::Segments;
    return Way::Row;
}

template <class T>
void RowsPass<T>::choose_step(int threads) {
    auto size = shape_.reduced_count, sets = inner_ ? shape_.kept_count / inner_ : 0;
    auto ns = static_cast<double>(size) * kNsPerElement;
    auto share = [&](int64_t items, int64_t together, double ns_of_one) {
        together_ = together;
        blocks_ = (items + together - 1) / together;
        chunks_ = chunks_of(way_ == Way::Columns ? sets * blocks_ : blocks_,
                            static_cast<double>(std::min(items, together)) * ns_of_one, threads);
    };
    switch (way_) {
        case Way::Columns: {
            auto together = size < kManyRows ? 4 * functions_.width : functions_.together;
            bool behind = !runs_.empty() && runs_.back().stride == inner_;
            if (behind && 2 * inner_ <= together && runs_.back().size >= 2 * (together / inner_))
                folds_ = together / inner_;
            return share(inner_, together, ns);
        }
        case Way::Sets:
            return share(sets, std::max<int64_t>(1, kMostTogether / inner_), static_cast<double>(inner_) * ns);
        case Way::Turned:
            sets_ = {size * inner_, inner_, sizeof(T), sizeof(T),
                     functions_.width * sizeof(T) == 64 ? Isa::Avx512 : Isa::Avx2};
            return share(sets, sets_.most(), static_cast<double>(inner_) * ns);
        case Way::Rows:
            return share(shape_.kept_count, kMostTogether, ns);
        case Way::Row:
            return share(shape_.kept_count, 1, ns);
        case Way::Copy:
            return share(shape_.kept_count, kCopied, ns);
        case Way::Segments:
            segments_ = (size + kSumLength - 1) / kSumLength;
            return share(shape_.kept_count * segments_, 1, static_cast<double>(kSumLength) * kNsPerElement);
    }
}

template <class T>
T RowsPass<T>::finish(double total, T shift) const {
    switch (step_.kind) {
        case ReduceKind::Mean:
            return static_cast<T>(total / static_cast<double>(step_.count));
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

/// Combines all reduced elements from `x` on where the innermost run is contiguous.
template <class T>
double RowsPass<T>::row(RowOp op, T const* x, size_t level, T shift) const {
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
template <class T>
double RowsPass<T>::segment(RowOp op, T const* x, int64_t first, int64_t size, T shift) const {
    return static_cast<double>(functions_.partial(op, x + first, std::min(kSumLength, size - first), shift));
}
/// Fewer rows than threads: their segments are shared, and joined in the order of one thread.
template <class T>
void RowsPass<T>::run_segments(T const* x, T* y, runtime::RunContext const& context, std::byte* workspace) const {
    auto* totals = reinterpret_cast<double*>(workspace);
    auto all = shape_.kept_count * segments_;
    auto levels = shape_.kept.size();
    context.pool.parallel_for(chunks_, [&](int64_t c, int) {
        for (auto i = all * c / chunks_; i < all * (c + 1) / chunks_; ++i)
            totals[i] = segment(step_.op, x + base_of(i / segments_, levels), i % segments_ * kSumLength,
                                shape_.reduced_count, 0);
    });
    for (int64_t row = 0; row < shape_.kept_count; ++row, totals += segments_) {
        auto total = nothing_of(step_.op);
        for (int64_t i = 0; i < segments_; ++i) total = join(step_.op, total, totals[i]);
        y[row] = finish(total, 0);
    }
}
template <class T>
T RowsPass<T>::whole_row(T const* x) const {
    T shift = 0;
    if (step_.op == RowOp::Exp) {
        shift = static_cast<T>(row(RowOp::Max, x, 0, 0));
        if (!std::isfinite(shift)) shift = 0;
    }
    return finish(row(step_.op, x, 0, shift), shift);
}

/// `combine(op, shift, y)` gives `count` ≤ kMostTogether values, one for each row or column.
template <class T>
template <class Combine>
void RowsPass<T>::several(Combine combine, T* y, int64_t count) const {
    T shift[kMostTogether];
    auto const* shifts = step_.op == RowOp::Exp ? shift : nullptr;
    if (shifts) {
        combine(RowOp::Max, nullptr, shift);
        for (int64_t i = 0; i < count; ++i)
            if (!std::isfinite(shift[i])) shift[i] = 0;
    }
    combine(step_.op, shifts, y);
    switch (step_.kind) {
        case ReduceKind::Mean:
            // The divisor is exact: the quotient is that of f64.
            if (step_.count <= int64_t{1} << 24)
                return functions_.finish(RowEnd::Divide, y, count, static_cast<T>(step_.count), nullptr);
            for (int64_t i = 0; i < count; ++i) y[i] = finish(static_cast<double>(y[i]), 0);
            return;
        case ReduceKind::L2:
            return functions_.finish(RowEnd::Root, y, count, 1, nullptr);
        case ReduceKind::LogSum:
        case ReduceKind::LogSumExp:
            return functions_.finish(RowEnd::Log, y, count, 1, shifts);
        default:
            return;
    }
}
template <class T>
void RowsPass<T>::columns(T const* x, T* y, int64_t count) const {
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
/// Few columns whose rows are behind each other: several rows make one, of which each column is a number of columns.
template <class T>
void RowsPass<T>::folded_columns(RowOp op, T const* x, int64_t count, T const* shift, T* y) const {
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
template <class T>
void RowsPass<T>::turned(T const* x, T* y, int64_t sets, std::byte* scratch) const {
    auto* turned = reinterpret_cast<T*>(scratch);
    auto* results = reinterpret_cast<T*>(scratch + sets_.turned_bytes());
    sets_.turn(x, sets, turned);
    auto const wide = inner_ * sets;
    RowRun const run{shape_.reduced_count, wide};
    for (int64_t i = 0; i < wide; i += functions_.together) {
        auto count = std::min<int64_t>(functions_.together, wide - i);
        several([&](RowOp op, T const* shift, T* to) { functions_.columns(op, turned + i, count, &run, 1, shift, to); },
                results + i, count);
    }
    sets_.turn_back(results, sets, y);
}

template <class T>
int64_t RowsPass<T>::base_of(int64_t index, size_t levels) const {
    if (levels == 1) return index * shape_.kept[0].stride;
    int64_t offset = 0;
    for (auto i = levels; i-- > 0; index /= shape_.kept[i].size)
        offset += index % shape_.kept[i].size * shape_.kept[i].stride;
    return offset;
}

template <class T>
void RowsPass<T>::block(T const* x, T* y, int64_t index, std::byte* scratch) const {
    auto size = shape_.reduced_count, first = index * together_, levels = static_cast<int64_t>(shape_.kept.size());
    if (way_ == Way::Row) {
        y[index] = whole_row(x + base_of(index, shape_.kept.size()));
    } else if (way_ == Way::Columns) {
        auto outer = index / blocks_, column = index % blocks_ * together_;
        columns(x + base_of(outer, static_cast<size_t>(levels - 1)) + column, y + outer * inner_ + column,
                std::min(together_, inner_ - column));
    } else if (way_ == Way::Copy) {
        std::copy_n(x + first, std::min(together_, shape_.kept_count - first), y + first);
    } else if (way_ == Way::Rows) {
        auto count = std::min(together_, shape_.kept_count - first);
        several([&](RowOp op, T const* shift,
                    T* to) { functions_.short_rows(op, x + first * size, count, size, shift, to); },
                y + first, count);
    } else {
        auto sets = std::min(together_, shape_.kept_count / inner_ - first);
        auto const* from = x + first * size * inner_;
        auto* to = y + first * inner_;
        if (way_ == Way::Turned) return turned(from, to, sets, scratch);
        several(
            [&](RowOp op, T const* shift, T* out) { functions_.column_sets(op, from, sets, size, inner_, shift, out); },
            to, sets * inner_);
    }
}

template <class T>
void RowsPass<T>::run(T const* x, T* y, runtime::RunContext const& context, std::byte* workspace) const {
    if (shape_.kept_count == 0) return;
    if (way_ == Way::Segments) return run_segments(x, y, context, workspace);
    auto all = way_ == Way::Columns ? shape_.kept_count / inner_ * blocks_ : blocks_;
    context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
        auto* scratch = way_ == Way::Turned ? context.scratch_of(worker) : nullptr;
        for (auto i = all * c / chunks_; i < all * (c + 1) / chunks_; ++i) block(x, y, i, scratch);
    });
}

template class RowsPass<float>;
template class RowsPass<double>;

}  // namespace refactor::kernel
