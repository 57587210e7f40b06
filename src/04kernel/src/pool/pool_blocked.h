#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Rows [row, row_end) of the pooled plane of one block of channels.
template <class T>
struct PoolJobOf {
    T const* x;
    T* y;
    int64_t in_rows, in_cols, out_cols, row, row_end;
    int64_t kernel_rows, kernel_cols, row_stride, col_stride, row_dilation, col_dilation, row_pad, col_pad;
    int64_t row_pad_end, col_pad_end;
    int64_t planes, plane_step;  ///< of the window inside the input: number and distance in elements, the first at `x`
    int64_t counted_planes;      ///< that an average counts
    bool maximum;
    bool total;          ///< sums instead of averages
    bool count_padding;  ///< averages divide by the elements inside the padded input
};
using PoolJob = PoolJobOf<float>;

/// All positions of a plane (of a channel, or of a block of channels) reduced to one.
struct GlobalPoolJob {
    float const* x;
    float* y;
    int64_t positions;
    bool maximum;
};

/// Windows at every column, or, of one lane, at every second; averages and sums have one lane.
/// x: [planes][in_rows][in_cols][lanes]. `memory`: `lines` padded rows of `line_size` elements that the windows of as
/// many output rows see, behind them as much again for windows at every second column, and 2 * out_cols for averages.
template <class T>
using PoolSeparable = void (*)(PoolJobOf<T> const&, int64_t lanes, T* memory, int64_t lines, int64_t line_size);

/// One instruction set.
struct PoolIsa {
    int block;
    void (*rows)(PoolJob const&);
    PoolSeparable<float> separable;
    void (*whole_blocked)(GlobalPoolJob const&);  ///< x: [positions][block], y: [block]
    void (*whole_plain)(GlobalPoolJob const&);    ///< x: [positions], y: one float
};
PoolIsa const& pool_avx2();
PoolIsa const& pool_avx512();
PoolSeparable<double> pool_f64_avx2();
PoolSeparable<double> pool_f64_avx512();

}  // namespace refactor::kernel
