#include "computation/operator.h"
#include "frontend/expression.h"
#include "frontend/recorded.h"
#include "kernel/ops/lookup.h"
#include "ops/ml_attributes.h"

#include <set>

// OneHotEncoder.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

Status infer_one_hot(InferContext& c, NodeView const& n) {
    auto texts = list_of<std::string>(n, "cats_strings").size(), numbers = n.integers("cats_int64s").size();
    if ((texts == 0) == (numbers == 0))
        return invalid(texts, " cats_strings and ", numbers, " cats_int64s, expected one of the lists");
    if ((texts > 0) != (c.dtype(0) == DataType::String))
        return invalid("X is ", name_of(c.dtype(0)), ", the categories are ", texts ? "text" : "numbers");
    auto shape = c.shape(0);
    shape.emplace_back(static_cast<int64_t>(texts + numbers));
    return c.set(0, DataType::F32, std::move(shape));
}

/// One comparison with the row of all categories.
Status lower_one_hot(LowerContext& c, NodeView const& n) {
    auto categories = n.integers("cats_int64s");
    auto row = c.constant(DataType::I64, {static_cast<int64_t>(categories.size())},
                          mem_manager::Blob::copy_of(categories.data(), categories.size() * sizeof(int64_t)));
    auto column = c.shape(0);
    column.emplace_back(1);
    Expression e;
    auto x = e.cast(e.input(0, c.dtype(0)), DataType::I64);
    auto hit = e.binary(ExprOp::Equal, x, e.input(1, DataType::I64));
    c.emit_output(computation::make_operator(e.finish(e.cast(hit, DataType::F32))),
                  {c.reshape(c.edge(0), column), row});
    return std::nullopt;
}

/// What a comparison cannot tell: text, categories that occur twice, and elements that must be one.
bool one_hot_is_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    auto numbers = n.integers("cats_int64s");
    bool unique = std::set<int64_t>(numbers.begin(), numbers.end()).size() == numbers.size();
    return p.dtype(0) == DataType::String || n.integer("zeros", 1) == 0 || !unique;
}

Inferred<frontend::ProcedurePtr> one_hot_procedure(frontend::ProcedureContext const&, NodeView const& n) {
    kernel::CategoryInfo info;
    info.strict = n.integer("zeros", 1) == 0, info.categories.texts = list_of<std::string>(n, "cats_strings");
    for (auto number : n.integers("cats_int64s")) info.categories.codes.push_back(kernel::lookup_code(number));
    return frontend::record<kernel::make_one_hot_categories>(std::move(info));
}

}  // namespace

void define_ml_one_hot(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "OneHotEncoder",
                   .types = {{kMlNumbers | types(DataType::String)}},
                   .attributes = {{"cats_int64s", K::Ints}, {"cats_strings", K::Strings}, {"zeros", K::Int}},
                   .infer = infer_one_hot,
                   .lower = lower_one_hot,
                   .domain = kMlDomain,
                   .procedure = one_hot_procedure,
                   .is_procedure = one_hot_is_procedure});
}

}  // namespace refactor::onnx
