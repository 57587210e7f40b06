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
// multiplied with, and of the slope; bits of the residual's scale and of its zero point; bits of the last bounds.
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
            v = rg_Max(v, v * rg_f32((unsigned)w[15]));
            v += w[8] ? ((float)((R const*)w[8])[at] - rg_f32((unsigned)w[17])) * rg_f32((unsigned)w[16]) : 0.f;
            v = rg_Min(rg_Max(v, rg_f32((unsigned)w[18])), rg_f32((unsigned)w[19]));
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
#define RG_TAIL_WORDS 20

// C[16, 8] += A[16, 32] B[32, 8] by a warp. Of A a lane has the words lane % 4 and 4 + lane % 4 of the rows lane / 4 and
// 8 + lane / 4, of B these words of column lane / 4, of C the columns 2 (lane % 4) and the next of these rows. Source: PTX
// ISA, mma.m16n8k32.
#ifndef RG_HOST
RG_FN void rg_mma_bytes(int (&c)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// What a thread has of a block's square of `16 kSide` rows and columns: a warp has 16 rows, and `kTiles` times 8 columns.
template <int kSide> struct rg_square_sums {
    static constexpr int kTiles = kSide * kSide / 4, kColumns = 2 * kTiles;
    int sums[2][kColumns], of_a[2], of_b[kColumns];
    RG_MEMBER static unsigned row(int i) { return threadIdx.x / 32 % kSide * 16 + i * 8 + threadIdx.x % 32 / 4; }
    RG_MEMBER static unsigned first_column() { return threadIdx.x / 32 / kSide * (8 * kTiles); }
    RG_MEMBER static unsigned column(int j) { return first_column() + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2; }
};
RG_FN int rg_sum_of_four(int x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// 8 warps make a square of sums in steps of 32 along k, four of them a word. `Operands` loads words: row (column) of the
// square, word of the step. Rows of words are 8 banks apart, so that the words of a warp's part are in all of them.
template <class A, class B, int kSide, bool kSumA, bool kSumB, class Operands>
RG_FN void rg_square(Operands& operands, unsigned depth, rg_square_sums<kSide>& square) {
    constexpr int kWords = 8, kWidth = 16 * kSide, kTiles = rg_square_sums<kSide>::kTiles;
    __shared__ unsigned a[kWords][kWidth + 8], b[kWords][kWidth + 8];
    const unsigned lane = threadIdx.x % 32, word = lane % 4, row = square.row(0), column = square.first_column() + lane / 4;
    int c[kTiles][4] = {}, of_a[2] = {}, of_b[kTiles] = {};
    for (unsigned k = 0; k < depth; k += 4 * kWords) {
        operands.step(k);
        for (unsigned i = threadIdx.x; i < kWidth * kWords; i += 256)
            a[i % kWords][i / kWords] = operands.a(i / kWords, k, i % kWords);
        operands.template load_b<kWidth, kWords>(k, [&](unsigned at, unsigned of, unsigned bytes) { b[of][at] = bytes; });
        __syncthreads();
        const unsigned left[4] = {a[word][row], a[word][row + 8], a[word + 4][row], a[word + 4][row + 8]};
        if constexpr (kSumA)
            for (int i = 0; i < 2; ++i) of_a[i] = rg_dp4a(left[i], 0x01010101u, rg_dp4a(left[i + 2], 0x01010101u, of_a[i]));
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
            const unsigned right[2] = {b[word][column + 8 * t], b[word + 4][column + 8 * t]};
            rg_mma_bytes(c[t], left, right);
            if constexpr (kSumB) of_b[t] = rg_dp4a(right[0], 0x01010101u, rg_dp4a(right[1], 0x01010101u, of_b[t]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i) square.of_a[i] = kSumA ? rg_sum_of_four(of_a[i]) : 0;
#pragma unroll
    for (int j = 0; j < 2 * kTiles; ++j) {
        for (int i = 0; i < 2; ++i) square.sums[i][j] = c[j / 2][2 * i + j % 2];
        square.of_b[j] = kSumB ? __shfl_sync(0xffffffffu, rg_sum_of_four(of_b[j / 2]), (int)(4 * (word * 2 + j % 2))) : 0;
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
    rg_square_sums<kSide> own_sums;
    rg_square<A, B, kSide, kSumA, kSumB>(operands, depth, own_sums);
    rg_u64 a_zeros = depth ? a_first / ((rg_u64)m * depth) * own[4] : 0;
    rg_u64 b_zeros = depth ? b_first / ((rg_u64)n * depth) * own[6] : 0;
    for (int i = 0; i < 2; ++i) {
        unsigned row = operands.row0 + own_sums.row(i);
        if (row >= m) break;
        int a_zero = rg_zero_at<A>(w[2], a_zeros + row * own[3]);
        for (int j = 0; j < own_sums.kColumns; ++j) {
            unsigned column = operands.column0 + own_sums.column(j);
            if (column >= n) break;
            int b_zero = rg_zero_at<B>(w[3], b_zeros + column * own[5]);
            unsigned sum = (unsigned)own_sums.sums[i][j] - (unsigned)a_zero * own_sums.of_b[j] -
                           (unsigned)b_zero * own_sums.of_a[i] +
                           depth * (unsigned)a_zero * (unsigned)b_zero;
            rg_tail<Y, R>::store(w, ((rg_u64)batch * m + row) * n + column, column, (int)sum);
        }
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
