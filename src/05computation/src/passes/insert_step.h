#pragma once
#include "computation/graph.h"

#include <string_view>
#include <vector>

namespace refactor::computation {

/// Inserts `op` on `inputs`. Its output has the type and layout of `like` and is named after it, with ".`what`" behind.
EdgePtr insert_step(Graph& graph, EdgePtr like, std::string_view what, std::shared_ptr<Operator const> op,
                    std::vector<EdgePtr> const& inputs, Shape shape);

}  // namespace refactor::computation
