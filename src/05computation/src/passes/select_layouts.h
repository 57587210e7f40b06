#pragma once
#include "pass.h"

namespace refactor::computation {

/// Chooses for every tensor between row-major and channel-blocked memory, so that the bytes moved by reorders (and by
/// convolutions that would have to reorder inside) are minimal over the whole graph, and inserts the Reorder nodes.
///
/// Two labels per node and a price for every tensor whose ends differ make a minimum cut, which is solved exactly
/// (Boykov, Veksler, Zabih, "Fast approximate energy minimization via graph cuts", PAMI 2001, section 2). Unknown sizes
/// are taken from `AssumedSizes`. Must run after all fusions: they match row-major graphs. Global inputs, outputs and
/// kept tensors stay row-major.
int select_layouts(Model&, PassContext const&);

}  // namespace refactor::computation
