#include "common/data_type.h"
#include "mem_manager/blob.h"
#include "pass.h"

namespace refactor::computation {

namespace {

std::optional<int64_t> constant_count(Shape const& shape) { return element_count(shape).constant(); }

void check_constant(EdgePtr edge, std::vector<std::string>& problems) {
    auto count = constant_count(edge->value.shape);
    if (!count) {
        problems.push_back("constant \"" + edge->value.name + "\" has a symbolic shape");
        return;
    }
    auto expected = storage_bytes(edge->value.dtype, *count), actual = edge->value.constant->bytes();
    if (actual < expected)
        problems.push_back("constant \"" + edge->value.name + "\" has " + std::to_string(actual) + " bytes, expected " +
                           std::to_string(expected));
}

void check_edge(EdgePtr edge, std::vector<std::string>& problems) {
    if (edge->value.dtype == DataType::Undefined) problems.push_back("edge \"" + edge->value.name + "\" has no dtype");
    if (edge->value.constant && !edge->is_source())
        problems.push_back("edge \"" + edge->value.name + "\" is computed but carries a constant");
    if (edge->is_source() && !edge->value.constant)
        problems.push_back("source \"" + edge->value.name + "\" carries no constant");
    if (edge->value.constant) check_constant(edge, problems);
    if (edge->value.layout != kernel::Layout::Plain && edge->value.shape.size() < 3)
        problems.push_back("edge \"" + edge->value.name + "\" is blocked but has no spatial axis");
}

void check_alias(NodePtr node, std::vector<std::string>& problems) {
    auto *in = node->input(0), *out = node->output();
    auto a = in ? constant_count(in->value.shape) : std::nullopt, b = constant_count(out->value.shape);
    if (!in || in->value.dtype != out->value.dtype || (a && b && *a != *b) ||
        in->value.layout != kernel::Layout::Plain || out->value.layout != kernel::Layout::Plain)
        problems.push_back("alias node \"" + node->value.name + "\": input and output do not hold the same elements");
}

}  // namespace

std::vector<std::string> verify(Model& model) {
    auto problems = model.graph.verify();
    if (!problems.empty()) return problems;
    for (auto* node : model.graph.topological()) {
        if (!node->value.op) {
            problems.push_back("node \"" + node->value.name + "\" has no operator");
            continue;
        }
        for (auto* edge : node->inputs())
            if (edge) check_edge(edge, problems);
        for (auto* edge : node->outputs()) check_edge(edge, problems);
        if (node->value.op->is_alias()) check_alias(node, problems);
    }
    for (auto* edge : model.graph.outputs())
        if (edge->value.layout != kernel::Layout::Plain)
            problems.push_back("output \"" + edge->value.name + "\" is not row-major");
    return problems;
}

}  // namespace refactor::computation
