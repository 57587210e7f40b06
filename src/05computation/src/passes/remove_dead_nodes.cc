#include "passes/remove_dead_nodes.h"

namespace refactor::computation {

int remove_dead_nodes(Model& model, PassContext const&) {
    int removed = 0;
    for (auto* node : model.graph.topological().reversed()) {
        bool used = false;
        for (auto* edge : node->outputs()) used |= edge->use_count() != 0 || edge->value.keep;
        if (used) continue;
        model.graph.erase(node);
        ++removed;
    }
    return removed;
}

}  // namespace refactor::computation
