#include "operator_def.h"

// pnnx.Expression, outputs, and what only hands its input on.

namespace refactor::pnnx {

namespace {

/// The operand itself, with the sizes that it carries.
void build_identity(Call& c) {
    auto const* term = c.argument("input");
    c.set(c.tensor("input"));
    if (!term->is(Term::Kind::Operand)) return;
    auto i = static_cast<size_t>(term->integer);
    if (!c.operand(i).constant) c.values(0) = c.known_values(i);
}

void build_expression(Call& c) {
    auto result = c.item("expr");
    auto* number = std::get_if<Scalar>(&result.value);
    c.set(c.edge_of(result));
    if (auto size = number && !number->is_float() ? number->integer() : std::nullopt) c.values(0) = {*size};
}

void build_size(Call& c) {
    auto* x = c.tensor("input");
    if (c.has("dim")) {
        auto size = Call::shape(x)[c.axis(c.integer("dim"), Call::rank(x))];
        c.set_values(c.size_edge(Scalar::of_int(size), DataType::I64), {size});
        return;
    }
    std::vector<Item> sizes;
    for (auto const& size : Call::shape(x)) sizes.push_back({Scalar::of_int(size)});
    c.set_values(c.edge_of(Item{std::move(sizes)}), Call::shape(x));
}

void build_dim(Call& c) {
    DimExpr rank = static_cast<int64_t>(Call::rank(c.tensor("input")));
    c.set_values(c.size_edge(Scalar::of_int(rank), DataType::I64), {rank});
}

/// Tensor.to: only the type counts.
void build_to(Call& c) {
    auto* x = c.tensor("input");
    auto dtype = c.has("other") ? Call::type_of(c.tensor("other")) : c.dtype("dtype", Call::type_of(x));
    c.set(c.cast(x, dtype));
    auto const* term = c.argument("input");
    if (term->is(Term::Kind::Operand) && is_integer(dtype) && !c.operand(static_cast<size_t>(term->integer)).constant)
        c.values(0) = c.known_values(static_cast<size_t>(term->integer));
}

}  // namespace

void define_expression(Definitions& all) {
    all.push_back({"pnnx.Expression", "expr | input x*", build_expression});
    all.push_back(
        {"pnnx.Output nn.Identity torch.positive aten::positive aten::contiguous Tensor.contiguous aten::detach "
         "aten::alias aten::lift_fresh Tensor.alias aten::resolve_conj aten::resolve_neg",
         "input memory_format | requires_grad", build_identity});
    all.push_back({"torch.clone Tensor.clone aten::clone", "input memory_format", build_identity});
    // Without effect at inference.
    all.push_back(
        {"nn.Dropout nn.Dropout2d nn.Dropout3d nn.AlphaDropout nn.FeatureAlphaDropout F.dropout F.dropout2d "
         "F.dropout3d F.alpha_dropout F.feature_alpha_dropout aten::dropout aten::feature_dropout",
         "input p training inplace", build_identity});
    all.push_back({"Tensor.size aten::size", "input dim", build_size});
    all.push_back({"Tensor.dim aten::dim", "input", build_dim});
    all.push_back({"Tensor.to", "input | dtype copy memory_format non_blocking", build_to});
    all.push_back({"Tensor.type_as aten::type_as", "input other", build_to});
    all.push_back({"Tensor.item aten::item aten::Int aten::Float aten::Bool prim::NumToTensor aten::ScalarImplicit",
                   "input", build_identity});
}

}  // namespace refactor::pnnx
