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
)cuda";

}  // namespace refactor::kernel::cuda
