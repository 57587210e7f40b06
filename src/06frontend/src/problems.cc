#include "common/error.h"
#include "frontend/graph.h"

namespace refactor::frontend {

void Problems::add(std::string_view node, InferError const& error) {
    if (error.kind == InferError::Kind::Invalid) invalid.push_back(concat(node, ": ", error.text));
    if (error.kind == InferError::Kind::NotSupported) unsupported.push_back(concat(node, ": ", error.text));
}

void Problems::raise() const {
    if (empty()) return;
    // A broken model may have as many problems as nodes; nobody reads more than these.
    constexpr size_t kShown = 100;
    auto count = invalid.size() + unsupported.size();
    std::string text = concat("the model has ", count, count == 1 ? " problem" : " problems", ":");
    size_t shown = 0;
    for (auto const* list : {&invalid, &unsupported})
        for (auto const& problem : *list)
            if (shown++ < kShown) text += concat("\n  ", list == &invalid ? "" : "unsupported: ", problem);
    if (count > kShown) text += concat("\n  and ", count - kShown, " more");
    if (!invalid.empty()) throw InvalidModel(std::move(text));
    throw Unsupported(std::move(text));
}

}  // namespace refactor::frontend
