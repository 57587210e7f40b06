#include "ncnn/layer.h"

// Attention, what is done to its operands, and other layers of transformers without weights.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;

/// Inputs [heads, positions, features], mask [positions, positions] or one for each head.
void dot_product_attention(Layer& l) {
    if (l.integer(7, 0)) return l.refuse("a cache");
    if (l.integer(18, 0)) return l.refuse("int8 products");
    static constexpr std::string_view kNames[]{"query", "key", "value", "attn_mask"};
    std::vector<std::pair<std::string, std::string>> inputs;
    for (size_t i = 0; i < 3; ++i) {
        auto batched = l.emit("torch.unsqueeze", {{"input", l.input(i)}}, {{"dim", Term::of_int(0)}});
        inputs.emplace_back(kNames[i], batched);
    }
    if (l.integer(5, 0)) inputs.emplace_back(kNames[3], l.input(3));
    Layer::Named arguments{{"enable_gqa", flag(true)}};
    if (l.number(6, 0) != 0) arguments.emplace_back("scale", Term::of_float(l.number(6, 0)));
    auto y = l.emit("F.scaled_dot_product_attention", inputs, std::move(arguments));
    l.emit("torch.squeeze", {{"input", y}}, {{"dim", Term::of_int(0)}}, {l.output()});
}

void rotary_embed(Layer& l) {
    l.emit("ncnn.RotaryEmbed", {{"input", l.input(0)}, {"cos", l.input(1)}, {"sin", l.input(2)}},
           {{"interleaved", flag(l.integer(0, 0) != 0)}}, {l.output()});
}

/// The equation is a list of the codes of its characters.
void einsum(Layer& l) {
    std::string equation;
    for (auto code : l.list(0)) {
        if (code < ' ' || code > '~') return l.refuse(concat("the character ", code, " in an equation"), false);
        equation += static_cast<char>(code);
    }
    std::vector<std::pair<std::string, std::string>> inputs;
    for (size_t i = 0; i < l.node().inputs.size(); ++i) inputs.emplace_back("", l.input(i));
    l.emit("torch.einsum", inputs, {{"equation", Term::of_text(equation)}}, {l.output()});
}

void cumulative_sum(Layer& l) {
    l.emit("torch.cumsum", {{"input", l.input(0)}}, {{"dim", Term::of_int(l.integer(0, 0))}}, {l.output()});
}

/// By the norm of the channels at each position.
void normalize(Layer& l) {
    bool by_channels = l.integer(0, 0) == 0 && l.integer(1, 1) == 1;
    if (!by_channels || l.integer(9, 0) != 1)
        return l.refuse("a norm that is not that of the channels, or another eps");
    auto scales = l.integer(3, 0);
    std::string scale = l.weight("scale", {scales}, false);
    Layer::Named arguments{{"dim", Term::of_int(0)}, {"eps", Term::of_float(l.number(2, 1e-4))}};
    auto y = l.emit("F.normalize", {{"input", l.input(0)}}, std::move(arguments));
    if (scales > 1) scale = l.emit("Tensor.reshape", {{"input", scale}}, {{"shape", list_of({scales, 1, 1})}});
    Term product;
    product.kind = Term::Kind::Function, product.text = "mul";
    product.items = {Term::of_operand(0), Term::of_operand(1)};
    l.emit("pnnx.Expression", {{"input", y}, {"x1", scale}}, {{"expr", product}}, {l.output()});
}

void tile(Layer& l) {
    auto repeats = l.list(2);
    if (repeats.empty()) return l.refuse("an axis instead of repeats");
    l.emit("Tensor.repeat", {{"input", l.input(0)}}, {{"sizes", list_of(repeats)}}, {l.output()});
}

void flip(Layer& l) { l.emit("torch.flip", {{"input", l.input(0)}}, {{"dims", list_of(l.list(0))}}, {l.output()}); }

void glu(Layer& l) {
    l.emit("nn.GLU", {{"input", l.input(0)}}, {{"dim", Term::of_int(l.integer(0, 0))}}, {l.output()});
}

void shrink(Layer& l) {
    if (l.number(0, 0) != 0) return l.refuse("a bias");
    l.emit("nn.Hardshrink", {{"input", l.input(0)}}, {{"lambd", Term::of_float(l.number(1, 0.5))}}, {l.output()});
}

void local_response(Layer& l) {
    if (l.integer(0, 0)) return l.refuse("a region within a channel");
    l.emit_in_batch("nn.LocalResponseNorm", {},
                    {{"size", Term::of_int(l.integer(1, 5))},
                     {"alpha", Term::of_float(l.number(2, 1))},
                     {"beta", Term::of_float(l.number(3, 0.75))},
                     {"k", Term::of_float(l.number(4, 1))}});
}

/// The grid is [rows, columns, 2], or with `permute_fusion` [2, rows, columns].
void grid_sample(Layer& l) {
    static constexpr std::string_view kModes[]{"bilinear", "nearest", "bicubic"};
    static constexpr std::string_view kPads[]{"zeros", "border", "reflection"};
    auto mode = l.integer(0, 1) - 1, padding = l.integer(1, 1) - 1;
    if (mode < 0 || mode > 2 || padding < 0 || padding > 2) return l.refuse("an unknown mode", false);
    std::string grid = l.input(1);
    if (l.integer(3, 0)) grid = l.emit("Tensor.permute", {{"input", grid}}, {{"dims", list_of({1, 2, 0})}});
    grid = l.emit("torch.unsqueeze", {{"input", grid}}, {{"dim", Term::of_int(0)}});
    l.emit_in_batch("F.grid_sample", {{"grid", grid}},
                    {{"mode", Term::of_text(std::string(kModes[mode]))},
                     {"padding_mode", Term::of_text(std::string(kPads[padding]))},
                     {"align_corners", flag(l.integer(2, 0) != 0)}});
}

}  // namespace

void define_ncnn_attention(LayerDefinitions& all) {
    all.push_back({"CumulativeSum", cumulative_sum});
    all.push_back({"Einsum", einsum});
    all.push_back({"Flip", flip});
    all.push_back({"GLU", glu});
    all.push_back({"GridSample", grid_sample});
    all.push_back({"LRN", local_response});
    all.push_back({"Normalize", normalize});
    all.push_back({"RotaryEmbed", rotary_embed});
    all.push_back({"SDPA", dot_product_attention});
    all.push_back({"Shrink", shrink});
    all.push_back({"Tile", tile});
}

}  // namespace refactor::pnnx
