#include "passes/epilogue_host.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"

namespace refactor::computation {

namespace {

template <class Info>
bool set(NodePtr node, kernel::Epilogue const& epilogue) {
    auto const* info = info_of<Info>(*node->value.op);
    if (!info) return false;
    auto changed = *info;
    changed.epilogue = epilogue;
    auto params = node->value.op->params();
    node->value.op = make_operator(std::move(changed), {params.begin(), params.end()});
    return true;
}

}  // namespace

std::optional<kernel::Epilogue> epilogue_of(NodePtr node) {
    auto const& op = *node->value.op;
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) return conv->epilogue;
    if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op)) return conv->epilogue;
    if (auto const* product = info_of<kernel::MatMulInfo>(op)) return product->epilogue;
    return std::nullopt;
}

void set_epilogue(NodePtr node, kernel::Epilogue const& epilogue) {
    set<kernel::ConvInfo>(node, epilogue) || set<kernel::ConvTransposeInfo>(node, epilogue) ||
        set<kernel::MatMulInfo>(node, epilogue);
}

}  // namespace refactor::computation
