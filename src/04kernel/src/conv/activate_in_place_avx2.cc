#include "conv/activate_in_place_impl.h"

namespace refactor::kernel {

void activate_in_place_avx2(float* y, int64_t count, Activation const& activation) {
    activate_in_place(y, count, activation);
}

}  // namespace refactor::kernel
