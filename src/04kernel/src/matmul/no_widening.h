#pragma once
// Panels of pairs come in no smaller type. Include `product_tile.h` first.

namespace refactor::kernel {
namespace {

RG_SIMD void widen_rows(Block const&, int64_t, int64_t, int64_t, int64_t, int64_t) {}

}  // namespace
}  // namespace refactor::kernel
