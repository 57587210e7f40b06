#pragma once
#include "pass.h"

namespace refactor::computation {

/// From a graph that the passes are done with to a Program: asks for kernels, takes over what was packed before, and
/// plans where all sizes are fixed. `place` null: the host. Throws `Unsupported` naming every node that no kernel
/// accepts, with all reasons.
std::shared_ptr<kernel::Program> lower(Model& model, PassContext const& context, mem_manager::Device* place,
                                       std::vector<kernel::PackCache::Entry> packs = {});

}  // namespace refactor::computation
