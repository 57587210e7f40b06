#pragma once
#include "conv/geometry.h"

namespace refactor::kernel {

/// Taps [first, end) of an axis.
struct TapRange {
    int64_t first = 0, end = 0;

    /// Those that read the input at output `o`.
    static TapRange at(Geometry const&, int axis, int64_t o);
    int64_t count() const { return end - first; }
    bool operator==(TapRange const&) const = default;
};

/// The shortest run of (depth, height) taps that holds all that read the input at a plane and row of outputs.
struct TapRun {
    int64_t first = 0, count = 0;

    TapRun(Geometry const&, int64_t plane, int64_t row);
    bool operator==(TapRun const&) const = default;
};

/// Columns [first, end) of outputs at which the same taps of a row of the window read the input.
struct ColumnRun {
    int64_t first = 0, end = 0;
    TapRange taps;
};
SmallVector<ColumnRun, 4> column_runs(Geometry const&);

/// Of the products of all windows, those that remain where rows and planes leave out what reads padding.
double share_of_rows(Geometry const&);
/// The same of columns, in time: runs of few columns take as long as those that keep the registers busy.
double share_of_columns(Geometry const&);

}  // namespace refactor::kernel
