#pragma once
#include "conv/store_impl.h"
#include "conv/winograd_parts_impl.h"

namespace refactor::kernel {
namespace {

/// Where the transformed inputs of a tile go, or its products come from, for one unit: of one tile after the other.
template <int inputs, int outputs, int stride>
class Streams {
    static constexpr bool kStrided = stride > 1;
    float* first_;
    int64_t step_, at_ = 0;
    float* each_[kStrided ? inputs * inputs : 1];

public:
    RG_SIMD Streams(WinogradJob const& j, int64_t unit) : step_(j.product_stride) {
        first_ = j.transformed + unit * j.tiles * W;
        if constexpr (kStrided) {
            constexpr int odd = outputs + 1, filters = odd + 1;
            for (int i = 0; i < inputs * inputs; ++i) {
                int r = i / inputs, c = i % inputs, row = r < odd ? 0 : r - odd, column = c < odd ? 0 : c - odd;
                int across = c < odd ? 1 : outputs, sharing = (r < odd ? 1 : outputs) * across;
                int64_t product = (r < odd ? r : odd) * filters + (c < odd ? c : odd);
                each_[i] = j.transformed + j.products[product] + (unit * sharing + row * across + column) * j.tiles * W;
            }
        }
    }
    RG_SIMD float* of(int r, int c) const {
        if constexpr (kStrided) return each_[r * inputs + c] + at_;
        return first_ + (r * inputs + c) * step_;
    }
    RG_SIMD void next(int64_t tiles = 1) {
        if constexpr (kStrided)
            at_ += tiles * W;
        else
            first_ += tiles * W;
    }
};

/// Tiles of `outputs` × `outputs` from `inputs` × `inputs` by kernels of `taps` × `taps`.
template <int outputs, int stride, int taps>
struct Planes {
    static constexpr int inputs = stride * (outputs - 1) + taps;
    using Stream = Streams<inputs, outputs, stride>;

    /// Tiles side by side that share the transformed columns: as many as half of L1 holds beside the rows of X.
    /// Neighbours share `kShared` rows or columns of it.
    static constexpr int kStep = stride * outputs, kShared = inputs > kStep ? inputs - kStep : 0;
    static constexpr int kRunFloats = 2048;
    static constexpr int kRun = (kRunFloats / (inputs * W) - inputs) / kStep + 1;
    static constexpr int kColumns = (kRun - 1) * kStep + inputs;

    /// Rows of the input under a tile, from column `col` on.
    struct Rows {
        float const* x[inputs];
        int present = 0;           ///< bit r: row r lies inside the plane
        int64_t first, end, step;  ///< columns [first, end) lie inside; floats between them
        int64_t ahead;             ///< floats to the same row of the tiles below; 0: these are not asked for

        RG_SIMD Rows(WinogradJob const& j, float const* plane, int64_t row, int64_t col, int64_t columns) {
            int64_t const dilation = j.in_cols_apart;
            step = dilation * W;
            first = col < 0 ? (-col + dilation - 1) / dilation : 0;
            end = col < j.in_cols ? (j.in_cols - 1 - col) / dilation + 1 : 0;
            if (end > columns) end = columns;
            if (first > end) first = end;
            ahead = j.far ? kStep * j.in_rows_apart * j.in_cols * W : 0;
            for (int r = 0; r < inputs; ++r) {
                int64_t y = row + r * j.in_rows_apart;
                bool const inside = y >= 0 && y < j.in_rows;
                present |= inside << r;
                x[r] = plane + ((inside ? y : 0) * j.in_cols + col) * W;
            }
        }
    };

    /// Transforms columns [first, end), [column][row].
    template <bool Whole>
    RG_SIMD static void transform_columns(Rows const& rows, float* to) {
        int64_t const step = rows.step;
        int const present = rows.present;
        float const* x[inputs];
#pragma GCC unroll 9
        for (int r = 0; r < inputs; ++r) x[r] = rows.x[r];
        int64_t const ahead = rows.ahead;
        for (int64_t i = rows.first, end = rows.end; i < end; ++i) {
            if (ahead) {
#pragma GCC unroll 9
                for (int r = kShared; r < inputs; ++r) __builtin_prefetch(x[r] + i * step + ahead);
            }
            Vec d[inputs], t[inputs];
#pragma GCC unroll 9
            for (int r = 0; r < inputs; ++r)
                d[r] = held(Whole || present >> r & 1 ? Vec::load(x[r] + i * step) : Vec::zero());
            input_1d(d, t);
#pragma GCC unroll 9
            for (int r = 0; r < inputs; ++r) t[r].store(to + (i * inputs + r) * W);
        }
    }

    /// Transforms `n` tiles side by side: first down the columns, once for all tiles that read them, then along rows.
    static void transform_run(Rows const& rows, int64_t n, Stream const& v) {
        alignas(64) float columns[kColumns * inputs * W];
        int64_t const count = (n - 1) * kStep + inputs;
        for (int64_t i = 0; i < rows.first * inputs; ++i) Vec::zero().store(columns + i * W);
        if (rows.present == (1 << inputs) - 1)
            transform_columns<true>(rows, columns);
        else
            transform_columns<false>(rows, columns);
        for (int64_t i = rows.end * inputs; i < count * inputs; ++i) Vec::zero().store(columns + i * W);
#pragma GCC unroll 1
        for (int r = 0; r < inputs; ++r) {
            float* to[inputs];
#pragma GCC unroll 9
            for (int c = 0; c < inputs; ++c) to[c] = v.of(r, c);
            float const* from = columns + r * W;
#pragma GCC unroll 1
            for (int64_t t = 0; t < n * W; t += W, from += kStep * inputs * W) {
                Vec d[inputs], u[inputs];
#pragma GCC unroll 9
                for (int c = 0; c < inputs; ++c) d[c] = held(Vec::load(from + c * inputs * W));
                input_1d(d, u);
#pragma GCC unroll 9
                for (int c = 0; c < inputs; ++c) u[c].store(to[c] + t);
            }
        }
    }

    static void input(WinogradJob const& j) {
        for (int64_t u = j.first_unit; u < j.end_unit; ++u) {
            Place at(j, j.first_tile);
            int64_t const b = u % j.blocks, source = u / j.blocks, piece = source % j.pieces;
            int64_t const depth = source / j.pieces * j.plane_dilation - j.plane_pad;
            int64_t const row_shift = piece / j.pieces_across * j.piece_rows - j.row_pad;
            int64_t const col_shift = piece % j.pieces_across * j.piece_cols - j.col_pad;
            Stream v(j, u);
            for (int64_t t = 0, n; t < j.tiles; t += n, v.next(n), at.next(j, n)) {
                n = j.phase_cols - at.col % j.phase_cols;
                if (n > kRun) n = kRun;
                if (n > j.tiles - t) n = j.tiles - t;
                int64_t z = at.plane * j.plane_stride + depth;
                if (z < 0 || z >= j.in_planes) {
                    for (int p = 0; p < inputs * inputs; ++p)
                        for (int64_t i = 0; i < n; ++i) Vec::zero().store(v.of(p / inputs, p % inputs) + i * W);
                    continue;
                }
                float const* plane =
                    j.x + ((at.image * j.image_blocks + b) * j.in_planes + z) * j.in_rows * j.in_cols * W;
                int64_t row = stride * j.step * first_of<outputs>(at.row, j.phase_rows, j.row_dilation) + row_shift;
                int64_t col = stride * j.step * first_of<outputs>(at.col, j.phase_cols, j.col_dilation) + col_shift;
                transform_run(Rows(j, plane, row, col, (n - 1) * kStep + inputs), n, v);
            }
        }
    }

    /// What comes behind the sums of a job.
    struct After {
        Range range;
        Mask mask;
        Vec bias;
        float const *before, *after;  ///< residual in front of or behind the activation, addressed as y

        RG_SIMD After(WinogradJob const& j, int64_t b, int lanes)
            : range(simple(j.activation.kind) ? j.activation : Activation{}),
              mask(first_lanes(lanes)),
              bias(j.bias ? Vec::load_first(j.bias + b * W, lanes) : Vec::zero()),
              before(j.residual_last ? nullptr : j.residual),
              after(j.residual_last && simple(j.activation.kind) ? j.residual : nullptr) {}
    };
    struct Target {
        float* y;
        int64_t offset, row_step, step;
        Inside<outputs> rows, cols;
    };

    /// Transforms along columns, to [row][column].
    RG_SIMD static void output_columns(Stream const& m, Vec bias, float* half) {
#pragma GCC unroll 1
        for (int c = 0; c < inputs; ++c, half += W) {
            Vec d[inputs], y[outputs];
#pragma GCC unroll 9
            for (int r = 0; r < inputs; ++r) d[r] = held(Vec::load(m.of(r, c)));
            // The product of the point 1 along both axes is part of every output once.
            if (c == 1) d[1] = d[1] + bias;
            output_1d(d, y);
#pragma GCC unroll 9
            for (int r = 0; r < outputs; ++r) y[r].store(half + r * inputs * W);
        }
    }

    template <bool Whole, class Result>
    RG_SIMD static void output_rows(float const* half, Target const& to, Mask mask, Result&& result) {
        int64_t const first_row = Whole ? 0 : to.rows.begin, rows = Whole ? outputs : to.rows.end;
        int64_t const first_col = Whole ? 0 : to.cols.begin, cols = Whole ? outputs : to.cols.end;
        int64_t const step = to.step, row_step = to.row_step;
        int64_t at = to.offset + first_row * row_step;
        float* const out = to.y;
        half += first_row * inputs * W;
#pragma GCC unroll 1
        for (int64_t r = first_row; r < rows; ++r, half += inputs * W, at += row_step) {
            Vec d[inputs], y[outputs];
#pragma GCC unroll 9
            for (int c = 0; c < inputs; ++c) d[c] = held(Vec::load(half + c * W));
            output_1d(d, y);
#pragma GCC unroll 9
            for (int c = 0; c < outputs; ++c) {
                if (!Whole && (c < first_col || c >= cols)) continue;
                select(mask, result(y[c], at + c * step), Vec::zero()).store(out + at + c * step);
            }
        }
    }

    RG_SIMD static void output_tile(float const* half, Target const& to, After const& a) {
        Range const range = a.range;
        Mask const mask = a.mask;
        float const *before = a.before, *after = a.after;
        auto limited = [&](Vec v) __attribute__((always_inline)) { return min(range.high, max(range.low, v)); };
        if (!to.rows.whole() || !to.cols.whole())
            output_rows<false>(
                half, to, mask, [&](Vec v, int64_t at) __attribute__((always_inline)) {
                    if (before) v = v + Vec::load(before + at);
                    v = limited(v);
                    return after ? v + Vec::load(after + at) : v;
                });
        else if (before)
            output_rows<true>(
                half, to, mask, [&](Vec v, int64_t at) __attribute__((always_inline)) {
                    return limited(v + Vec::load(before + at));
                });
        else if (after)
            output_rows<true>(
                half, to, mask, [&](Vec v, int64_t at) __attribute__((always_inline)) {
                    return limited(v) + Vec::load(after + at);
                });
        else
            output_rows<true>(
                half, to, mask, [&](Vec v, int64_t) __attribute__((always_inline)) { return limited(v); });
    }

    /// Asks for the outputs of the second tile to the right, and its residual.
    RG_SIMD static void prefetch_second(Target const& to, float const* residual) {
        int64_t const second = to.offset + 2 * outputs * to.step;
#pragma GCC unroll 6
        for (int r = 0; r < outputs; ++r)
#pragma GCC unroll 6
            for (int c = 0; c < outputs; ++c) {
                int64_t at = second + r * to.row_step + c * to.step;
                __builtin_prefetch(to.y + at, 1);
                if (residual) __builtin_prefetch(residual + at);
            }
    }

    static void output(WinogradJob const& j) {
        alignas(64) float half[outputs * inputs * W];
        for (int64_t b = j.first_unit; b < j.end_unit; ++b) {
            Place at(j, j.first_tile);
            auto const& weave = j.weave;
            int64_t const channel = b % weave.blocks, phase = b / weave.blocks;
            int64_t const phase_row = weave.first_row + phase / weave.cols;
            int64_t const phase_col = weave.first_col + phase % weave.cols;
            int lanes = channel + 1 == weave.blocks ? j.last_lanes : W;
            After const a(j, channel, lanes);
            Stream m(j, b);
            for (int64_t t = 0; t < j.tiles; ++t, m.next(), at.next(j)) {
                int64_t row = first_of<outputs>(at.row, j.phase_rows, j.row_dilation) * weave.rows + phase_row;
                int64_t col = first_of<outputs>(at.col, j.phase_cols, j.col_dilation) * weave.cols + phase_col;
                int64_t row_step = j.row_dilation * weave.rows, col_step = j.col_dilation * weave.cols;
                int64_t plane = ((at.image * j.image_blocks + channel) * j.out_planes + at.plane) * weave.out_rows;
                Target const to{j.y,
                                ((plane + row) * weave.out_cols + col) * W,
                                row_step * weave.out_cols * W,
                                col_step * W,
                                {row, row_step, weave.out_rows},
                                {col, col_step, weave.out_cols}};
                if (j.far) prefetch_second(to, j.residual);
                output_columns(m, a.bias, half);
                output_tile(half, to, a);
                if (simple(j.activation.kind)) continue;
                float const* residual = j.residual_last ? j.residual : nullptr;
                int64_t const cols = to.cols.end - to.cols.begin;
                for (int64_t r = to.rows.begin; r < to.rows.end && cols > 0; ++r) {
                    int64_t offset = to.offset + r * to.row_step + to.cols.begin * to.step;
                    activate_stored(j.y + offset, residual ? residual + offset : nullptr, to.step,
                                    static_cast<int>(cols), lanes, j.activation);
                }
            }
        }
    }
};

template <int outputs, int stride, int taps = 3>
constexpr WinogradIsa kPlanes{Planes<outputs, stride, taps>::input, Planes<outputs, stride, taps>::output};

RG_SIMD WinogradIsa const& planes_of(WinogradForm const& form) {
    int64_t const taps = form.piece[0], outputs = form.tile[0];
    if (form.stride == 2) return outputs == 2 ? kPlanes<2, 2> : kPlanes<4, 2>;
    if (taps == 7) return kPlanes<2, 1, 7>;
    if (taps == 4) return kPlanes<5, 1, 4>;
    if (taps == 2) return kPlanes<3, 1, 2>;
    if (taps == 5) return outputs == 2 ? kPlanes<2, 1, 5> : kPlanes<4, 1, 5>;
    return outputs == 2 ? kPlanes<2, 1> : outputs == 4 ? kPlanes<4, 1> : kPlanes<6, 1>;
}

}  // namespace
}  // namespace refactor::kernel
