#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kIntegerSource = R"cuda(
// Bytes are multiplied as signed ones: of unsigned ones the upper bit is flipped, which takes 128 from them and from
// their zero point alike.
template <class T> constexpr int rg_shift_of = T(-1) < T(0) ? 0 : 128;
template <class T> constexpr unsigned rg_flip_of = T(-1) < T(0) ? 0u : 0x80808080u;
RG_FN int rg_dp4a(unsigned a, unsigned b, int sum) { return __dp4a((int)a, (int)b, sum); }
template <class T> RG_FN int rg_zero_at(rg_u64 zeros, rg_u64 i) {
    return (zeros ? (int)((T const*)zeros)[i] : 0) - rg_shift_of<T>;
}
// Four bytes as they lie in memory, of which `count` are there; the others are zero after the flip.
template <class T> RG_FN unsigned rg_bytes(T const* p, rg_i64 step, int count) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (i < count) word |= (((unsigned)(unsigned char)p[i * step] ^ (rg_flip_of<T> & 255u)) & 255u) << 8 * i;
    return word;
}

// What becomes of sums, see IntegerResult. Words: A, B, zero points of A and of B, bias, scale, zero point of Y, shift,
// residual, Y; step of the scale; whether sums are rounded on the way, bits (f32) of their bounds and of what they are
// multiplied with; bits of the residual's scale and of its zero point; bits of the last bounds.
template <class Y, class R> struct rg_tail {
    static RG_MEMBER void store(rg_u64 const* w, rg_u64 at, unsigned column, int sum) {
        if (w[4]) sum = (int)((unsigned)sum + (unsigned)((int const*)w[4])[column]);
        if constexpr (rg_is_same<Y, int>::value) {
            ((int*)w[9])[at] = sum;
        } else {
            float v = (float)sum * ((float const*)w[5])[column * w[10]];
            if (w[11])
                v = rg_Min(rg_Max(m_rint(v), rg_f32((unsigned)w[12])), rg_f32((unsigned)w[13])) * rg_f32((unsigned)w[14]);
            v += w[7] ? ((float const*)w[7])[column] : 0.f;
            v += w[8] ? ((float)((R const*)w[8])[at] - rg_f32((unsigned)w[16])) * rg_f32((unsigned)w[15]) : 0.f;
            v = rg_Min(rg_Max(v, rg_f32((unsigned)w[17])), rg_f32((unsigned)w[18]));
            if constexpr (rg_real<Y>) {
                ((Y*)w[9])[at] = v;
            } else {
                int zero = w[6] ? (int)*(Y const*)w[6] : 0;
                float low = (float)((rg_signed<Y> ? -128 : 0) - zero);
                v = m_rint(v);
                v = v >= low ? v : low;
                ((Y*)w[9])[at] = (Y)((int)(v <= low + 255.f ? v : low + 255.f) + zero);
            }
        }
    }
};
#define RG_TAIL_WORDS 19

// A block of 16 x 16 threads makes a square of `16 kSide` sums in steps of 32 along k, four of them a word. `Operands`
// loads words: row (column) of the square, word of the step.
template <class A, class B, int kSide, bool kSumA, bool kSumB, class Operands>
RG_FN void rg_square(Operands& operands, unsigned depth, int (&sums)[kSide][kSide], int (&of_a)[kSide],
                     int (&of_b)[kSide]) {
    constexpr int kWords = 8, kWidth = 16 * kSide;
    typedef rg_vec<unsigned, kSide> Words;
    __shared__ Words a[kWords][16 + 1], b[kWords][16 + 1];
    unsigned x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        of_a[i] = of_b[i] = 0;
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] = 0;
    }
    for (unsigned k = 0; k < depth; k += 4 * kWords) {
        operands.step(k);
        for (unsigned i = threadIdx.x; i < kWidth * kWords; i += 256) {
            unsigned row = i / kWords, word = i % kWords;
            a[word][row / kSide].v[row % kSide] = operands.a(row, k, word);
        }
        operands.template load_b<kWidth, kWords>(k, [&](unsigned column, unsigned word, unsigned bytes) {
            b[word][column / kSide].v[column % kSide] = bytes;
        });
        __syncthreads();
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
            Words left = a[word][y], right = b[word][x];
#pragma unroll
            for (int i = 0; i < kSide; ++i) {
                if constexpr (kSumA) of_a[i] = rg_dp4a(left.v[i], 0x01010101u, of_a[i]);
                if constexpr (kSumB) of_b[i] = rg_dp4a(right.v[i], 0x01010101u, of_b[i]);
#pragma unroll
                for (int j = 0; j < kSide; ++j) sums[i][j] = rg_dp4a(left.v[i], right.v[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
}

// Further words of products: M, N, K, steps of the zero points of A along rows and matrices, of B along columns and
// matrices; batch axes' sizes and steps of A, again sizes and steps of B.
template <class A, class B, bool kWholeK, bool kWholeN> struct rg_product_operands {
    A const* left;
    B const* right;
    unsigned m, n, depth, row0, column0;
    RG_MEMBER void step(unsigned) {}
    RG_MEMBER unsigned a(unsigned row, unsigned k, unsigned word) const {
        row += row0, k += 4 * word;
        if (row >= m || k >= depth) return 0;
        A const* p = left + (rg_u64)row * depth + k;
        if constexpr (kWholeK) return *(unsigned const*)p ^ rg_flip_of<A>;
        else return rg_bytes(p, 1, (int)(depth - k < 4 ? depth - k : 4));
    }
    // Four columns of four rows at a time, turned.
    template <int kWidth, int kWords, class Store> RG_MEMBER void load_b(unsigned k0, Store store) const {
        for (unsigned i = threadIdx.x; i < kWidth / 4 * kWords; i += 256) {
            unsigned word = i / (kWidth / 4), column = i % (kWidth / 4) * 4, k = k0 + 4 * word;
            int rows = k >= depth ? 0 : (int)(depth - k < 4 ? depth - k : 4);
            B const* p = right + (rg_u64)k * n + column0 + column;
            if (kWholeN && rows == 4 && column0 + column < n) {
                unsigned in[4];
#pragma unroll
                for (int r = 0; r < 4; ++r) in[r] = *(unsigned const*)(p + (rg_u64)r * n) ^ rg_flip_of<B>;
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    store(column + c, word,
                          (in[0] >> 8 * c & 255) | (in[1] >> 8 * c & 255) << 8 | (in[2] >> 8 * c & 255) << 16 |
                              (in[3] >> 8 * c & 255) << 24);
            } else {
                for (int c = 0; c < 4; ++c)
                    store(column + c, word, column0 + column + c < n ? rg_bytes(p + c, n, rows) : 0);
            }
        }
    }
};

template <class A, class B, class Y, class R, int kSide, bool kSumA, bool kSumB, bool kWholeK, bool kWholeN, int kBatch>
RG_FN void rg_integer_matmul(rg_u64 const* w) {
    rg_u64 const* own = w + RG_TAIL_WORDS;
    unsigned m = (unsigned)own[0], n = (unsigned)own[1], depth = (unsigned)own[2];
    unsigned wide = (n + 16 * kSide - 1) / (16 * kSide), high = (m + 16 * kSide - 1) / (16 * kSide);
    unsigned square = blockIdx.x % (wide * high), batch = blockIdx.x / (wide * high);
    rg_u64 a_first = rg_offset<kBatch>((rg_u64)batch, own + 7);
    rg_u64 b_first = rg_offset<kBatch>((rg_u64)batch, own + 7 + 2 * kBatch);
    rg_product_operands<A, B, kWholeK, kWholeN> operands = {
        (A const*)w[0] + a_first, (B const*)w[1] + b_first, m, n, depth,
        square / wide * 16 * kSide, square % wide * 16 * kSide};
    int sums[kSide][kSide], of_a[kSide], of_b[kSide];
    rg_square<A, B, kSide, kSumA, kSumB>(operands, depth, sums, of_a, of_b);
    rg_u64 a_zeros = depth ? a_first / ((rg_u64)m * depth) * own[4] : 0;
    rg_u64 b_zeros = depth ? b_first / ((rg_u64)n * depth) * own[6] : 0;
    for (int i = 0; i < kSide; ++i) {
        unsigned row = operands.row0 + threadIdx.x / 16 * kSide + i;
        if (row >= m) break;
        int a_zero = rg_zero_at<A>(w[2], a_zeros + row * own[3]);
        for (int j = 0; j < kSide; ++j) {
            unsigned column = operands.column0 + threadIdx.x % 16 * kSide + j;
            if (column >= n) break;
            int b_zero = rg_zero_at<B>(w[3], b_zeros + column * own[5]);
            unsigned sum = (unsigned)sums[i][j] - (unsigned)a_zero * of_b[j] - (unsigned)b_zero * of_a[i] +
                           depth * (unsigned)a_zero * (unsigned)b_zero;
            rg_tail<Y, R>::store(w, ((rg_u64)batch * m + row) * n + column, column, (int)sum);
        }
    }
}

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
// channels, as X lies in memory.
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
                if constexpr (!last && kWholeK) {
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
    int sums[kSide][kSide], of_x[kSide], of_w[kSide];
    rg_square<X, W, kSide, true, true>(operands, operands.depth, sums, of_x, of_w);
    for (int i = 0; i < kSide; ++i) {
        unsigned row = row0 + threadIdx.x / 16 * kSide + i;
        if (row >= rows) break;
        for (int j = 0; j < kSide; ++j) {
            unsigned column = operands.column0 + threadIdx.x % 16 * kSide + j;
            if (column >= columns) break;
            unsigned filter = group * columns + column;
            int w_zero = rg_zero_at<W>(w[3], filter * sizes.w[4]);
            unsigned sum = (unsigned)sums[i][j] - (unsigned)x_zero * of_w[j] - (unsigned)w_zero * of_x[i] +
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
