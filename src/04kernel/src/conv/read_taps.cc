#include "conv/read_taps.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Columns of two blocks of channels, of which fewer wait for their own sums: 4 cycles on two ports.
constexpr int64_t kBusyColumns = 4;

/// Outputs [first, end) along an axis all of whose taps read the input.
struct Inner {
    int64_t first, end;

    Inner(Geometry const& g, int axis) {
        auto room = g.in[axis] - 1 - (g.kernel[axis] - 1) * g.dilation[axis] + g.pad[axis];
        first = std::clamp<int64_t>(ceil_div(g.pad[axis], g.stride[axis]), 0, g.out[axis]);
        end = room < 0 ? first : std::clamp(room / g.stride[axis] + 1, first, g.out[axis]);
    }
};

/// Calls `add` with the taps of outputs along an axis and how many have them, in order.
template <class F>
void for_outputs(Geometry const& g, int axis, F&& add) {
    Inner inner(g, axis);
    for (int64_t o = 0; o < inner.first; ++o) add(TapRange::at(g, axis, o), 1);
    if (inner.first < inner.end) add(TapRange{0, g.kernel[axis]}, inner.end - inner.first);
    for (auto o = inner.end; o < g.out[axis]; ++o) add(TapRange::at(g, axis, o), 1);
}

}  // namespace

TapRange TapRange::at(Geometry const& g, int axis, int64_t o) {
    auto start = o * g.stride[axis] - g.pad[axis];
    auto first = start < 0 ? ceil_div(-start, g.dilation[axis]) : 0;
    auto end = start >= g.in[axis] ? 0 : std::min(g.kernel[axis], (g.in[axis] - 1 - start) / g.dilation[axis] + 1);
    return {std::min(first, end), end};
}

TapRun::TapRun(Geometry const& g, int64_t plane, int64_t row) {
    auto d = TapRange::at(g, 0, plane), h = TapRange::at(g, 1, row);
    if (d.first == d.end || h.first == h.end) return;
    first = d.first * g.kernel[1] + h.first;
    count = (d.end - 1) * g.kernel[1] + h.end - first;
}

SmallVector<ColumnRun, 4> column_runs(Geometry const& g) {
    SmallVector<ColumnRun, 4> runs;
    int64_t column = 0;
    for_outputs(g, 2, [&](TapRange const& taps, int64_t count) {
        if (runs.empty() || !(runs.back().taps == taps)) runs.push_back({column, column, taps});
        runs.back().end = column += count;
    });
    return runs;
}

double share_of_rows(Geometry const& g) {
    int64_t rows = 0, of_rows = 0, read = 0;
    for_outputs(g, 1, [&](TapRange const& taps, int64_t count) {
        rows += taps.count() ? count : 0, of_rows += taps.count() * count;
    });
    // As the runs of taps (`TapRun`): rows of the window between the first and the last plane are all read.
    for_outputs(g, 0, [&](TapRange const& taps, int64_t count) {
        if (taps.count()) read += count * ((taps.count() - 1) * g.kernel[1] * rows + of_rows);
    });
    return static_cast<double>(read) / static_cast<double>(g.out[0] * g.out[1] * g.kernel[0] * g.kernel[1]);
}

double share_of_columns(Geometry const& g) {
    int64_t work = 0, all = g.out[2] * g.kernel[2];
    for (auto const& run : column_runs(g)) work += std::max(run.end - run.first, kBusyColumns) * run.taps.count();
    return std::min(1., static_cast<double>(work) / static_cast<double>(all));
}

}  // namespace refactor::kernel
