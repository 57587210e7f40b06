#pragma once
#include "matmul/product.h"

#include <cstdint>

namespace refactor::kernel {

/// Packs B [K, N], or [N, K] if `columns`, of elements of `bytes` (1 or 2) bytes into panels of `panel` columns, the
/// last one as wide as the columns left, rounded up to `width` with zeros.
void pack_weights(void* target, void const* b, size_t bytes, bool columns, int64_t n, int64_t k, int64_t panel,
                  int64_t width);

}  // namespace refactor::kernel
