#include "simd/vec_f64_avx512.h"
// Written against it.
#include "conv/winograd_filters_impl.h"

namespace refactor::kernel {

FilterFunction winograd_filters_avx512(WinogradForm const& form) { return filters_of(form); }

}  // namespace refactor::kernel
