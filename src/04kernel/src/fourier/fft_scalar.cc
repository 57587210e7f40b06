#include "fourier/fft_impl.h"

namespace refactor::kernel {

FftFunctions const& fft_functions_scalar() { return kFunctions; }

}  // namespace refactor::kernel
