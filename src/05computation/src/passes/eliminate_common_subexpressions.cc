#include "passes/eliminate_common_subexpressions.h"

#include "mem_manager/blob.h"

#include <cstring>
#include <unordered_map>

namespace refactor::computation {

namespace {

/// Constants above this many bytes are told apart by identity alone: comparing weights would cost more than it finds.
constexpr size_t kComparedBytes = 4096;

void append(std::string& key, void const* data, size_t bytes) { key.append(static_cast<char const*>(data), bytes); }

template <class T>
void append(std::string& key, T value) {
    append(key, &value, sizeof value);
}

class Keys {
    std::unordered_map<std::string, uint32_t> constants_;

    uint32_t number_of(EdgePtr edge) {
        auto const& value = edge->value;
        if (!value.constant || value.constant->bytes() > kComparedBytes) return edge->id();
        std::string key;
        append(key, value.dtype), append(key, value.shape.size());
        for (auto const& size : value.shape) append(key, size.constant().value_or(-1));
        append(key, value.constant->data(), value.constant->bytes());
        return constants_.try_emplace(std::move(key), edge->id()).first->second;
    }

public:
    /// Candidates for equality; `same` decides.
    std::string of(NodePtr node) {
        auto const& op = *node->value.op;
        std::string key(op.type());
        key += '\0';
        key += op.attributes();
        key += '\0';
        for (auto* edge : node->inputs()) append(key, edge ? number_of(edge) : UINT32_MAX);
        for (auto const& param : op.params()) append(key, param.hash());
        for (auto* edge : node->outputs()) {
            append(key, edge->value.dtype), append(key, edge->value.layout);
            for (auto const& size : edge->value.shape) append(key, size.hash());
        }
        return key;
    }
};

bool same(NodePtr a, NodePtr b) {
    auto p = a->value.op->params(), q = b->value.op->params();
    if (!std::equal(p.begin(), p.end(), q.begin(), q.end()) || a->outputs().size() != b->outputs().size()) return false;
    for (size_t i = 0; i < a->outputs().size(); ++i)
        if (a->output(i)->value.shape != b->output(i)->value.shape) return false;
    return true;
}

bool is_pinned(NodePtr node) {
    for (auto* edge : node->outputs())
        if (edge->value.keep || edge->is_output()) return true;
    return false;
}

}  // namespace

int eliminate_common_subexpressions(Model& model, PassContext const&) {
    Keys keys;
    std::unordered_map<std::string, NodePtr> seen;
    int merged = 0;
    for (auto* node : model.graph.topological()) {
        auto [it, fresh] = seen.try_emplace(keys.of(node), node);
        if (fresh || !same(it->second, node) || is_pinned(node)) continue;
        for (size_t i = 0; i < node->outputs().size(); ++i)
            model.graph.replace_all_uses(node->output(i), it->second->output(i));
        model.graph.erase(node);
        ++merged;
    }
    return merged;
}

}  // namespace refactor::computation
