#pragma once
#include "reduce/reduce.h"
#include "reduce/rows.h"
#include "reduce/turned_sets.h"

namespace refactor::kernel {

/// How elements are combined in a pass and what becomes of the result; `count`: elements of the divisor of a mean.
struct RowsStep {
    RowOp op;
    ReduceKind kind;
    int64_t count;
};

/// Combines reduced elements of T (f32 or f64) in vectors: any runs of axes in one pass over memory.
template <class T>
class RowsPass {
public:
    RowsPass(RowFunctionsOf<T> const& functions, RowsStep step, ReduceShape shape, int threads);
    /// `workspace`: at least `workspace_bytes()`, of all threads.
    void run(T const* x, T* y, runtime::RunContext const& context, std::byte* workspace) const;
    size_t workspace_bytes() const { return static_cast<size_t>(shape_.kept_count * segments_) * sizeof(double); }
    size_t scratch_bytes() const { return way_ == Way::Turned ? sets_.turned_bytes() + sets_.result_bytes() : 0; }

private:
    enum class Way : uint8_t {
        Columns,  ///< kept columns side by side
        Sets,     ///< the same, of a vector or two, set after set
        Turned,   ///< few columns and rows: sets side by side
        Rows,     ///< short rows behind each other
        Row,      ///< one row
        Copy,     ///< there is nothing to combine
        Segments  ///< fewer rows than threads, cut
    };
    Way way_of(int threads) const;
    void choose_step(int threads);
    T finish(double total, T shift) const;
    double row(RowOp op, T const* x, size_t level, T shift) const;
    double segment(RowOp op, T const* x, int64_t first, int64_t size, T shift) const;
    void run_segments(T const* x, T* y, runtime::RunContext const& context, std::byte* workspace) const;
    T whole_row(T const* x) const;
    template <class Combine>
    void several(Combine combine, T* y, int64_t count) const;
    void columns(T const* x, T* y, int64_t count) const;
    void folded_columns(RowOp op, T const* x, int64_t count, T const* shift, T* y) const;
    void turned(T const* x, T* y, int64_t sets, std::byte* scratch) const;
    void block(T const* x, T* y, int64_t index, std::byte* scratch) const;
    int64_t base_of(int64_t index, size_t levels) const;

    RowFunctionsOf<T> const& functions_;
    RowsStep step_;
    ReduceShape shape_;
    SmallVector<RowRun, 8> runs_;  // reduced, outermost first
    Way way_;
    int64_t inner_ = 1;     // kept columns
    int64_t together_ = 1;  // columns, sets or rows of a block
    int64_t blocks_ = 1;    // of each set of columns, or of all
    int64_t folds_ = 0;     // rows that are taken as one; 0: none
    int64_t segments_ = 0;  // of a row, whose sums are taken by any thread
    int64_t chunks_ = 1;
    TurnedSets sets_;
};

}  // namespace refactor::kernel
