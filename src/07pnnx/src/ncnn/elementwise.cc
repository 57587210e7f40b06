#include "ncnn/layer.h"

#include <algorithm>

// Functions of elements, and Softmax.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;

void activation(Layer& l) {
    struct Plain {
        std::string_view layer, type, first, second;
        double a = 0, b = 0;
    };
    static constexpr Plain kPlain[]{
        {"AbsVal", "torch.abs", "", ""},
        {"CELU", "nn.CELU", "alpha", "", 1},
        {"Clip", "nn.Hardtanh", "min_val", "max_val", -3.402823466e38, 3.402823466e38},
        {"Dropout", "pnnx.Output", "", ""},
        {"ELU", "nn.ELU", "alpha", "", 0.1},
        {"Erf", "torch.erf", "", ""},
        {"Flatten", "torch.flatten", "", ""},
        {"HardSigmoid", "ncnn.HardSigmoid", "alpha", "beta", 0.2, 0.5},
        {"HardSwish", "ncnn.HardSwish", "alpha", "beta", 0.2, 0.5},
        {"Mish", "nn.Mish", "", ""},
        {"Noop", "pnnx.Output", "", ""},
        {"ReLU", "nn.LeakyReLU", "negative_slope", "", 0},
        {"SELU", "nn.SELU", "", ""},
        {"Sigmoid", "nn.Sigmoid", "", ""},
        {"Softplus", "nn.Softplus", "", ""},
        {"Swish", "nn.SiLU", "", ""},
        {"TanH", "nn.Tanh", "", ""},
    };
    auto found =
        std::find_if(std::begin(kPlain), std::end(kPlain), [&](Plain const& p) { return p.layer == l.node().type; });
    Layer::Named arguments;
    if (!found->first.empty()) arguments.emplace_back(found->first, Term::of_float(l.number(0, found->a)));
    if (!found->second.empty()) arguments.emplace_back(found->second, Term::of_float(l.number(1, found->b)));
    l.emit(std::string(found->type), {{"input", l.input(0)}}, std::move(arguments), {l.output()});
}

void gelu(Layer& l) {
    auto mode = Term::of_text(l.integer(0, 0) ? "tanh" : "none");
    l.emit("nn.GELU", {{"input", l.input(0)}}, {{"approximate", mode}}, {l.output()});
}

void softmax(Layer& l) {
    l.emit("nn.Softmax", {{"input", l.input(0)}}, {{"dim", Term::of_int(l.integer(0, 0))}}, {l.output()});
}

Term function(std::string name, std::vector<Term> operands) {
    Term term;
    term.kind = Term::Kind::Function, term.text = std::move(name), term.items = std::move(operands);
    return term;
}

void unary_op(Layer& l) {
    static constexpr std::string_view kNames[]{"abs",   "neg",        "floor", "ceil",  "square", "sqrt",  "rsqrt",
                                               "exp",   "log",        "sin",   "cos",   "tan",    "asin",  "acos",
                                               "atan",  "reciprocal", "tanh",  "log10", "round",  "trunc", "sign",
                                               "expm1", "sinh",       "asinh", "cosh",  "acosh",  "atanh", "log1p"};
    auto op = l.integer(0, 0);
    if (op < 0 || op >= static_cast<int64_t>(std::size(kNames))) return l.refuse(concat("the function ", op));
    auto expression = function(std::string(kNames[op]), {Term::of_operand(0)});
    l.emit("pnnx.Expression", {{"input", l.input(0)}}, {{"expr", expression}}, {l.output()});
}

void binary_op(Layer& l) {
    struct Function {
        std::string_view name;
        bool swapped;
    };
    static constexpr Function kFunctions[]{
        {"add", false},          {"sub", false},         {"mul", false},       {"div", false},     {"max", false},
        {"min", false},          {"pow", false},         {"sub", true},        {"div", true},      {"pow", true},
        {"atan2", false},        {"atan2", true},        {"fmod", false},      {"fmod", true},     {"logaddexp", false},
        {"floor_divide", false}, {"floor_divide", true}, {"remainder", false}, {"remainder", true}};
    auto op = l.integer(0, 0);
    if (op < 0 || op >= static_cast<int64_t>(std::size(kFunctions))) return l.refuse(concat("the function ", op));
    auto [name, swapped] = kFunctions[op];
    if (l.integer(1, 0)) {
        std::vector<Term> operands{Term::of_operand(0), Term::of_float(l.number(2, 0))};
        if (swapped) std::swap(operands[0], operands[1]);
        l.emit("pnnx.Expression", {{"input", l.input(0)}}, {{"expr", function(std::string(name), operands)}},
               {l.output()});
        return;
    }
    l.emit("ncnn.BinaryOp", {{"input", l.input(swapped)}, {"other", l.input(!swapped)}},
           {{"function", Term::of_text(std::string(name))}}, {l.output()});
}

void eltwise(Layer& l) {
    static constexpr std::string_view kNames[]{"mul", "add", "max"};
    auto op = l.integer(0, 0);
    if (op < 0 || op > 2) return l.refuse(concat("the function ", op), false);
    // Factors of the operands, of a sum only.
    auto factors = op == 1 ? l.numbers(1) : std::vector<double>();
    if (!factors.empty() && factors.size() != l.node().inputs.size())
        return l.refuse(concat(factors.size(), " factors for ", l.node().inputs.size(), " inputs"), false);
    std::vector<std::pair<std::string, std::string>> inputs;
    Term sum;
    for (size_t i = 0; i < l.node().inputs.size(); ++i) {
        inputs.emplace_back(concat("x", i), l.input(i));
        auto part = Term::of_operand(i);
        if (!factors.empty()) part = function("mul", {part, Term::of_float(factors[i])});
        sum = i ? function(std::string(kNames[op]), {sum, part}) : part;
    }
    if (inputs.empty()) return l.refuse("it has no inputs", false);
    if (!sum.is(Term::Kind::Function)) return (void)l.emit("pnnx.Output", {{"input", l.input(0)}}, {}, {l.output()});
    l.emit("pnnx.Expression", inputs, {{"expr", sum}}, {l.output()});
}

}  // namespace

void define_ncnn_elementwise(LayerDefinitions& all) {
    for (auto name : {"AbsVal", "CELU", "Clip", "Dropout", "ELU", "Erf", "Flatten", "HardSigmoid", "HardSwish", "Mish",
                      "Noop", "ReLU", "SELU", "Sigmoid", "Softplus", "Swish", "TanH"})
        all.push_back({name, activation});
    all.push_back({"BinaryOp", binary_op});
    all.push_back({"Eltwise", eltwise});
    all.push_back({"GELU", gelu});
    all.push_back({"Softmax", softmax});
    all.push_back({"UnaryOp", unary_op});
}

}  // namespace refactor::pnnx
