#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kIntegerConvSource = R"cuda(
// Further words of convolutions: N, C, M, groups; step of the zero points of W; output, input, kernel, stride, dilation
// and begin of the padding, each for three axes.
struct rg_conv_sizes {
    rg_u64 const* w;
    RG_MEMBER rg_conv_sizes(rg_u64 const* words) : w(words + RG_TAIL_WORDS) {}
    RG_MEMBER unsigned batch() const { return (unsigned)w[0]; }
    RG_MEMBER unsigned channels() const { return (unsigned)w[1]; }
    RG_MEMBER unsigned filters() const { return (unsigned)w[2]; }
    RG_MEMBER unsigned group_in() const { return (unsigned)(w[1] / w[3]); }
    RG_MEMBER unsigned group_out() const { return (unsigned)(w[2] / w[3]); }
    RG_MEMBER int out(int axis) const { return (int)w[5 + axis]; }
    RG_MEMBER int in(int axis) const { return (int)w[8 + axis]; }
    RG_MEMBER int kernel(int axis) const { return (int)w[11 + axis]; }
    RG_MEMBER int step(int axis) const { return (int)w[14 + axis]; }
    RG_MEMBER int spread(int axis) const { return (int)w[17 + axis]; }
    RG_MEMBER int pad(int axis) const { return (int)w[20 + axis]; }
    RG_MEMBER unsigned positions() const { return (unsigned)(w[5] * w[6] * w[7]); }
    RG_MEMBER unsigned taps() const { return (unsigned)(w[11] * w[12] * w[13]); }
    // Where the window of output `position` begins.
    RG_MEMBER void begin(unsigned position, int (&at)[3]) const {
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            at[axis] = (int)(position % (unsigned)out(axis)) * step(axis) - pad(axis);
            position /= (unsigned)out(axis);
        }
    }
    RG_MEMBER void tap(unsigned number, int (&at)[3]) const {
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            at[axis] = (int)(number % (unsigned)kernel(axis)) * spread(axis);
            number /= (unsigned)kernel(axis);
        }
    }
    // The input at window + tap, or -1 outside.
    RG_MEMBER int place(int const (&window)[3], int const (&tap)[3]) const {
        int at = 0;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            int i = window[axis] + tap[axis];
            if (i < 0 || i >= in(axis)) return -1;
            at = at * in(axis) + i;
        }
        return at;
    }
};

// k runs over channels and, within them, over taps, as W lies in memory; with `last`, over taps and within them over the
// channels, as X lies in memory. `kWholeK`: words do not cross the end of k; with `last`, of the channels of a group.
template <class X, class W, bool last, bool kWholeK, int kSide> struct rg_conv_operands {
    struct Window { rg_u64 image; int at[3]; bool there; };
    struct Term { unsigned channel, tap; int at[3]; };
    rg_conv_sizes const& sizes;
    X const* x;
    W const* weights;
    Window* windows;
    Term* terms;
    unsigned depth, column0, columns;
    unsigned pad;

    RG_MEMBER void step(unsigned k0) {
        if (threadIdx.x < 32) {
            unsigned k = k0 + threadIdx.x;
            Term& term = terms[threadIdx.x];
            term.channel = last ? k % sizes.group_in() : k / sizes.taps();
            term.tap = last ? k / sizes.group_in() : k % sizes.taps();
            sizes.tap(term.tap, term.at);
        }
        __syncthreads();
    }
    RG_MEMBER unsigned a(unsigned row, unsigned k, unsigned word) const {
        Window const& window = windows[row];
        if (!window.there) return 0;
        if constexpr (last && kWholeK) {
            // Four channels of one tap.
            if (k + 4 * word >= depth) return 0;
            Term const& term = terms[4 * word];
            int place = sizes.place(window.at, term.at);
            if (place < 0) return pad * 0x01010101u;
            return *(unsigned const*)(x + window.image + (rg_u64)place * sizes.channels() + term.channel) ^ rg_flip_of<X>;
        }
        unsigned bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (k + 4 * word + i >= depth) break;
            Term const& term = terms[4 * word + i];
            int place = sizes.place(window.at, term.at);
            unsigned byte = pad;
            if (place >= 0) {
                rg_u64 inside = last ? (rg_u64)place * sizes.channels() + term.channel
                                     : (rg_u64)term.channel * sizes.in(0) * sizes.in(1) * sizes.in(2) + place;
                byte = ((unsigned)(unsigned char)x[window.image + inside] ^ (rg_flip_of<X> & 255u)) & 255u;
            }
            bytes |= byte << 8 * i;
        }
        return bytes;
    }
    template <int kWidth, int kWords, class Store> RG_MEMBER void load_b(unsigned k0, Store store) const {
        for (unsigned i = threadIdx.x; i < kWidth * kWords; i += 256) {
            unsigned column = i / kWords, word = i % kWords, k = k0 + 4 * word, bytes = 0;
            if (column0 + column < columns && k < depth) {
                W const* row = weights + (rg_u64)(column0 + column) * depth;
                if (kWholeK && (!last || sizes.taps() == 1)) {
                    bytes = *(unsigned const*)(row + k) ^ rg_flip_of<W>;
                } else {
                    for (int b = 0; b < 4 && k + b < depth; ++b) {
                        Term const& term = terms[4 * word + b];
                        bytes |= rg_bytes(row + (rg_u64)term.channel * sizes.taps() + term.tap, 1, 1) << 8 * b;
                    }
                }
            }
            store(column, word, bytes);
        }
    }
};

template <class X, class W, class Y, class R, bool last, bool kWholeK, int kSide> RG_FN void rg_integer_conv(rg_u64 const* w) {
    typedef rg_conv_operands<X, W, last, kWholeK, kSide> Operands;
    constexpr unsigned kWidth = 16 * kSide;
    __shared__ typename Operands::Window windows[kWidth];
    __shared__ typename Operands::Term terms[32];
    rg_conv_sizes sizes(w);
    unsigned rows = sizes.batch() * sizes.positions(), columns = sizes.group_out();
    unsigned wide = (columns + kWidth - 1) / kWidth, high = (rows + kWidth - 1) / kWidth;
    unsigned square = blockIdx.x % (wide * high), group = blockIdx.x / (wide * high);
    unsigned row0 = square / wide * kWidth, spatial = (unsigned)(sizes.in(0) * sizes.in(1) * sizes.in(2));
    if (threadIdx.x < kWidth) {
        unsigned row = row0 + threadIdx.x;
        typename Operands::Window& window = windows[threadIdx.x];
        window.there = row < rows;
        window.image = (rg_u64)(row / sizes.positions()) * sizes.channels() * spatial +
                       (rg_u64)group * sizes.group_in() * (last ? 1 : spatial);
        sizes.begin(row % sizes.positions(), window.at);
    }
    int x_zero = rg_zero_at<X>(w[2], 0);
    Operands operands = {sizes, (X const*)w[0], (W const*)w[1] + (rg_u64)group * columns * sizes.group_in() * sizes.taps(),
                         windows, terms, sizes.group_in() * sizes.taps(), square % wide * kWidth, columns,
                         (unsigned)x_zero & 255u};
    rg_square_sums<kSide> own;
    rg_square<X, W, kSide, true, true>(operands, operands.depth, own);
    for (int i = 0; i < 2; ++i) {
        unsigned row = row0 + own.row(i);
        if (row >= rows) break;
        for (int j = 0; j < own.kColumns; ++j) {
            unsigned column = operands.column0 + own.column(j);
            if (column >= columns) break;
            unsigned filter = group * columns + column;
            int w_zero = rg_zero_at<W>(w[3], filter * sizes.w[4]);
            unsigned sum = (unsigned)own.sums[i][j] - (unsigned)x_zero * own.of_b[j] - (unsigned)w_zero * own.of_a[i] +
                           operands.depth * (unsigned)x_zero * (unsigned)w_zero;
            rg_u64 at = last ? (rg_u64)row * sizes.filters() + filter
                             : ((rg_u64)(row / sizes.positions()) * sizes.filters() + filter) * sizes.positions() +
                                   row % sizes.positions();
            rg_tail<Y, R>::store(w, at, filter, (int)sum);
        }
    }
}

// A thread for each output: groups of few filters.
template <class X, class W, class Y, class R, bool last> RG_FN void rg_integer_conv_narrow(rg_u64 const* w) {
    rg_conv_sizes sizes(w);
    rg_u64 output = (rg_u64)blockIdx.x * 256 + threadIdx.x;
    rg_u64 outputs = (rg_u64)sizes.batch() * sizes.filters() * sizes.positions();
    if (output >= outputs) return;
    unsigned position = (unsigned)(last ? output / sizes.filters() : output) % sizes.positions();
    unsigned filter = (unsigned)((last ? output : output / sizes.positions()) % sizes.filters());
    unsigned n = (unsigned)(output / ((rg_u64)sizes.filters() * sizes.positions())), taps = sizes.taps();
    unsigned spatial = (unsigned)(sizes.in(0) * sizes.in(1) * sizes.in(2));
    unsigned first = filter / sizes.group_out() * sizes.group_in();
    X const* x = (X const*)w[0] + (rg_u64)n * sizes.channels() * spatial + (last ? first : (rg_u64)first * spatial);
    W const* weights = (W const*)w[1] + (rg_u64)filter * sizes.group_in() * taps;
    int x_zero = rg_zero_at<X>(w[2], 0) + rg_shift_of<X>;
    int w_zero = rg_zero_at<W>(w[3], filter * sizes.w[4]) + rg_shift_of<W>;
    int window[3], tap[3];
    sizes.begin(position, window);
    unsigned sum = 0;
    for (unsigned t = 0; t < taps; ++t) {
        sizes.tap(t, tap);
        int place = sizes.place(window, tap);
        if (place < 0) continue;
        for (unsigned c = 0; c < sizes.group_in(); ++c) {
            int value = x[last ? (rg_u64)place * sizes.channels() + c : (rg_u64)c * spatial + place];
            sum += (unsigned)((value - x_zero) * ((int)weights[c * taps + t] - w_zero));
        }
    }
    rg_tail<Y, R>::store(w, output, filter, (int)sum);
}
)cuda";

}  // namespace refactor::kernel::cuda
