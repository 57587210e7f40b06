#include "integer_matmul/integer_lanes_avx2.h"
#include "integer_pool/integer_pool.h"

#include <type_traits>

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

/// Of 16 or 8 channels.
template <bool is_signed, int bytes>
RG_SIMD void max_part(IntegerPoolBlock const& b, int64_t c) {
    auto load = [c](uint8_t const* p) __attribute__((always_inline)) {
        auto const* from = reinterpret_cast<__m128i const*>(p + c);
        return bytes == 16 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from);
    };
    __m128i most = load(b.x[0]);
    for (int64_t tap = 1; tap < b.taps; ++tap)
        most = is_signed ? _mm_max_epi8(most, load(b.x[tap])) : _mm_max_epu8(most, load(b.x[tap]));
    auto* to = reinterpret_cast<__m128i*>(static_cast<uint8_t*>(b.y) + c);
    bytes == 16 ? _mm_storeu_si128(to, most) : _mm_storel_epi64(to, most);
}

template <bool is_signed>
RG_SIMD void max_of(IntegerPoolBlock const& b) {
    int64_t c = 0;
    for (; c + kBytes <= b.channels; c += kBytes) max_whole<is_signed>(b, c);
    // The last channels may overlap those before.
    auto part = [&](auto width) __attribute__((always_inline)) {
        for (; b.channels >= width && c < b.channels; c += width) {
            if (c > b.channels - width) c = b.channels - width;
            max_part<is_signed, width>(b, c);
        }
    };
    if (b.channels - c > 8) part(std::integral_constant<int, 16>{});
    part(std::integral_constant<int, 8>{});
    if (c < b.channels) max_rest(b, c, b.channels - c);
}

void max(IntegerPoolBlock const& b) { b.is_signed ? max_of<true>(b) : max_of<false>(b); }

RG_SIMD Floats mean(IntegerPoolBlock const& b, Lanes sum) {
    return to_float(sum - Lanes::set(b.zeros)) * Floats::set(b.scale);
}

RG_SIMD void store(IntegerPoolBlock const& b, Lanes sum, int64_t c, int64_t n) {
    Floats value = mean(b, sum);
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

/// Of 32 channels in order. Packing saturates as bounds would, and works on halves.
RG_SIMD void store_bytes(IntegerPoolBlock const& b, Lanes const (&sums)[4], uint8_t* y) {
    __m256i parts[4], zero = _mm256_set1_epi16(static_cast<int16_t>(b.y_zero));
    for (int i = 0; i < 4; ++i) parts[i] = round(min(max(mean(b, sums[i]), Floats::set(-1024)), Floats::set(1024))).v;
    __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(parts[0], parts[1]), zero);
    __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(parts[2], parts[3]), zero);
    __m256i bytes = b.is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), bytes);
}

/// Of `vectors` times 32 channels. Bytes of two taps are added to one number of 16 bits, which holds 256 of them.
template <int vectors>
RG_SIMD void average_whole(IntegerPoolBlock const& b, int64_t c) {
    constexpr int64_t kTaps = 256;
    __m256i const ones = _mm256_set1_epi8(1), flip = _mm256_set1_epi8(static_cast<char>(b.is_signed ? 0x80 : 0));
    Lanes sums[vectors][4];
    for (auto& of_vector : sums)
        for (Lanes& sum : of_vector) sum = Lanes::set(b.is_signed ? static_cast<int32_t>(-128 * b.taps) : 0);
    for (int64_t first = 0; first < b.taps; first += kTaps) {
        // Channels 0 to 7 and 16 to 23 of each vector, and the others.
        __m256i low[vectors] = {}, high[vectors] = {};
        auto add = [&](int v, __m256i x, __m256i y) __attribute__((always_inline)) {
            low[v] = _mm256_add_epi16(low[v], _mm256_maddubs_epi16(_mm256_unpacklo_epi8(x, y), ones));
            high[v] = _mm256_add_epi16(high[v], _mm256_maddubs_epi16(_mm256_unpackhi_epi8(x, y), ones));
        };
        auto read = [&](int64_t tap, int v) __attribute__((always_inline)) {
            return _mm256_xor_si256(load(b.x[tap] + c + v * kBytes), flip);
        };
        int64_t tap = first, end = b.taps - first < kTaps ? b.taps : first + kTaps;
        for (; tap + 2 <= end; tap += 2)
            for (int v = 0; v < vectors; ++v) add(v, read(tap, v), read(tap + 1, v));
        if (tap < end)
            for (int v = 0; v < vectors; ++v) add(v, read(tap, v), _mm256_setzero_si256());
        auto widen = [](__m128i x) { return Lanes{_mm256_cvtepu16_epi32(x)}; };
        for (int v = 0; v < vectors; ++v) {
            sums[v][0] = sums[v][0] + widen(_mm256_castsi256_si128(low[v]));
            sums[v][1] = sums[v][1] + widen(_mm256_castsi256_si128(high[v]));
            sums[v][2] = sums[v][2] + widen(_mm256_extracti128_si256(low[v], 1));
            sums[v][3] = sums[v][3] + widen(_mm256_extracti128_si256(high[v], 1));
        }
    }
    for (int v = 0; v < vectors; ++v)
        if (b.to_float)
            for (int i = 0; i < 4; ++i) store(b, sums[v][i], c + v * kBytes + i * Lanes::width, Lanes::width);
        else
            store_bytes(b, sums[v], static_cast<uint8_t*>(b.y) + c + v * kBytes);
}

template <bool is_signed>
RG_SIMD void average_lanes(IntegerPoolBlock const& b, int64_t c) {
    Lanes sum = Lanes::zero();
    for (int64_t tap = 0; tap < b.taps; ++tap)
        sum = sum + (is_signed ? Lanes::load_signed(b.x[tap] + c) : Lanes::load_bytes(b.x[tap] + c));
    store(b, sum, c, Lanes::width);
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
    for (; c + 2 * kBytes <= b.channels; c += 2 * kBytes) average_whole<2>(b, c);
    if (c + kBytes <= b.channels) average_whole<1>(b, c), c += kBytes;
    for (; c + Lanes::width <= b.channels; c += Lanes::width)
        b.is_signed ? average_lanes<true>(b, c) : average_lanes<false>(b, c);
    if (c < b.channels) average_rest(b, c, b.channels - c);
}

}  // namespace

IntegerPoolLoops integer_pool_loops_avx2() { return {max, average}; }

}  // namespace refactor::kernel
