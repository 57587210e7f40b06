#include "resize/resize_pass_impl.h"

namespace refactor::kernel {

void resize_rows_avx2(ResizePass const& pass, float const* x, float* y, int64_t begin, int64_t end) {
    resize_all(pass, x, y, begin, end);
}

}  // namespace refactor::kernel
