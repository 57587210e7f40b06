#include "arg_reduce/arg_integers.h"
#include "arg_reduce/position.h"

#include <type_traits>

namespace refactor::kernel {
namespace {

/// Rows whose numbers fit the narrowest element.
constexpr int64_t kRows = 128;

template <bool kMin, bool kLast, class T>
[[gnu::always_inline]] inline bool better(T x, T best) {
    if constexpr (kLast) return kMin ? x <= best : x >= best;
    return kMin ? x < best : x > best;
}

/// The extreme value of a row, then its position.
template <class T, bool kMin, bool kLast>
int64_t search_row(T const* x, int64_t size) {
    auto best = x[0];
    for (int64_t i = 1; i < size; ++i) best = better<kMin, false>(x[i], best) ? x[i] : best;
    return position_of(x, size, kLast, [best](T value) __attribute__((always_inline)) { return value == best; });
}

/// Neighbouring columns go down some rows with positions as wide as an element, so that both share a vector's lanes.
template <class T, bool kMin, bool kLast>
void search_columns(T const* x, int64_t* y, int64_t size, int64_t stride, int64_t columns) {
    using Position = std::make_unsigned_t<T>;
    T best[kArgColumns], all[kArgColumns];
    Position at[kArgColumns];
    for (int64_t first = 0; first < size; first += kRows) {
        auto const* row = x + first * stride;
        for (int64_t j = 0; j < columns; ++j) best[j] = row[j], at[j] = 0;
        auto count = size - first < kRows ? size - first : kRows;
        for (int64_t r = 1; r < count; ++r) {
            row += stride;
            auto number = static_cast<Position>(r);
            for (int64_t j = 0; j < columns; ++j) {
                bool is_better = better<kMin, kLast>(row[j], best[j]);
                best[j] = is_better ? row[j] : best[j], at[j] = is_better ? number : at[j];
            }
        }
        for (int64_t j = 0; j < columns; ++j)
            if (first == 0 || better<kMin, kLast>(best[j], all[j])) all[j] = best[j], y[j] = first + at[j];
    }
}

template <class T, bool kMin, bool kLast>
void search_one(ArgIntegers const& a) {
    *a.y = search_row<T, kMin, kLast>(static_cast<T const*>(a.x), a.size);
}
template <class T, bool kMin, bool kLast>
void search_some(ArgIntegers const& a) {
    search_columns<T, kMin, kLast>(static_cast<T const*>(a.x), a.y, a.size, a.stride, a.columns);
}

template <class T>
ArgIntegersFunction function_of(bool min, bool last, bool rows) {
    if (rows) {
        if (min) return last ? search_one<T, true, true> : search_one<T, true, false>;
        return last ? search_one<T, false, true> : search_one<T, false, false>;
    }
    if (min) return last ? search_some<T, true, true> : search_some<T, true, false>;
    return last ? search_some<T, false, true> : search_some<T, false, false>;
}

}  // namespace

ArgIntegersFunction arg_integers_avx2(DataType dtype, bool min, bool last, bool rows) {
    switch (dtype) {
        case DataType::I8:
            return function_of<int8_t>(min, last, rows);
        case DataType::I16:
            return function_of<int16_t>(min, last, rows);
        case DataType::I32:
            return function_of<int32_t>(min, last, rows);
        case DataType::I64:
            return function_of<int64_t>(min, last, rows);
        case DataType::U8:
            return function_of<uint8_t>(min, last, rows);
        case DataType::U16:
            return function_of<uint16_t>(min, last, rows);
        case DataType::U32:
            return function_of<uint32_t>(min, last, rows);
        case DataType::U64:
            return function_of<uint64_t>(min, last, rows);
        default:
            return nullptr;
    }
}

}  // namespace refactor::kernel
