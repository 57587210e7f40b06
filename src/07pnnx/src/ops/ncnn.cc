#include "formula.h"
#include "operator_def.h"

#include <algorithm>

// What layers of ncnn do that no operator of torch does. Tensors have no batch axis.

namespace refactor::pnnx {

namespace {

/// Rows of features, or all elements in one row.
void build_inner_product(Call& c) {
    auto *x = c.tensor("input"), *weight = c.tensor("weight");
    auto features = Call::shape(weight)[1];
    bool rows = Call::rank(x) == 2 && Call::shape(x)[1] == features && Call::shape(x)[0] != DimExpr(1);
    if (!rows) x = c.reshape(x, {element_count(Call::shape(x))});
    c.set(c.matmul(x, weight, true, c.is_tensor("bias") ? c.tensor("bias") : nullptr));
}

/// A tensor of fewer axes lies along the outermost ones if their sizes agree, else along the innermost.
Edge aligned(Call& c, Edge x, Edge other) {
    auto rank = Call::rank(x), target = Call::rank(other);
    if (rank == 0 || rank >= target) return x;
    bool outer = std::equal(Call::shape(x).begin(), Call::shape(x).end(), Call::shape(other).begin());
    if (!outer) return x;
    auto shape = Call::shape(x);
    shape.resize(target, DimExpr(1));
    return c.reshape(x, std::move(shape));
}

void build_binary(Call& c) {
    auto *a = c.tensor("input"), *b = c.tensor("other");
    Formula f(c);
    c.set(f.finish(f.apply(c.text("function", ""), {f.of(aligned(c, a, b)), f.of(aligned(c, b, a))})));
}

void build_hard_sigmoid(Call& c) {
    c.set(c.unary(ExprOp::HardSigmoid, c.tensor("input"), c.number("alpha"), c.number("beta")));
}

void build_hard_swish(Call& c) {
    auto alpha = static_cast<float>(c.number("alpha")), beta = static_cast<float>(c.number("beta"));
    c.set(c.map({c.tensor("input")}, [&](Expression& e, auto const& v) {
        return e.binary(ExprOp::Mul, v[0], e.unary(ExprOp::HardSigmoid, v[0], alpha, beta));
    }));
}

/// Orders of the axes of the result from the innermost on, by number of axes.
constexpr std::string_view kOrders2[]{"WH", "HW"};
constexpr std::string_view kOrders3[]{"WHC", "HWC", "WCH", "CWH", "HCW", "CHW"};
constexpr std::string_view kOrders4[]{"WHDC", "HWDC", "WDHC", "DWHC", "HDWC", "DHWC", "WHCD", "HWCD",
                                      "WCHD", "CWHD", "HCWD", "CHWD", "WDCH", "DWCH", "WCDH", "CWDH",
                                      "DCWH", "CDWH", "HDCW", "DHCW", "HCDW", "CHDW", "DCHW", "CDHW"};

void build_permute(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 1, 4, "the input");
    auto rank = Call::rank(x);
    auto order = c.integer("order");
    if (rank == 1) return c.set(x);
    auto count = static_cast<int64_t>(rank == 2   ? std::size(kOrders2)
                                      : rank == 3 ? std::size(kOrders3)
                                                  : std::size(kOrders4));
    if (order < 0 || order >= count) refuse_invalid("the order ", order, " for ", rank, " axes");
    auto names = (rank == 2 ? kOrders2 : rank == 3 ? kOrders3 : kOrders4)[order];
    std::string_view axes = rank == 2 ? "HW" : rank == 3 ? "CHW" : "CDHW";
    std::vector<int64_t> perm;
    for (auto name = names.rbegin(); name != names.rend(); ++name)
        perm.push_back(static_cast<int64_t>(axes.find(*name)));
    c.set(c.transpose(x, perm));
}

}  // namespace

void define_ncnn(Definitions& all) {
    all.push_back({"ncnn.InnerProduct", "input weight bias", build_inner_product});
    all.push_back({"ncnn.BinaryOp", "input other | function", build_binary});
    all.push_back({"ncnn.HardSigmoid", "input | alpha beta", build_hard_sigmoid});
    all.push_back({"ncnn.HardSwish", "input | alpha beta", build_hard_swish});
    all.push_back({"ncnn.Permute", "input | order", build_permute});
}

}  // namespace refactor::pnnx
