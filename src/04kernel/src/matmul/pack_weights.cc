#include "matmul/pack_weights.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

template <class T>
void pack_rows(T* target, T const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t p = 0; p < k; ++p, b += b_row, target += wide) std::fill_n(std::copy_n(b, n, target), wide - n, T{});
}

template <class T>
void pack_columns(T* target, T const* b, int64_t n, int64_t k, int64_t wide) {
    // As many rows of the panel as stay in L1 (64 columns of 2 bytes: 8 KiB).
    constexpr int64_t kDeep = 64;
    for (int64_t p0 = 0; p0 < k; p0 += kDeep)
        for (int64_t j = 0; j < wide; ++j)
            for (auto p = p0; p < std::min(k, p0 + kDeep); ++p) target[p * wide + j] = j < n ? b[j * k + p] : T{};
}

template <class T>
void pack(T* target, T const* b, bool columns, int64_t n, int64_t k, int64_t panel, int64_t width) {
    for (int64_t j = 0; j < n; j += panel) {
        auto count = std::min(panel, n - j), wide = (count + width - 1) / width * width;
        if (columns)
            pack_columns(target, b + j * k, count, k, wide);
        else
            pack_rows(target, b + j, n, count, k, wide);
        target += wide * k;
    }
}

}  // namespace

void pack_weights(void* target, void const* b, size_t bytes, bool columns, int64_t n, int64_t k, int64_t panel,
                  int64_t width) {
    if (bytes == 1)
        pack(static_cast<uint8_t*>(target), static_cast<uint8_t const*>(b), columns, n, k, panel, width);
    else
        pack(static_cast<uint16_t*>(target), static_cast<uint16_t const*>(b), columns, n, k, panel, width);
}

}  // namespace refactor::kernel
