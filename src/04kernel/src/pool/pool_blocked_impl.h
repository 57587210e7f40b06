#pragma once
#include "conv/window_impl.h"
#include "pool/pool_blocked.h"
#include "pool/pool_maximum.h"
#include "pool/pool_separable_impl.h"
#include "pool/pool_strips_impl.h"

namespace refactor::kernel {
namespace {

constexpr int kPositions = W == 16 ? 14 : 8;

struct Positions {
    float const* x;
    int64_t x_step, planes, rows, cols, x_plane, x_row, x_col;
    float* y;
    int64_t y_step;
    float scale;
};

template <bool Maximum, int Q>
[[gnu::noinline]] void strip(Positions const& s) {
    Vec acc[Q];
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) acc[q] = Maximum ? Vec::set(-kInf) : Vec::zero();
    int64_t const step = s.x_step;
    for (int64_t d = 0; d < s.planes; ++d)
        for (int64_t h = 0; h < s.rows; ++h) {
            float const* x = s.x + d * s.x_plane + h * s.x_row;
            for (int64_t v = 0; v < s.cols; ++v, x += s.x_col) {
                float const* p = x;
#pragma GCC unroll 14
                for (int q = 0; q < Q; ++q, p += step) {
                    Vec value = Vec::load(p);
                    acc[q] = Maximum ? maximum(acc[q], value) : acc[q] + value;
                }
            }
        }
    Vec const scale = Vec::set(s.scale);
    float* const y = s.y;
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
int64_t counted(PoolJob const& j, int64_t row, int64_t col, Part const& rows, Part const& cols) {
    if (!j.count_padding) return (rows.end - rows.first) * (cols.end - cols.first);
    Part all_rows(row * j.row_stride, j.row_dilation, j.kernel_rows, j.in_rows + j.row_pad + j.row_pad_end);
    Part all_cols(col * j.col_stride, j.col_dilation, j.kernel_cols, j.in_cols + j.col_pad + j.col_pad_end);
    return (all_rows.end - all_rows.first) * (all_cols.end - all_cols.first);
}

void run_strip(PoolJob const& j, int64_t row, int64_t col, int64_t count, bool down) {
    Part rows(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    Part cols(col * j.col_stride - j.col_pad, j.col_dilation, j.kernel_cols, j.in_cols);
    int64_t in_row = row * j.row_stride - j.row_pad + rows.first * j.row_dilation;
    int64_t in_col = col * j.col_stride - j.col_pad + cols.first * j.col_dilation;
    int64_t divisor = j.counted_planes * counted(j, row, col, rows, cols);
    Positions s{j.x + (in_row * j.in_cols + in_col) * W,
                (down ? j.row_stride * j.in_cols : j.col_stride) * W,
                j.planes,
                rows.end - rows.first,
                cols.end - cols.first,
                j.plane_step,
                j.row_dilation * j.in_cols * W,
                j.col_dilation * W,
                j.y + (row * j.out_cols + col) * W,
                (down ? j.out_cols : 1) * W,
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

void run_rows(PoolJob const& j) {
    Outputs rows = inner(j.in_rows, j.row_end, j.kernel_rows, j.row_stride, j.row_dilation, j.row_pad);
    Outputs cols = inner(j.in_cols, j.out_cols, j.kernel_cols, j.col_stride, j.col_dilation, j.col_pad);
    walk(j.row, j.row_end, j.out_cols, rows, cols,
         [&](int64_t row, int64_t col, int64_t count, bool down) { run_strip(j, row, col, count, down); });
}

/// Reduces `count` whole vectors, with four chains to hide the latency. They are joined now and then: the rounding of a
/// sum grows with the additions in a row.
template <bool Maximum>
Vec reduce(float const* x, int64_t count) {
    constexpr int64_t kTogether = 256;
    Vec const start = Maximum ? Vec::set(-kInf) : Vec::zero();
    Vec total = start;
    auto add = [](Vec& a, Vec b) { a = Maximum ? maximum(a, b) : a + b; };
    for (int64_t i = 0; i < count;) {
        Vec acc[4] = {start, start, start, start};
        auto end = count - i < kTogether ? count : i + kTogether;
        for (; i + 4 <= end; i += 4)
            for (int k = 0; k < 4; ++k) add(acc[k], Vec::load(x + (i + k) * W));
        for (; i < end; ++i) add(acc[0], Vec::load(x + i * W));
        for (int k = 1; k < 4; ++k) add(acc[0], acc[k]);
        add(total, acc[0]);
    }
    return total;
}

void whole_blocked(GlobalPoolJob const& j) {
    if (j.maximum) return reduce<true>(j.x, j.positions).store(j.y);
    (reduce<false>(j.x, j.positions) / Vec::set(static_cast<float>(j.positions))).store(j.y);
}

void whole_plain(GlobalPoolJob const& j) {
    int64_t count = j.positions / W;
    int left = static_cast<int>(j.positions - count * W);
    Vec rest = Vec::load_first(j.x + count * W, left);
    if (!j.maximum) {
        *j.y = sum(reduce<false>(j.x, count) + rest) / static_cast<float>(j.positions);
        return;
    }
    Vec best = maximum(reduce<true>(j.x, count), select(first_lanes(left), rest, Vec::set(-kInf)));
    *j.y = any(is_nan(best)) ? __builtin_nanf("") : max_of(best);
}

constexpr PoolIsa kPoolIsa{W, run_rows, separable, strips, whole_blocked, whole_plain};

}  // namespace
}  // namespace refactor::kernel
