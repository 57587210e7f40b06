#include "simd/lanes_bf16.h"
//
#include "conv/depthwise_impl.h"

namespace refactor::kernel {

DepthwiseIsaOf<uint16_t> const& depthwise_avx512bf16() { return kDepthwiseIsa; }

}  // namespace refactor::kernel
