#include "conv/winograd_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_avx512() { return kWinogradIsa; }

}  // namespace refactor::kernel
