#include "registry.h"

#include "onnx/model_builder.h"

#include <algorithm>
#include <map>

namespace refactor::onnx {

#define RG_ONNX_OPERATORS(family) void define_##family(Definitions&);
#include "operator_list.inc"
#undef RG_ONNX_OPERATORS

namespace {

using Versions = std::vector<OperatorDef>;
using Key = std::pair<std::string_view, std::string_view>;

std::map<Key, Versions> make_registry() {
    Definitions all;
#define RG_ONNX_OPERATORS(family) define_##family(all);
#include "operator_list.inc"
#undef RG_ONNX_OPERATORS
    std::map<Key, Versions> registry;
    for (auto& def : all) registry[{def.domain, def.name}].push_back(std::move(def));
    for (auto& [key, versions] : registry)
        std::sort(versions.begin(), versions.end(), [](auto const& a, auto const& b) { return a.since < b.since; });
    return registry;
}

Versions const* versions_of(std::string_view domain, std::string_view op_type) {
    static auto const kRegistry = make_registry();
    auto it = kRegistry.find({domain == "ai.onnx" ? std::string_view{} : domain, op_type});
    return it == kRegistry.end() ? nullptr : &it->second;
}

}  // namespace

OperatorDef const* find_operator(std::string_view domain, std::string_view op_type, int64_t opset) {
    OperatorDef const* found = nullptr;
    if (auto* versions = versions_of(domain, op_type))
        for (auto const& def : *versions)
            if (def.since <= opset) found = &def;
    return found && found->infer ? found : nullptr;
}

bool is_known(std::string_view domain, std::string_view op_type) { return versions_of(domain, op_type); }

bool is_supported(std::string_view domain, std::string_view op_type, int64_t opset) {
    return find_operator(domain, op_type, opset);
}

int64_t newest_opset() { return 28; }

}  // namespace refactor::onnx
