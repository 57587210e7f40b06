#pragma once
#include <cstdint>

// Walks the outputs of a window over a zero-padded plane in strips that all see the same part of the window.

namespace refactor::kernel {
namespace {

/// Taps [first, end) of a window at `start` (may be negative) that fall inside [0, size).
struct Part {
    int64_t first, end;
    Part(int64_t start, int64_t dilation, int64_t taps, int64_t size) {
        first = start < 0 ? (-start + dilation - 1) / dilation : 0;
        end = start >= size ? 0 : (size - 1 - start) / dilation + 1;
        if (end > taps) end = taps;
        if (first > end) first = end;
    }
};

struct Outputs {
    int64_t first, end;
};
/// Outputs of one axis whose window lies inside the input.
[[maybe_unused]] Outputs inner(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
    int64_t first = (pad + stride - 1) / stride, last = in + pad - (kernel - 1) * dilation - 1;
    int64_t end = last < 0 ? 0 : last / stride + 1;
    if (first > out) first = out;
    if (end > out) end = out;
    return {first, end < first ? first : end};
}

/// Calls `strip(row, col, count, down)` for the outputs [row, row_end) × [0, out_cols): along rows where all columns of
/// the window are inside, and down the columns at the left and right edges.
template <class F>
void walk(int64_t row_first, int64_t row_end, int64_t out_cols, Outputs rows, Outputs cols, F&& strip) {
    if (rows.first < row_first) rows.first = row_first;
    if (rows.end < rows.first) rows.end = rows.first;
    for (int64_t row = row_first; row < row_end; ++row) {
        if (cols.end > cols.first) strip(row, cols.first, cols.end - cols.first, false);
        if (row >= rows.first && row < rows.end) continue;
        for (int64_t col = 0; col < cols.first; ++col) strip(row, col, 1, false);
        for (int64_t col = cols.end; col < out_cols; ++col) strip(row, col, 1, false);
    }
    if (rows.end == rows.first) return;
    for (int64_t col = 0; col < cols.first; ++col) strip(rows.first, col, rows.end - rows.first, true);
    for (int64_t col = cols.end; col < out_cols; ++col) strip(rows.first, col, rows.end - rows.first, true);
}

}  // namespace
}  // namespace refactor::kernel
