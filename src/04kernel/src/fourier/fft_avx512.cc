#include "fourier/fft_impl.h"

namespace refactor::kernel {

FftFunctions const& fft_functions_avx512() { return kFunctions; }

}  // namespace refactor::kernel
