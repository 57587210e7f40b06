#include "formula.h"
#include "kernel/ops/movement.h"
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

/// The first and second features of each pair are turned by an angle: pairs are neighbours (`interleaved`) or lie half
/// of the features apart. cos and sin are [positions, features / 2], or twice as wide and only their first half is
/// used; a leading axis of size 1 does not matter.
void build_rotary(Call& c) {
    auto *x = c.tensor("input"), *cosine = c.tensor("cos"), *sine = c.tensor("sin");
    auto last = Call::rank(x) - 1;
    c.expect_rank(x, 2, 4, "the input");
    auto shape = Call::shape(x);
    auto half = floor_div(shape[last], 2);
    for (auto* table : {&cosine, &sine}) {
        if (Call::rank(*table) == 3 && Call::shape(*table)[0] == DimExpr(1)) *table = c.squeeze(*table, 0);
        c.expect_rank(*table, 2, 2, "a table");
        if (Call::shape(*table)[1] == shape[last]) *table = c.slice(*table, 1, 0, half);
        c.expect_equal(Call::shape(*table)[1], half, "the columns of a table");
    }
    bool interleaved = c.flag("interleaved", false);
    auto paired = shape;
    paired[last] = half;
    if (interleaved) {
        auto split = paired;
        split.push_back(2);
        x = c.reshape(x, split);
    }
    auto part = [&](int64_t i) {
        if (interleaved) return c.squeeze(c.slice(x, last + 1, i, i + 1), last + 1);
        return c.slice(x, last, half * i, half * (i + 1));
    };
    auto *a = part(0), *b = part(1);
    auto turned = [&](Edge first, Edge second, ExprOp op) {
        return c.map({first, second, cosine, sine}, [&](Expression& e, auto const& v) {
            return e.binary(op, e.binary(ExprOp::Mul, v[0], v[2]), e.binary(ExprOp::Mul, v[1], v[3]));
        });
    };
    std::vector<Edge> parts{turned(a, b, ExprOp::Sub), turned(b, a, ExprOp::Add)};
    if (!interleaved) return c.set(c.concat(parts, last));
    for (auto*& edge : parts) edge = c.unsqueeze(edge, last + 1);
    c.set(c.reshape(c.concat(parts, last + 1), shape));
}

void build_same_pad(Call& c) {
    auto* x = c.tensor("input");
    auto kernel = c.integers("kernel_size"), strides = c.integers("stride"), dilations = c.integers("dilation");
    auto count = kernel.size(), rank = Call::rank(x);
    c.expect_rank(x, count + 1, count + 2, "the input");
    kernel::PadInfo info;
    auto target = Call::shape(x);
    std::vector<DimExpr> begins(rank);
    for (size_t i = 0; i < count; ++i) {
        constexpr int64_t kMost = int64_t{1} << 30;
        for (auto value : {kernel[i], strides[i], dilations[i]})
            if (value < 1 || value > kMost) refuse_invalid("kernel_size, stride or dilation has the entry ", value);
        frontend::WindowAxis axis{kernel[i], strides[i], dilations[i], 0, 0};
        auto& size = target[rank - count + i];
        frontend::same_pads(size, axis, c.flag("upper", true));
        begins[rank - count + i] = axis.pad_begin;
        size = size + axis.pad_begin + axis.pad_end;
    }
    if (target == Call::shape(x)) return c.set(x);
    auto* value = c.scalar(Call::type_of(x), c.number("value", 0));
    c.set(c.emit(info, {x, value}, Call::type_of(x), std::move(target), std::move(begins)));
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
    all.push_back({"ncnn.RotaryEmbed", "input cos sin | interleaved", build_rotary});
    all.push_back({"ncnn.SamePad", "input | kernel_size stride dilation upper value", build_same_pad});
    all.push_back({"ncnn.Permute", "input | order", build_permute});
}

}  // namespace refactor::pnnx
