#include "conv/winograd_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_avx2(WinogradForm const& form) { return planes_of(form); }

}  // namespace refactor::kernel
