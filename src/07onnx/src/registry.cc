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

std::map<Key, Versions> const& registry() {
    static auto const kRegistry = make_registry();
    return kRegistry;
}

Versions const* versions_of(std::string_view domain, std::string_view op_type) {
    auto it = registry().find({domain == "ai.onnx" ? std::string_view{} : domain, op_type});
    return it == registry().end() ? nullptr : &it->second;
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

std::vector<SupportedOperator> supported_operators() {
    std::vector<SupportedOperator> out;
    for (auto const& [key, versions] : registry())
        for (size_t i = 0; i < versions.size(); ++i) {
            if (!versions[i].infer) continue;
            std::optional<int64_t> last;
            if (i + 1 < versions.size()) last = versions[i + 1].since - 1;
            out.push_back({std::string(key.first), std::string(key.second), versions[i].since, last});
        }
    return out;
}

}  // namespace refactor::onnx
