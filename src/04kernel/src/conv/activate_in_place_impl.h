#pragma once
#include "conv/activate_in_place.h"
#include "simd/math.h"
//
#include "simd/activate.h"

namespace refactor::kernel {
namespace {

void activate_in_place(float* y, int64_t count, Activation const& activation) {
    constexpr int W = Vec::width;
    Vec const alpha = Vec::set(activation.alpha), beta = Vec::set(activation.beta);
    int64_t i = 0;
    for (; i + W <= count; i += W) activate(activation.kind, Vec::load(y + i), alpha, beta).store(y + i);
    if (i == count) return;
    int const left = static_cast<int>(count - i);
    activate(activation.kind, Vec::load_first(y + i, left), alpha, beta).store_first(y + i, left);
}

}  // namespace
}  // namespace refactor::kernel
