#include "matmul/pack_weights.h"

#include "mem_manager/blob.h"

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

/// The last panel is as wide as the columns left, rounded up to whole vectors with zeros.
void pack_small(void* target, void const* b, size_t bytes, bool columns, int64_t n, int64_t k, int64_t panel,
                int64_t width) {
    if (bytes == 1)
        pack(static_cast<uint8_t*>(target), static_cast<uint8_t const*>(b), columns, n, k, panel, width);
    else
        pack(static_cast<uint16_t*>(target), static_cast<uint16_t const*>(b), columns, n, k, panel, width);
}

}  // namespace

template <class T>
std::shared_ptr<mem_manager::Blob const> pack_panels(ProductFunctionsOf<T> const& functions, mem_manager::Blob const& b,
                                                     DataType type, bool columns, int64_t n, int64_t k,
                                                     PackCache& packs) {
    auto element = storage_bytes(type, 1);
    auto format = "matmul:" + std::to_string(functions.panel) + (columns ? ":T:" : ":N:") + std::to_string(n) + "x" +
                  std::to_string(k);
    auto wide = (n + functions.width - 1) / functions.width * functions.width;
    return packs.get(b, format, static_cast<size_t>(wide * k) * element, [&](void const* from, void* target) {
        if (element < sizeof(T))
            return pack_small(target, from, element, columns, n, k, functions.panel, functions.width);
        functions.pack(static_cast<T*>(target), static_cast<T const*>(from), columns ? k : n, columns, n, k);
    });
}

template <class T>
std::shared_ptr<mem_manager::Blob const> pack_columns(ProductFunctionsOf<T> const& functions,
                                                      mem_manager::Blob const& b, bool columns, int64_t n, int64_t k,
                                                      PackCache& packs) {
    auto wide = (k + functions.width - 1) / functions.width * functions.width;
    auto format = "matmul_columns:" + std::to_string(functions.width) + (columns ? ":T:" : ":N:") + std::to_string(n) +
                  "x" + std::to_string(k);
    return packs.get(b, format, static_cast<size_t>(n * wide) * sizeof(T), [&](void const* from, void* to) {
        auto const* matrix = static_cast<T const*>(from);
        auto* target = static_cast<T*>(to);
        for (int64_t j = 0; j < n; ++j)
            for (int64_t p = 0; p < wide; ++p)
                *target++ = p >= k ? T{} : columns ? matrix[j * k + p] : matrix[p * n + j];
    });
}

template <class T>
std::shared_ptr<mem_manager::Blob const> turn_rows(mem_manager::Blob const& b, int64_t n, int64_t k, PackCache& packs) {
    auto format = "matmul_turned:" + std::to_string(n) + "x" + std::to_string(k);
    return packs.get(b, format, static_cast<size_t>(n * k) * sizeof(T), [&](void const* from, void* to) {
        pack_columns(static_cast<T*>(to), static_cast<T const*>(from), n, k, n);
    });
}
template std::shared_ptr<mem_manager::Blob const> turn_rows<float>(mem_manager::Blob const&, int64_t, int64_t,
                                                                   PackCache&);
template std::shared_ptr<mem_manager::Blob const> turn_rows<double>(mem_manager::Blob const&, int64_t, int64_t,
                                                                    PackCache&);

template std::shared_ptr<mem_manager::Blob const> pack_columns(ProductFunctionsOf<float> const&,
                                                               mem_manager::Blob const&, bool, int64_t, int64_t,
                                                               PackCache&);
template std::shared_ptr<mem_manager::Blob const> pack_columns(ProductFunctionsOf<double> const&,
                                                               mem_manager::Blob const&, bool, int64_t, int64_t,
                                                               PackCache&);

template std::shared_ptr<mem_manager::Blob const> pack_panels(ProductFunctionsOf<float> const&,
                                                              mem_manager::Blob const&, DataType, bool, int64_t,
                                                              int64_t, PackCache&);
template std::shared_ptr<mem_manager::Blob const> pack_panels(ProductFunctionsOf<double> const&,
                                                              mem_manager::Blob const&, DataType, bool, int64_t,
                                                              int64_t, PackCache&);

}  // namespace refactor::kernel
