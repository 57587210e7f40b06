#include "conv/winograd_line_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_line_avx2(int64_t taps) { return line_of(taps); }

}  // namespace refactor::kernel
