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
    T const* counted_columns;    ///< [out_cols]
    bool maximum;
    bool total;          ///< sums instead of averages
    bool count_padding;  ///< averages divide by the elements inside the padded input
};
using PoolJob = PoolJobOf<float>;

/// All positions of a plane (of a channel, or of a block of channels) reduced to one.
template <class T>
struct GlobalPoolJobOf {
    T const* x;
    float* y;
    int64_t positions;
    bool maximum;
    int32_t channels = 0;  ///< of the block that exist; asked where they fill several blocks of Y
};
using GlobalPoolJob = GlobalPoolJobOf<float>;

/// The largest of windows at every column of blocks of `lanes` channels. x: [planes][in_rows][in_cols][lanes].
/// `memory`: `lines` padded rows of `line_size` elements that the windows of as many output rows see.
using PoolSeparable = void (*)(PoolJob const&, int64_t lanes, float* memory, int64_t lines, int64_t line_size);

/// Windows at every column, or at every second, of one lane. x: [planes][in_rows][in_cols]. Output rows are made
/// `together` at a time; `memory`: a vector for each row of each plane that they read.
template <class T>
using PoolStrips = void (*)(PoolJobOf<T> const&, int64_t together, T* memory);

/// Output rows and columns that are made of what stays in caches, of which `lines` rows at a time, and elements between
/// lines in memory.
struct PoolLinesPlan {
    int64_t together, columns, lines, line_size;
};
/// The same at any stride. `memory`: 2 * `lines` + 2 lines and, of windows of several planes, the rows of a plane that
/// `together` rows see, as wide as the windows of `columns` columns.
template <class T>
using PoolLines = void (*)(PoolJobOf<T> const&, PoolLinesPlan const&, T* memory);

/// One instruction set.
struct PoolIsa {
    int block;
    void (*rows)(PoolJob const&);
    PoolSeparable separable;
    PoolStrips<float> strips;
    PoolLines<float> lines;
    void (*whole_blocked)(GlobalPoolJob const&);  ///< x: [positions][block], y: [block]
};
/// The same for blocks of bf16, as their bits.
struct PoolIsaBf16 {
    int block;
    void (*rows)(PoolJobOf<uint16_t> const&);
    void (*whole)(GlobalPoolJobOf<uint16_t> const&);  ///< x: [positions][block], y: [block / 16][16], those that exist
};
PoolIsaBf16 const& pool_avx512bf16();
PoolIsa const& pool_avx2();
PoolIsa const& pool_avx512();
PoolStrips<double> pool_f64_avx2();
PoolStrips<double> pool_f64_avx512();

}  // namespace refactor::kernel
