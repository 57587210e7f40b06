#pragma once
#include <cstdint>

namespace refactor::kernel {

/// What becomes of integers: the largest, the smallest, or sums and products that wrap.
enum class Fold : uint8_t { Max, Min, Sum, Product };

/// One integer of `size` ones (at least one) `stride` apart, for each of `columns` neighbours; of one column with a
/// stride of 1 they are neighbours themselves.
template <class T>
struct FoldColumns {
    T const* x;
    T* y;
    int64_t size, stride, columns;
    Fold fold;
};
void fold_columns_avx2(FoldColumns<int8_t> const& columns);
void fold_columns_avx2(FoldColumns<uint8_t> const& columns);
void fold_columns_avx2(FoldColumns<int32_t> const& columns);
void fold_columns_avx2(FoldColumns<int64_t> const& columns);
/// Sums and products alone, which are those of signed integers, too.
void fold_columns_avx2(FoldColumns<uint32_t> const& columns);
void fold_columns_avx2(FoldColumns<uint64_t> const& columns);

/// Sums of 64 bits.
struct WidenColumns {
    int32_t const* x;
    int64_t* y;
    int64_t size, stride, columns;
};
void widen_columns_avx2(WidenColumns const& columns);

/// Quotients of `count` sums, rounded towards zero.
void divide_sums_avx2(int64_t const* sums, int64_t count, int64_t divisor, int32_t* y);
void divide_sums_avx2(int64_t const* sums, int64_t count, int64_t divisor, int64_t* y);

}  // namespace refactor::kernel
