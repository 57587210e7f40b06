#include "simd/vec_avx2.h"
#include "top_k/top_k_lanes.h"

namespace refactor::kernel {
namespace {

static_assert(kTopKColumns == Vec::width);

RG_SIMD __m256i load(int32_t const* p) { return _mm256_load_si256(reinterpret_cast<__m256i const*>(p)); }
RG_SIMD void store(int32_t* p, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
RG_SIMD bool any(__m256i mask) { return _mm256_movemask_ps(_mm256_castsi256_ps(mask)) != 0; }

/// Less than every key.
constexpr int32_t kNone = INT32_MIN;

/// Signed integers in the order of floats: both zeros are one, all NaN come behind infinity. None is `kNone`, whether
/// they are turned around or not.
RG_SIMD __m256i keys_of(Vec x, __m256i turn) {
    __m256i bits = _mm256_castps_si256(x.v), most = _mm256_set1_epi32(INT32_MAX);
    bits = _mm256_andnot_si256(_mm256_cmpeq_epi32(bits, _mm256_set1_epi32(INT32_MIN)), bits);
    __m256i infinity = _mm256_set1_epi32(0x7f800000);
    __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(bits, most), infinity);
    __m256i ordered = _mm256_xor_si256(bits, _mm256_and_si256(_mm256_srai_epi32(bits, 31), most));
    ordered = _mm256_blendv_epi8(ordered, _mm256_add_epi32(infinity, _mm256_set1_epi32(1)), nan);
    return _mm256_xor_si256(ordered, turn);
}

/// Puts keys in front of the first that is less, in lanes where they are greater than the last one.
RG_SIMD void insert(int32_t* keys, int32_t* rows, int64_t k, __m256i key, __m256i row, __m256i is_in) {
    constexpr int64_t kLanes = Vec::width;
    int64_t at = (k - 1) * kLanes;
    __m256i there = load(keys + at), row_there = load(rows + at);
    for (; at > 0; at -= kLanes) {
        __m256i above = load(keys + at - kLanes), row_above = load(rows + at - kLanes);
        __m256i passes = _mm256_cmpgt_epi32(key, above);
        store(keys + at, _mm256_blendv_epi8(_mm256_blendv_epi8(there, key, is_in), above, passes));
        store(rows + at, _mm256_blendv_epi8(_mm256_blendv_epi8(row_there, row, is_in), row_above, passes));
        if (!any(passes)) return;
        there = above, row_there = row_above, is_in = passes;
    }
    store(keys, _mm256_blendv_epi8(there, key, is_in));
    store(rows, _mm256_blendv_epi8(row_there, row, is_in));
}

}  // namespace

void top_k_columns_avx2(TopKColumns const& c) {
    constexpr int64_t kLanes = Vec::width;
    auto *keys = c.lists, *rows = c.lists + c.k * kLanes;
    for (int64_t i = 0; i < c.k * kLanes; ++i) keys[i] = kNone, rows[i] = 0;
    __m256i const turn = _mm256_set1_epi32(c.smallest ? -1 : 0);
    int const lanes = static_cast<int>(c.columns);
    auto const* x = c.x;
    for (int64_t r = 0; r < c.size; ++r, x += c.stride) {
        __m256i key = keys_of(c.columns == kLanes ? Vec::load(x) : Vec::load_first(x, lanes), turn);
        __m256i is_in = _mm256_cmpgt_epi32(key, load(keys + (c.k - 1) * kLanes));
        if (any(is_in)) insert(keys, rows, c.k, key, _mm256_set1_epi32(static_cast<int>(r)), is_in);
    }
    for (int64_t j = 0; j < c.k; ++j)
        for (int64_t i = 0; i < c.columns; ++i) {
            int64_t row = rows[j * kLanes + i];
            c.indices[j * c.result_stride + i] = row;
            c.values[j * c.result_stride + i] = c.x[row * c.stride + i];
        }
}

}  // namespace refactor::kernel
