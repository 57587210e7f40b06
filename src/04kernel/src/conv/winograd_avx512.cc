#include "conv/winograd_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_avx512(int64_t outputs) { return planes_of(outputs); }

}  // namespace refactor::kernel
