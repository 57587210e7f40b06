#include "simd/vec_avx2.h"
#include "top_k/top_k_scan.h"

namespace refactor::kernel {
namespace {

Vec sign_of(bool smallest) { return Vec::set(smallest ? -0.f : 0.f); }

template <bool kStrict>
int64_t scan(float const* x, int64_t begin, int64_t size, TopKFilter const& filter, int32_t* found, int64_t room,
             int64_t& count) {
    Vec limit = Vec::set(filter.limit), sign = sign_of(filter.smallest);
    int64_t n = 0, j = begin;
    for (; j < size && n + Vec::width <= room; j += Vec::width) {
        bool whole = size - j >= Vec::width;
        Vec value = whole ? Vec::load(x + j) : Vec::load_first(x + j, static_cast<int>(size - j));
        value = bit_xor(value, sign);
        auto passes = static_cast<unsigned>(
            _mm256_movemask_ps(_mm256_cmp_ps(value.v, limit.v, kStrict ? _CMP_NLE_UQ : _CMP_NLT_UQ)));
        if (!whole) passes &= (1u << (size - j)) - 1;
        for (; passes; passes &= passes - 1) found[n++] = static_cast<int32_t>(j + __builtin_ctz(passes));
    }
    count = n;
    return j < size ? j : size;
}

}  // namespace

float top_k_limit_avx2(float const* x, int64_t size, int64_t k, bool smallest) {
    static_assert(kTopKLanes == 4 * Vec::width);
    Vec best[4], sign = sign_of(smallest);
    for (auto& b : best) b = Vec::set(-__builtin_inff());
    for (int64_t j = 0; j + kTopKLanes <= size; j += kTopKLanes)
        for (int i = 0; i < 4; ++i) best[i] = max(bit_xor(Vec::load(x + j + i * Vec::width), sign), best[i]);
    if (k == 1) return max_of(max(max(best[0], best[1]), max(best[2], best[3])));
    float lanes[kTopKLanes];
    for (int i = 0; i < 4; ++i) best[i].store(lanes + i * Vec::width);
    // The k greatest, in order.
    for (int64_t i = 1; i < kTopKLanes; ++i) {
        float value = lanes[i];
        int64_t to = i < k ? i : k;
        for (; to > 0 && lanes[to - 1] < value; --to)
            if (to < k) lanes[to] = lanes[to - 1];
        if (to < k) lanes[to] = value;
    }
    return lanes[k - 1];
}

int64_t top_k_scan_avx2(float const* x, int64_t begin, int64_t size, TopKFilter const& filter, int32_t* found,
                        int64_t room, int64_t& count) {
    return filter.strict ? scan<true>(x, begin, size, filter, found, room, count)
                         : scan<false>(x, begin, size, filter, found, room, count);
}

}  // namespace refactor::kernel
