#include "conv/winograd_line_impl.h"

namespace refactor::kernel {

WinogradIsa const& winograd_line_avx512(WinogradForm const& form) { return line_of(form); }

}  // namespace refactor::kernel
