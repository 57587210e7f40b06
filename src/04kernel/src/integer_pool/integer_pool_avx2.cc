#include "integer_matmul/integer_lanes_avx2.h"
#include "integer_pool/integer_pool.h"

namespace refactor::kernel {
namespace {

constexpr int64_t kBytes = 32;

RG_SIMD __m256i load(uint8_t const* p) { return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)); }

/// `n` channels from `c` on, fewer than a vector.
RG_SIMD void max_rest(IntegerPoolBlock const& b, int64_t c, int64_t n) {
    auto* y = static_cast<uint8_t*>(b.y) + c;
    int flip = b.is_signed ? 0x80 : 0;
    for (int64_t i = 0; i < n; ++i) {
        int most = b.x[0][c + i] ^ flip;
        for (int64_t tap = 1; tap < b.taps; ++tap) {
            int value = b.x[tap][c + i] ^ flip;
            most = value > most ? value : most;
        }
        y[i] = static_cast<uint8_t>(most ^ flip);
    }
}

template <bool is_signed>
RG_SIMD void max_whole(IntegerPoolBlock const& b, int64_t c) {
    __m256i most = load(b.x[0] + c);
    for (int64_t tap = 1; tap < b.taps; ++tap) {
        __m256i value = load(b.x[tap] + c);
        most = is_signed ? _mm256_max_epi8(most, value) : _mm256_max_epu8(most, value);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<uint8_t*>(b.y) + c), most);
}

void max(IntegerPoolBlock const& b) {
    int64_t c = 0;
    for (; c + kBytes <= b.channels; c += kBytes) b.is_signed ? max_whole<true>(b, c) : max_whole<false>(b, c);
    if (c < b.channels) max_rest(b, c, b.channels - c);
}

RG_SIMD void store(IntegerPoolBlock const& b, Lanes sum, int64_t c, int64_t n) {
    Floats value = (to_float(sum) * Floats::set(b.inverse) - Floats::set(b.zero)) * Floats::set(b.scale);
    alignas(32) uint8_t results[kBytes];
    int64_t size = b.to_float ? 4 : 1;
    auto* y = static_cast<uint8_t*>(b.y) + c * size;
    auto* target = n == Lanes::width ? y : results;
    if (b.to_float) {
        value.store(target);
    } else {
        float low = static_cast<float>((b.is_signed ? -128 : 0) - b.y_zero);
        value = min(max(value, Floats::set(low)), Floats::set(low + 255));
        (round(value) + Lanes::set(b.y_zero)).store_bytes(target);
    }
    for (int64_t i = 0; target == results && i < n * size; ++i) y[i] = results[i];
}

template <bool is_signed>
RG_SIMD void average_whole(IntegerPoolBlock const& b, int64_t c) {
    Lanes sums[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
    for (int64_t tap = 0; tap < b.taps; ++tap)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            uint8_t const* p = b.x[tap] + c + v * Lanes::width;
            sums[v] = sums[v] + (is_signed ? Lanes::load_signed(p) : Lanes::load_bytes(p));
        }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) store(b, sums[v], c + v * Lanes::width, Lanes::width);
}

RG_SIMD void average_rest(IntegerPoolBlock const& b, int64_t c, int64_t n) {
    alignas(32) int32_t sums[Lanes::width] = {};
    for (int64_t tap = 0; tap < b.taps; ++tap)
        for (int64_t i = 0; i < n; ++i) {
            uint8_t byte = b.x[tap][c + i];
            sums[i] += b.is_signed ? static_cast<int8_t>(byte) : byte;
        }
    store(b, Lanes::load(sums), c, n);
}

void average(IntegerPoolBlock const& b) {
    int64_t c = 0;
    for (; c + kBytes <= b.channels; c += kBytes) b.is_signed ? average_whole<true>(b, c) : average_whole<false>(b, c);
    for (; c < b.channels; c += Lanes::width)
        average_rest(b, c, b.channels - c < Lanes::width ? b.channels - c : Lanes::width);
}

}  // namespace

IntegerPoolLoops integer_pool_loops_avx2() { return {max, average}; }

}  // namespace refactor::kernel
