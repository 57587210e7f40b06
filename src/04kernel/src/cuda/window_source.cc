#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kWindowSource = R"cuda(
enum rg_pooling { rg_pooling_max, rg_pooling_average, rg_pooling_sum };
// Taps of a window along an axis: the first and the last but one inside of the input, and how many lie in the padded
// input.
struct rg_taps {
    int first, last, start, padded;
    // Words: output, input, kernel, stride, dilation, begin of the padding, its end; each for three axes.
    RG_MEMBER rg_taps(rg_u64 const* w, int axis, int at) {
        int in = (int)w[3 + axis], kernel = (int)w[6 + axis], step = (int)w[12 + axis];
        start = at * (int)w[9 + axis] - (int)w[15 + axis];
        first = start < 0 ? (-start + step - 1) / step : 0;
        last = taps_below(in - start, kernel, step);
        padded = taps_below(in + (int)w[18 + axis] - start, kernel, step);
    }
    static RG_MEMBER int taps_below(int room, int kernel, int step) {
        int taps = room <= 0 ? 0 : (room + step - 1) / step;
        return taps < kernel ? taps : kernel;
    }
    RG_MEMBER int inside() const { return last > first ? last - first : 0; }
};

// Words: x, y, indices; outputs; those of `rg_taps`.
template <class T, int kind, bool count_padding, bool column_major, bool indices, class Index>
RG_FN void rg_pool(rg_u64 const* w) {
    typedef rg_wide<T> W;
    rg_u64 const* sizes = w + 4;
    Index output = (Index)blockIdx.x * 256 + threadIdx.x;
    if (output >= (Index)w[3]) return;
    Index rest = output, plane;
    int at[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        Index size = (Index)sizes[axis], outer = rest / size;
        at[axis] = (int)(rest - outer * size), rest = outer;
    }
    plane = rest;
    int rows = (int)sizes[4], columns = (int)sizes[5];
    Index elements = (Index)sizes[3] * rows * columns;
    T const* x = (T const*)w[0] + plane * elements;
    rg_taps d(sizes, 0, at[0]), h(sizes, 1, at[1]), v(sizes, 2, at[2]);
    W result = kind == rg_pooling_max ? rg_lowest<T>() : W(0);
    rg_i64 position = -1;
    for (int a = d.first; a < d.last; ++a)
        for (int b = h.first; b < h.last; ++b)
            for (int c = v.first; c < v.last; ++c) {
                int z = d.start + a * (int)sizes[12], i = h.start + b * (int)sizes[13];
                int j = v.start + c * (int)sizes[14];
                W value = rg_widen(x[((Index)z * rows + i) * columns + j]);
                if constexpr (kind != rg_pooling_max) {
                    result += value;
                } else if (position < 0 || (result == result && (value > result || value != value))) {
                    result = value;
                    position = column_major ? z + (rg_i64)sizes[3] * (i + (rg_i64)rows * j)
                                            : ((rg_i64)z * rows + i) * columns + j;
                }
            }
    if constexpr (kind == rg_pooling_average) {
        int count = count_padding ? d.padded * h.padded * v.padded : d.inside() * h.inside() * v.inside();
        result = count ? result / W(count) : W(0);
    }
    ((T*)w[1])[output] = rg_narrow<T>(result);
    if constexpr (indices) ((rg_i64*)w[2])[output] = (rg_i64)plane * elements + position;
}

// Pooling of bytes with their channels last, see IntegerPoolInfo. Words: x, y; outputs, channels; the zero point of x,
// bits (f32) of the scale, and the zero point of y; those of `rg_taps`.
template <class T, class Y, int kind, bool count_padding> RG_FN void rg_pool_bytes(rg_u64 const* w) {
    rg_u64 const* sizes = w + 7;
    rg_u64 output = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (output >= w[2]) return;
    rg_u64 rest = output / w[3], channel = output % w[3];
    int at[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) at[axis] = (int)(rest % sizes[axis]), rest /= sizes[axis];
    int rows = (int)sizes[4], columns = (int)sizes[5];
    T const* x = (T const*)w[0] + rest * sizes[3] * rows * columns * w[3] + channel;
    rg_taps d(sizes, 0, at[0]), h(sizes, 1, at[1]), v(sizes, 2, at[2]);
    int result = kind == rg_pooling_max && rg_signed<T> ? -128 : 0;
    for (int a = d.first; a < d.last; ++a)
        for (int b = h.first; b < h.last; ++b)
            for (int c = v.first; c < v.last; ++c) {
                int z = d.start + a * (int)sizes[12], i = h.start + b * (int)sizes[13];
                int j = v.start + c * (int)sizes[14];
                int value = x[(((rg_u64)z * rows + i) * columns + j) * w[3]];
                result = kind == rg_pooling_max ? (value > result ? value : result) : result + value;
            }
    if constexpr (kind == rg_pooling_max) {
        ((Y*)w[1])[output] = (Y)result;
    } else {
        int inside = d.inside() * h.inside() * v.inside();
        int count = count_padding ? d.padded * h.padded * v.padded : inside;
        float value = (float)(result - (int)w[4] * inside) * (rg_f32((unsigned)w[5]) / (float)(count ? count : 1));
        if constexpr (rg_real<Y>) {
            ((Y*)w[1])[output] = value;
        } else {
            int zero = (int)w[6];
            float low = (float)((rg_signed<Y> ? -128 : 0) - zero);
            ((Y*)w[1])[output] = (Y)((int)rg_Min(rg_Max(m_rint(value), low), low + 255.f) + zero);
        }
    }
}

// Words: x, y; elements, channels, positions, channels before and behind the own one; bits (f64) of alpha / size, beta
// and bias.
template <class T> RG_FN void rg_lrn(rg_u64 const* w) {
    typedef rg_wide<T> W;
    rg_u64 element = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (element >= w[2]) return;
    int channels = (int)w[3], channel = (int)(element / w[4] % w[3]);
    int first = channel - (int)w[5], last = channel + (int)w[6];
    if (first < 0) first = 0;
    if (last > channels - 1) last = channels - 1;
    T const* x = (T const*)w[0] + element;
    W sum = W(0);
    for (int c = first; c <= last; ++c) {
        W value = rg_widen(x[(rg_i64)(c - channel) * (rg_i64)w[4]]);
        sum += value * value;
    }
    W base = (W)rg_f64(w[9]) + (W)rg_f64(w[7]) * sum;
    ((T*)w[1])[element] = rg_narrow<T>(rg_widen(*x) / m_pow(base, (W)rg_f64(w[8])));
}

// Max-unpooling. For each element of the output the last element of x that is put there, counted from 1, is found by a
// maximum, whatever the order of the threads.
RG_FN void rg_unpool_clear(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (i < w[1]) ((rg_u64*)w[0])[i] = 0;
}
// Words: indices, last elements, fault; elements of x, positions that there are; sizes and steps of the output's axes.
template <int kRank> RG_FN void rg_unpool_place(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (i >= w[3]) return;
    rg_u64 position = ((rg_u64 const*)w[0])[i];
    if (position < w[4]) atomicMax((rg_u64*)w[1] + rg_offset<kRank>(position, w + 5), i + 1);
    else rg_report((rg_u64*)w[2], 1, (rg_i64)position);
}
// Words: x, last elements, y; elements of y.
template <class T> RG_FN void rg_unpool_fill(rg_u64 const* w) {
    rg_u64 i = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    if (i >= w[3]) return;
    rg_u64 from = ((rg_u64 const*)w[1])[i];
    ((T*)w[2])[i] = from ? ((T const*)w[0])[from - 1] : T{};
}
)cuda";

}  // namespace refactor::kernel::cuda
