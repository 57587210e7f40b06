#include "simd/lanes_bf16.h"
//
#include "pool/pool_positions_impl.h"
#include "pool/pool_sliding_impl.h"

namespace refactor::kernel {
namespace {

void rows(BlockJob const& j) { slides(j) ? slide_rows(j) : run_rows(j); }

void whole(GlobalPoolJobOf<uint16_t> const& j) {
    Lanes result = j.maximum ? reduce<true>(j.x, j.positions)
                             : reduce<false>(j.x, j.positions) / Vec::set(static_cast<float>(j.positions));
    result.low().store(j.y);
    if (j.channels > W) result.high().store(j.y + W);
}

constexpr PoolIsaBf16 kPoolIsaBf16{kLanes, rows, whole};

}  // namespace

PoolIsaBf16 const& pool_avx512bf16() { return kPoolIsaBf16; }

}  // namespace refactor::kernel
