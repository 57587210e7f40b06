#include "resize/resize_pass.h"

namespace refactor::kernel {
namespace {

template <class T>
void sample_row(ResizePass const& p, T const* x, T* y) {
    for (int64_t o = 0; o < p.out; ++o) {
        T sum = 0;
        for (int64_t k = o * p.taps; k < (o + 1) * p.taps; ++k)
            if (p.weight[k] != 0) sum += static_cast<T>(p.weight[k]) * x[p.index[k]];
        y[o] = sum;
    }
}

void pick_words(int32_t const* index, int64_t count, uint32_t const* x, int64_t, uint32_t* y) {
    for (int64_t i = 0; i < count; ++i) y[i] = x[index[i]];
}

}  // namespace
}  // namespace refactor::kernel

#include "resize/resize_pass_impl.h"

namespace refactor::kernel {

ResizeFunctions const& resize_functions() {
    static constexpr ResizeFunctions kFunctions{resize<float>, blend<float>, widen_row, blend_narrow, pick_words};
    return kFunctions;
}

void resize_rows(ResizePass const& pass, double const* x, double* y, int64_t begin, int64_t end) {
    resize(pass, x, y, begin, end);
}

}  // namespace refactor::kernel
