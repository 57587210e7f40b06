#include "gather_matmul/routed_panels.h"

#include "common/cpu_features.h"

namespace refactor::kernel {

RoutedPanels::RoutedPanels(ProductFunctions const& f, int64_t k, int64_t step, int64_t most)
    : f_(f), k_(k), most_(most) {
    // A panel shares L2 with what it was made of and rows of A.
    auto deepest = static_cast<int64_t>(cpu_features().l2 / sizeof(float)) / 8 / f.panel;
    depth_ = std::min(std::max<int64_t>(1, deepest / step), ceil_div(k, step)) * step;
}

}  // namespace refactor::kernel
