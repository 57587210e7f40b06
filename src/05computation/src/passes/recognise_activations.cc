#include "passes/recognise_activations.h"

#include "common/half.h"
#include "passes/expression.h"

#include <cmath>

namespace refactor::computation {

using kernel::ExprInstruction;
using kernel::ExprOp;

namespace {

constexpr double kTolerance = 1e-4;

bool is_close(double actual, double expected, double tolerance) {
    return std::abs(actual - expected) <= tolerance * std::abs(expected);
}
double as_f16(double x) { return static_cast<double>(f32_from_f16(f16_from_f32(static_cast<float>(x)))); }

/// Models of f16 have their factors and divisors rounded to that type.
bool near(double actual, double expected) {
    return is_close(actual, expected, kTolerance) || is_close(actual, as_f16(expected), 1e-9) ||
           (expected != 0 && is_close(1 / actual, as_f16(1 / expected), 1e-9));
}

/// A product taken apart: constant · factors.
struct Product {
    double constant = 1;
    SmallVector<uint16_t, 8> factors;
};

class Matcher {
    Expression& expression_;
    std::vector<uint32_t> uses_;
    bool halves_;  ///< expressions of f16 and bf16, too

    ExprInstruction const& at(uint16_t i) const { return expression_.code[i]; }

    void collect(uint16_t i, bool root, Product& product) const {
        auto const& instruction = at(i);
        if (auto constant = expression_.constant(i)) {
            product.constant *= *constant;
        } else if (instruction.op == ExprOp::Mul && (root || uses_[i] == 1)) {
            collect(instruction.operands[0], false, product);
            collect(instruction.operands[1], false, product);
        } else if (auto divisor =
                       instruction.op == ExprOp::Div ? expression_.constant(instruction.operands[1]) : std::nullopt;
                   divisor && (root || uses_[i] == 1)) {
            product.constant /= *divisor;
            collect(instruction.operands[0], false, product);
        } else {
            product.factors.push_back(i);
        }
    }

    Product product_of(uint16_t i) const {
        Product product;
        collect(i, true, product);
        return product;
    }

    /// The other operand of a commutative `op` one of whose operands is the constant `value`.
    std::optional<uint16_t> beside(uint16_t i, ExprOp op, double value) const {
        if (at(i).op != op) return std::nullopt;
        for (int k = 0; k < 2; ++k) {
            auto constant = expression_.constant(at(i).operands[k]);
            if (constant && near(*constant, value)) return at(i).operands[1 - k];
        }
        return std::nullopt;
    }

    /// `i` is `scale · x`.
    bool is_scaled(uint16_t i, uint16_t x, double scale) const {
        auto product = product_of(i);
        return product.factors.size() == 1 && product.factors[0] == x && near(product.constant, scale);
    }

    bool is_cube(uint16_t i, uint16_t x) const {
        if (at(i).op == ExprOp::Pow && at(i).operands[0] == x) {
            auto exponent = expression_.constant(at(i).operands[1]);
            return exponent && *exponent == 3;
        }
        auto product = product_of(i);
        return product.constant == 1 && product.factors.size() == 3 && product.factors[0] == x &&
               product.factors[1] == x && product.factors[2] == x;
    }

    bool is_scaled_cube(uint16_t i, uint16_t x) const {
        auto product = product_of(i);
        if (!near(product.constant, 0.044715)) return false;
        if (product.factors.size() == 1) return is_cube(product.factors[0], x);
        return product.factors.size() == 3 && product.factors[0] == x && product.factors[1] == x &&
               product.factors[2] == x;
    }

    /// `i` is √(2/π)(x + 0.044715x³).
    bool is_tanh_argument(uint16_t i, uint16_t x) const {
        auto product = product_of(i);
        if (product.factors.size() != 1 || !near(product.constant, 0.7978845608)) return false;
        auto const& sum = at(product.factors[0]);
        if (sum.op != ExprOp::Add) return false;
        return (sum.operands[0] == x && is_scaled_cube(sum.operands[1], x)) ||
               (sum.operands[1] == x && is_scaled_cube(sum.operands[0], x));
    }

    std::optional<ExprOp> gate(uint16_t x, uint16_t gate, double constant) const {
        auto const& g = at(gate);
        if (constant == 1 && g.op == ExprOp::Sigmoid && g.operands[0] == x) return ExprOp::Silu;
        if (constant == 1 && g.op == ExprOp::HardSigmoid && g.operands[0] == x && near(g.alpha, 1. / 6) &&
            near(g.beta, 0.5))
            return ExprOp::HardSwish;
        if (g.op == ExprOp::Clip && near(constant, 1. / 6)) {
            auto low = expression_.constant(g.operands[1]), high = expression_.constant(g.operands[2]);
            if (low && high && *low == 0 && *high == 6 && beside(g.operands[0], ExprOp::Add, 3) == x)
                return ExprOp::HardSwish;
        }
        if (near(constant, 0.5)) {
            auto inner = beside(gate, ExprOp::Add, 1);
            if (!inner) return std::nullopt;
            auto const& f = at(*inner);
            if (f.op == ExprOp::Erf && is_scaled(f.operands[0], x, 0.70710678)) return ExprOp::GeluErf;
            if (f.op == ExprOp::Tanh && is_tanh_argument(f.operands[0], x)) return ExprOp::GeluTanh;
        }
        return std::nullopt;
    }

    void replace(uint16_t i, ExprOp op, uint16_t x) {
        auto dtype = at(i).dtype;
        expression_.code[i] = {};
        expression_.code[i].op = op, expression_.code[i].dtype = dtype, expression_.code[i].operands[0] = x;
    }

public:
    Matcher(Expression& expression, bool halves)
        : expression_(expression), uses_(expression.use_counts()), halves_(halves) {}

    bool rewrite(uint16_t i) {
        auto const& instruction = at(i);
        auto type = instruction.dtype;
        bool half = type == DataType::F16 || type == DataType::BF16;
        if (type != DataType::F32 && !(half && halves_)) return false;
        if (instruction.op == ExprOp::Max) {
            auto x = beside(i, ExprOp::Max, 0);
            if (!x) return false;
            replace(i, ExprOp::Relu, *x);
            return true;
        }
        if (instruction.op != ExprOp::Mul && instruction.op != ExprOp::Div) return false;
        auto product = product_of(i);
        if (product.factors.size() != 2) return false;
        for (int k = 0; k < 2; ++k)
            if (auto op = gate(product.factors[k], product.factors[1 - k], product.constant)) {
                replace(i, *op, product.factors[k]);
                return true;
            }
        return false;
    }
};

}  // namespace

int recognise_activations(Model& model, PassContext const& context) {
    bool halves = context.options.device != "cpu";
    int found = 0;
    for (auto* node : model.graph.topological()) {
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) continue;
        auto expression = Expression::of(node);
        int here = 0;
        for (size_t i = expression.code.size(); i-- > 0;)
            here += Matcher(expression, halves).rewrite(static_cast<uint16_t>(i));
        if (!here) continue;
        expression.normalize();
        expression.store(model.graph, node);
        found += here;
    }
    return found;
}

}  // namespace refactor::computation
