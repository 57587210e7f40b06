#include "frontend/attributes.h"

namespace refactor::frontend {

std::string_view kind_of(Attribute const& attribute) {
    static constexpr std::string_view kNames[]{"int",     "float",  "string", "ints", "floats",
                                               "strings", "tensor", "graph",  "type"};
    static_assert(std::size(kNames) == std::variant_size_v<Attribute>);
    return kNames[attribute.index()];
}

Attribute const* find(Attributes const& attributes, std::string_view name) {
    for (auto const& [key, value] : attributes)
        if (key == name) return &value;
    return nullptr;
}

}  // namespace refactor::frontend
