#include <immintrin.h>
//
#include <cstddef>
#include <cstdint>

namespace refactor::kernel::movement {

// Declared in row_pieces.h, which an ISA file must not include: it brings shared inline functions.
void copy_runs_avx2(std::byte const* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count,
                    int64_t bytes);

void copy_runs_avx2(std::byte const* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count,
                    int64_t bytes) {
    constexpr int64_t kVector = 32, kTwo = 2 * kVector;
    auto load = [](std::byte const* p) __attribute__((always_inline)) {
        return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(p));
    };
    auto store = [](std::byte * p, __m256i v) __attribute__((always_inline)) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
    };
    for (; count > 0; --count, from += from_step, to += to_step) {
        // The last two vectors end with the run and overlap others.
        __m256i a = load(from + bytes - kTwo), b = load(from + bytes - kVector);
        for (int64_t i = 0; i + kTwo < bytes; i += kTwo) {
            __m256i c = load(from + i), d = load(from + i + kVector);
            store(to + i, c), store(to + i + kVector, d);
        }
        store(to + bytes - kTwo, a), store(to + bytes - kVector, b);
    }
}

}  // namespace refactor::kernel::movement
