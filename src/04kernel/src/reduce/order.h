#pragma once
#include <cstdint>

namespace refactor::kernel {

/// The largest, or smallest, of `size` integers `stride` apart, for each of `columns` neighbours; of one column they
/// are neighbours themselves.
template <class T>
struct OrderColumns {
    T const* x;
    T* y;
    int64_t size, stride, columns;
    bool max;
};
void order_columns_avx2(OrderColumns<int8_t> const& order);
void order_columns_avx2(OrderColumns<uint8_t> const& order);
void order_columns_avx2(OrderColumns<int32_t> const& order);
void order_columns_avx2(OrderColumns<int64_t> const& order);

}  // namespace refactor::kernel
