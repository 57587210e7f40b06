#pragma once
#include "computation/graph.h"

#include <vector>

namespace refactor::computation {

/// a·x + b with one value per channel, or one for all; without x if not `variable`.
struct Affine {
    bool variable = false;
    std::vector<double> a{0}, b{0};
};

/// Of one value per channel, or one for all, that of channel `i`.
inline double pick(std::vector<double> const& values, size_t i) { return values.size() == 1 ? values[0] : values[i]; }

/// The program of the Elementwise `node` as an affine function of `x` by constants, whose channels are on `axis` of the
/// output; nothing if it is not one. Halves may be computed in f32.
std::optional<Affine> affine_of(NodePtr node, EdgePtr x, size_t axis, int64_t channels);

}  // namespace refactor::computation
