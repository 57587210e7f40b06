#pragma once
#include "common/cpu_features.h"
#include "conv/geometry.h"
#include "conv/winograd.h"

namespace refactor::kernel {

/// The transforms of a form.
WinogradIsa const& winograd_isa(WinogradForm const&, Isa);

/// ns of a convolution; `bytes`: of X and Y.
double winograd_time(Geometry const&, WinogradForm const&, Isa, int threads, double bytes);

}  // namespace refactor::kernel
