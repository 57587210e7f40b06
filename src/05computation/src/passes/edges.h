#pragma once
#include "computation/graph.h"

namespace refactor::computation {

/// Whether one node alone reads it, once.
bool is_private(EdgePtr edge);
/// Whether `edge` is what a convolution makes, or was made of that element by element.
bool is_behind_convolution(EdgePtr edge);

}  // namespace refactor::computation
