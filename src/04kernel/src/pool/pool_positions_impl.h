#pragma once
#include "conv/window_impl.h"
#include "pool/pool_blocked.h"
#include "pool/pool_maximum.h"
#include "pool/pool_window.h"

// Windows over blocks of channels, a few positions at a time, and whole planes of them. Include a `simd/lanes_*.h`
// first.

namespace refactor::kernel {
namespace {

using BlockJob = PoolJobOf<Stored>;
constexpr int kLanes = Lanes::width;
/// What is reduced in registers: of bf16, two vectors each.
constexpr int kPositions = kRounds ? 12 : W == 16 ? 14 : 8;

/// Sum, or maximum, of vectors.
template <bool Maximum>
RG_SIMD Lanes both(Lanes a, Lanes b) {
    if constexpr (Maximum)
        return each_vector(a, b, [](Vec x, Vec y) __attribute__((always_inline)) { return maximum(x, y); });
    else
        return a + b;
}
template <bool Maximum>
RG_SIMD Lanes none() {
    return Maximum ? Lanes::set(-kInf) : Lanes::zero();
}

struct Positions {
    Stored const* x;
    int64_t x_step, planes, rows, cols, x_plane, x_row, x_col;
    Stored* y;
    int64_t y_step;
    float scale;
};

template <bool Maximum, int Q>
[[gnu::noinline]] void strip(Positions const& s) {
    Lanes acc[Q];
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) acc[q] = none<Maximum>();
    int64_t const step = s.x_step;
    for (int64_t d = 0; d < s.planes; ++d)
        for (int64_t h = 0; h < s.rows; ++h) {
            Stored const* x = s.x + d * s.x_plane + h * s.x_row;
            for (int64_t v = 0; v < s.cols; ++v, x += s.x_col) {
                Stored const* p = x;
#pragma GCC unroll 14
                for (int q = 0; q < Q; ++q, p += step) acc[q] = both<Maximum>(acc[q], Lanes::load(p));
            }
        }
    Vec const scale = Vec::set(s.scale);
    Stored* const y = s.y;
    int64_t const y_step = s.y_step;
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) (Maximum ? acc[q] : acc[q] * scale).store(y + q * y_step);
}

using StripFunction = void (*)(Positions const&);
template <bool Maximum, int... q>
struct Strips {
    static constexpr StripFunction table[] = {nullptr, strip<Maximum, q + 1>...};
};
template <bool Maximum, int N, int... q>
struct MakeStrips : MakeStrips<Maximum, N - 1, N - 1, q...> {};
template <bool Maximum, int... q>
struct MakeStrips<Maximum, 0, q...> : Strips<Maximum, q...> {};

/// Elements of a window at (row, col) that an average counts.
int64_t counted(BlockJob const& j, int64_t row, int64_t col, Part const& rows, Part const& cols) {
    if (!j.count_padding) return (rows.end - rows.first) * (cols.end - cols.first);
    Part all_rows(row * j.row_stride, j.row_dilation, j.kernel_rows, j.in_rows + j.row_pad + j.row_pad_end);
    Part all_cols(col * j.col_stride, j.col_dilation, j.kernel_cols, j.in_cols + j.col_pad + j.col_pad_end);
    return (all_rows.end - all_rows.first) * (all_cols.end - all_cols.first);
}

void run_strip(BlockJob const& j, int64_t row, int64_t col, int64_t count, bool down) {
    Part rows(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    Part cols(col * j.col_stride - j.col_pad, j.col_dilation, j.kernel_cols, j.in_cols);
    int64_t in_row = row * j.row_stride - j.row_pad + rows.first * j.row_dilation;
    int64_t in_col = col * j.col_stride - j.col_pad + cols.first * j.col_dilation;
    int64_t divisor = j.counted_planes * counted(j, row, col, rows, cols);
    Positions s{j.x + (in_row * j.in_cols + in_col) * kLanes,
                (down ? j.row_stride * j.in_cols : j.col_stride) * kLanes,
                j.planes,
                rows.end - rows.first,
                cols.end - cols.first,
                j.plane_step,
                j.row_dilation * j.in_cols * kLanes,
                j.col_dilation * kLanes,
                j.y + (row * j.out_cols + col) * kLanes,
                (down ? j.out_cols : 1) * kLanes,
                j.total       ? 1.f
                : divisor > 0 ? 1.f / static_cast<float>(divisor)
                              : 0.f};
    if (s.cols == 0) s.rows = 0;
    int64_t strips = (count + kPositions - 1) / kPositions;
    for (int64_t t = 0, done = 0; t < strips; ++t) {
        int64_t next = count * (t + 1) / strips, n = next - done;
        (j.maximum ? MakeStrips<true, kPositions>::table[n] : MakeStrips<false, kPositions>::table[n])(s);
        s.x += n * s.x_step, s.y += n * s.y_step, done = next;
    }
}

void run_rows(BlockJob const& j) {
    Outputs rows = inner(j.in_rows, j.row_end, j.kernel_rows, j.row_stride, j.row_dilation, j.row_pad);
    Outputs cols = inner(j.in_cols, j.out_cols, j.kernel_cols, j.col_stride, j.col_dilation, j.col_pad);
    walk(j.row, j.row_end, j.out_cols, rows, cols,
         [&](int64_t row, int64_t col, int64_t count, bool down) { run_strip(j, row, col, count, down); });
}

/// Reduces `count` whole vectors, with four chains to hide the latency. They are joined now and then: the rounding of a
/// sum grows with the additions in a row.
template <bool Maximum>
Lanes reduce(Stored const* x, int64_t count) {
    constexpr int64_t kTogether = 256;
    Lanes const start = none<Maximum>();
    Lanes total = start;
    auto add = [](Lanes& a, Lanes b) { a = both<Maximum>(a, b); };
    for (int64_t i = 0; i < count;) {
        Lanes acc[4] = {start, start, start, start};
        auto end = count - i < kTogether ? count : i + kTogether;
        for (; i + 4 <= end; i += 4)
            for (int k = 0; k < 4; ++k) add(acc[k], Lanes::load(x + (i + k) * kLanes));
        for (; i < end; ++i) add(acc[0], Lanes::load(x + i * kLanes));
        for (int k = 1; k < 4; ++k) add(acc[0], acc[k]);
        add(total, acc[0]);
    }
    return total;
}

}  // namespace
}  // namespace refactor::kernel
