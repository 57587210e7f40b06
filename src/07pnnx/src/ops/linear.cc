#include "formula.h"
#include "frontend/einsum.h"
#include "kernel/ops/matmul.h"
#include "operator_def.h"
#include "promotion.h"

// Products of matrices.

namespace refactor::pnnx {

namespace {

void build_linear(Call& c) {
    auto *x = c.tensor("input"), *weight = c.tensor("weight");
    c.expect_rank(weight, 1, 2, "the weight");
    auto* bias = c.is_tensor("bias") ? c.tensor("bias") : nullptr;
    bool as_epilogue =
        !bias || (Call::rank(weight) == 2 && Call::rank(bias) == 1 && Call::shape(bias)[0] == Call::shape(weight)[0]);
    auto* y = c.matmul(x, weight, true, as_epilogue ? bias : nullptr);
    c.set(as_epilogue ? y : c.binary(ExprOp::Add, y, bias));
}

void build_product(Call& c, std::string_view second) { c.set(c.matmul(c.tensor("input"), c.tensor(second))); }
void build_matmul(Call& c) { build_product(c, "other"); }
void build_mm(Call& c) { build_product(c, "mat2"); }
void build_mv(Call& c) { build_product(c, "vec"); }

/// beta · input + alpha · (a · b)
void build_addmm(Call& c) {
    bool batched = c.has("batch1");
    auto *input = c.tensor("input"), *a = c.tensor(batched ? "batch1" : "mat1"),
         *b = c.tensor(batched ? "batch2" : "mat2");
    auto alpha = c.number("alpha", 1), beta = c.number("beta", 1);
    c.expect_rank(a, 2, 3, "the first matrix");
    bool is_bias = Call::rank(input) == 1 && alpha == 1 && beta == 1 && Call::shape(input)[0] == Call::shape(b).back();
    if (is_bias) return c.set(c.matmul(a, b, false, input));
    auto* product = c.matmul(a, b);
    auto dtype = Call::type_of(product);
    c.set(c.map({product, input}, [&](Expression& e, auto const& v) {
        auto scaled = [&](Expression::Value x, double factor) {
            return factor == 1 ? x : e.binary(ExprOp::Mul, x, e.constant(dtype, factor));
        };
        return e.binary(ExprOp::Add, scaled(v[0], alpha), scaled(v[1], beta));
    }));
}

void build_dot(Call& c) {
    auto *a = c.tensor("input"), *b = c.tensor("other");
    c.expect_rank(a, 1, 1, "the first vector");
    c.expect_rank(b, 1, 1, "the second vector");
    c.set(c.matmul(a, b));
}

void build_outer(Call& c) {
    auto *a = c.tensor("input"), *b = c.tensor("other");
    c.expect_rank(a, 1, 1, "the first vector");
    c.expect_rank(b, 1, 1, "the second vector");
    c.set(c.binary(ExprOp::Mul, c.unsqueeze(a, 1), c.unsqueeze(b, 0)));
}

/// y_k = a W_k b + bias_k, as one product over pairs of features.
void build_bilinear(Call& c) {
    auto *a = c.tensor("input1"), *b = c.tensor("input2"), *weight = c.tensor("weight");
    c.expect_rank(weight, 3, 3, "the weight");
    if (Call::rank(a) < 1 || Call::rank(a) != Call::rank(b)) refuse_invalid("inputs of different ranks");
    auto const& w = Call::shape(weight);
    c.expect_equal(Call::shape(a).back(), w[1], "the features of the first input");
    c.expect_equal(Call::shape(b).back(), w[2], "the features of the second input");
    auto* pairs = c.binary(ExprOp::Mul, c.unsqueeze(a, Call::rank(a)), c.unsqueeze(b, Call::rank(b) - 1));
    auto flat = Call::shape(a);
    flat.back() = w[1] * w[2];
    auto* bias = c.is_tensor("bias") ? c.tensor("bias") : nullptr;
    c.set(c.matmul(c.reshape(pairs, flat), c.reshape(weight, {w[0], w[1] * w[2]}), true, bias));
}

/// Distances of all pairs of rows, without the square that loses digits.
void build_cdist(Call& c) {
    auto *a = c.tensor("x1"), *b = c.tensor("x2");
    if (Call::rank(a) < 2 || Call::rank(b) < 2) refuse_invalid("the inputs need rows and columns");
    auto p = c.number("p", 2);
    auto* gaps = c.unary(ExprOp::Abs,
                         c.binary(ExprOp::Sub, c.unsqueeze(a, Call::rank(a) - 1), c.unsqueeze(b, Call::rank(b) - 2)));
    auto axis = Call::rank(gaps) - 1;
    if (p == 2) return c.set(c.reduce(ReduceKind::L2, gaps, {axis}, false));
    if (p == 1) return c.set(c.reduce(ReduceKind::Sum, gaps, {axis}, false));
    refuse_unsupported("distances of the norm ", p);
}

/// pnnx leaves "..." out of equations; the axes that it stood for are then too many.
void build_einsum(Call& c) {
    auto operands = c.tensors();
    if (operands.empty()) refuse_invalid("there are no operands");
    auto dtype = Call::type_of(operands[0]);
    for (auto* edge : operands) dtype = promote(dtype, Weight::Tensor, Call::type_of(edge), Weight::Tensor);
    for (auto*& edge : operands) edge = c.cast(edge, dtype);
    c.set(take(frontend::lower_einsum(c.context(), c.text("equation", ""), operands)));
}

}  // namespace

void define_linear(Definitions& all) {
    all.push_back({"nn.Linear F.linear aten::linear", "input weight bias | in_features out_features", build_linear});
    all.push_back({"torch.matmul aten::matmul", "input other", build_matmul});
    all.push_back({"torch.mm aten::mm torch.bmm aten::bmm", "input mat2", build_mm});
    all.push_back({"torch.mv aten::mv", "input vec", build_mv});
    all.push_back({"torch.addmm aten::addmm", "input mat1 mat2 beta alpha", build_addmm});
    all.push_back({"torch.baddbmm aten::baddbmm", "input batch1 batch2 beta alpha", build_addmm});
    all.push_back({"torch.dot aten::dot", "input other", build_dot});
    all.push_back({"torch.outer aten::outer", "input other", build_outer});
    all.push_back({"torch.einsum aten::einsum", "* | equation", build_einsum});
    all.push_back({"nn.Bilinear F.bilinear aten::bilinear",
                   "input1 input2 weight bias | in1_features in2_features out_features", build_bilinear});
    all.push_back({"torch.cdist aten::cdist", "x1 x2 p compute_mode", build_cdist});
}

}  // namespace refactor::pnnx
