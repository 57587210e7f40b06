#include "simd/lanes_f32.h"
//
#include "conv/depthwise_impl.h"

namespace refactor::kernel {

DepthwiseIsa const& depthwise_avx512() { return kDepthwiseIsa; }

}  // namespace refactor::kernel
