#include "conv/winograd_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_avx512(int64_t outputs) { return planes_of(outputs); }
WinogradIsa const& winograd_strided_avx512(int64_t outputs) { return strided_planes_of(outputs); }

}  // namespace refactor::kernel
