#pragma once
// Vectors as halves and as arrays.

namespace refactor {
namespace {

struct Halves {
    __m256 low, high;
};
struct IntegerHalves {
    __m256i low, high;
};

RG_EMULATED Halves halves(__m512 a) {
    Halves h;
    std::memcpy(&h, &a, sizeof h);
    return h;
}
RG_EMULATED IntegerHalves halves(__m512i a) {
    IntegerHalves h;
    std::memcpy(&h, &a, sizeof h);
    return h;
}
RG_EMULATED __m512 join(__m256 low, __m256 high) {
    Halves h{low, high};
    __m512 a;
    std::memcpy(&a, &h, sizeof a);
    return a;
}
RG_EMULATED __m512i join(__m256i low, __m256i high) {
    IntegerHalves h{low, high};
    __m512i a;
    std::memcpy(&a, &h, sizeof a);
    return a;
}

/// The elements of a vector of any width.
template <class T, class V>
struct Elements {
    static constexpr int count = sizeof(V) / sizeof(T);
    T x[count];

    RG_EMULATED explicit Elements(V const& v) { std::memcpy(x, &v, sizeof v); }
    RG_EMULATED V vector() const {
        V v;
        std::memcpy(&v, x, sizeof v);
        return v;
    }
};

RG_EMULATED void want_aligned(void const* p) {
    if (reinterpret_cast<uintptr_t>(p) % 64) __builtin_trap();
}

template <class T>
RG_EMULATED T saturated(int32_t x) {
    constexpr int32_t kLow = sizeof(T) == 1 ? (T(-1) < T(0) ? -128 : 0) : -32768;
    constexpr int32_t kHigh = sizeof(T) == 1 ? (T(-1) < T(0) ? 127 : 255) : 32767;
    return static_cast<T>(x < kLow ? kLow : x > kHigh ? kHigh : x);
}

}  // namespace
}  // namespace refactor
