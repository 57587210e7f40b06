#include "passes/edges.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"

#include <algorithm>

namespace refactor::computation {

bool is_private(EdgePtr edge) { return edge->only_consumer() && !edge->value.keep; }

bool is_behind_convolution(EdgePtr edge) {
    for (auto* node = edge->producer(); node; node = edge->producer()) {
        auto const& op = *node->value.op;
        if (info_of<kernel::ConvInfo>(op) || info_of<kernel::ConvTransposeInfo>(op)) return true;
        if (!info_of<kernel::ElementwiseInfo>(op)) return false;
        auto const inputs = node->inputs();
        auto whole =
            std::find_if(inputs.begin(), inputs.end(), [&](EdgePtr x) { return x->value.shape == edge->value.shape; });
        if (whole == inputs.end()) return false;
        edge = *whole;
    }
    return false;
}

}  // namespace refactor::computation
