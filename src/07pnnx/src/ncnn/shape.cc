#include "ncnn/layer.h"

#include <algorithm>
#include <cmath>
#include <optional>

// What moves, cuts, joins or reduces.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;

void concatenate(Layer& l) {
    std::vector<std::pair<std::string, std::string>> inputs;
    for (size_t i = 0; i < l.node().inputs.size(); ++i) inputs.emplace_back("", l.input(i));
    l.emit("torch.cat", inputs, {{"dim", Term::of_int(l.integer(0, 0))}}, {l.output()});
}

void slice(Layer& l) {
    auto sizes = l.list(0);
    auto axis = Term::of_int(l.integer(1, 0));
    bool equal = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == -233; });
    auto cut_at = [&](std::vector<int64_t> const& positions) {
        if (positions.size() + 1 != l.node().outputs.size())
            return l.refuse(concat(positions.size(), " cuts for ", l.node().outputs.size(), " parts"), false);
        l.emit("torch.tensor_split", {{"input", l.input(0)}}, {{"indices", list_of(positions)}, {"dim", axis}},
               l.node().outputs);
    };
    if (l.has(2)) return cut_at(l.list(2));
    if (equal) {
        auto count = Term::of_int(static_cast<int64_t>(l.node().outputs.size()));
        l.emit("torch.chunk", {{"input", l.input(0)}}, {{"chunks", count}, {"dim", axis}}, l.node().outputs);
        return;
    }
    if (sizes.size() != l.node().outputs.size() || std::count(sizes.begin(), sizes.end() - 1, -233))
        return l.refuse("parts of unknown size that are not the last");
    // The last part is the rest.
    std::vector<int64_t> positions;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) positions.push_back(sizes[i] + (i ? positions[i - 1] : 0));
    cut_at(positions);
}

void crop(Layer& l) {
    auto starts = l.list(9), ends = l.list(10), axes = l.list(11);
    if (starts.empty() || starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()))
        return l.refuse("offsets and sizes instead of starts, ends and axes");
    for (size_t i = 0; i < starts.size(); ++i) {
        if (axes.size() <= i) axes.push_back(static_cast<int64_t>(i));
        if (ends[i] == -233) ends[i] = kEnd;
        if (starts[i] == -233) starts[i] = 0;
    }
    std::vector<int64_t> steps(starts.size(), 1), selects(starts.size(), kEnd);
    l.emit("Tensor.slice", {{"input", l.input(0)}},
           {{"dims", list_of(axes)},
            {"starts", list_of(starts)},
            {"ends", list_of(ends)},
            {"steps", list_of(steps)},
            {"selects", list_of(selects)}},
           {l.output()});
}

/// A size of an input: of the axis that ncnn calls w, h, d or c; n is the batch, which is 1.
std::string size_text(char input, char axis) {
    if (axis == 'n') return "1";
    auto number = axis == 'w' ? -1 : axis == 'h' ? -2 : axis == 'd' ? -3 : 0;
    return concat("size(@", input, ",", number, ")");
}

/// `*(0h,0w),8` as `mul(size(@0,-2),size(@0,-1)),8`; nothing if there is another word in it.
std::optional<std::string> expression_of(std::string_view text) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        char c = text[at];
        auto next = at + 1 < text.size() ? text[at + 1] : ' ';
        bool is_number = c >= '0' && c <= '9';
        if (is_number && std::string_view("whdcn").find(next) != std::string_view::npos) {
            result += size_text(c, next), at += 2;
        } else if (next == '(' && (c == '*' || c == '+' || c == '-')) {
            result += c == '*' ? "mul" : c == '+' ? "add" : "sub", ++at;
        } else if (text.substr(at).starts_with("//(")) {
            result += "floor_divide", at += 2;
        } else if (c == '/' && next == '(') {
            result += "div", ++at;
        } else if ((is_number && next >= 'a' && next != 'e') || c == '@') {
            return std::nullopt;
        } else {
            result += c, ++at;
        }
    }
    return result;
}

void reshape(Layer& l) {
    if (l.integer(3, 0)) return l.refuse("permute");
    std::vector<Term> sizes;
    std::vector<std::pair<std::string, std::string>> inputs{{"input", l.input(0)}};
    if (auto text = l.text(6); !text.empty()) {
        // Behind the channels may be the batch.
        if (text.ends_with(",0n")) text.resize(text.size() - 3);
        auto expression = expression_of(text);
        if (!expression) return l.refuse(concat("the shape ", quoted(text)));
        // Other inputs are there for their sizes.
        for (size_t i = 1; i < l.node().inputs.size(); ++i) inputs.emplace_back(concat("x", i), l.input(i));
        auto parsed = parse_expression(concat("[", *expression, "]"));
        if (!parsed) return l.refuse(concat("the shape ", quoted(text), ": ", parsed.error()));
        sizes = std::move(parsed->items);
        std::reverse(sizes.begin(), sizes.end());
    } else {
        static constexpr std::pair<int64_t, char> kAxes[]{{2, 'c'}, {11, 'd'}, {1, 'h'}, {0, 'w'}};
        for (auto [id, axis] : kAxes) {
            auto size = l.integer(id, -233);
            if (size == 0) sizes.push_back(*parse_expression(size_text('0', axis)));
            if (size != -233 && size != 0) sizes.push_back(Term::of_int(size));
        }
    }
    l.emit(inputs.size() > 1 ? "ncnn.Reshape" : "Tensor.reshape", inputs, {{"shape", Term::of_list(std::move(sizes))}},
           {l.output()});
}

void permute(Layer& l) {
    l.emit("ncnn.Permute", {{"input", l.input(0)}}, {{"order", Term::of_int(l.integer(0, 0))}}, {l.output()});
}

void squeeze(Layer& l) {
    auto axes = l.list(3);
    bool expand = l.node().type == "ExpandDims";
    if (axes.empty()) return l.refuse("axes by flags");
    std::string edge = l.input(0);
    if (!expand) {
        l.emit("torch.squeeze", {{"input", edge}}, {{"dim", list_of(axes)}}, {l.output()});
        return;
    }
    std::sort(axes.begin(), axes.end());
    for (size_t i = 0; i < axes.size(); ++i) {
        auto last = i + 1 == axes.size() ? std::vector<std::string>{l.output()} : std::vector<std::string>{};
        edge = l.emit("torch.unsqueeze", {{"input", edge}}, {{"dim", Term::of_int(axes[i])}}, last);
    }
}

void reduction(Layer& l) {
    struct Function {
        std::string_view before, type, after;
    };
    static constexpr Function kFunctions[]{
        {"", "torch.sum", ""},    {"abs", "torch.sum", ""},   {"square", "torch.sum", ""},
        {"", "torch.mean", ""},   {"", "torch.amax", ""},     {"", "torch.amin", ""},
        {"", "torch.prod", ""},   {"abs", "torch.sum", ""},   {"square", "torch.sum", "sqrt"},
        {"", "torch.sum", "log"}, {"", "torch.logsumexp", ""}};
    auto op = l.integer(0, 0);
    if (op < 0 || op >= static_cast<int64_t>(std::size(kFunctions))) return l.refuse(concat("the reduction ", op));
    auto [before, type, after] = kFunctions[op];
    auto apply = [&](std::string_view name, std::string const& x, std::optional<double> factor,
                     std::vector<std::string> outputs = {}) {
        Term term;
        term.kind = Term::Kind::Function, term.text = name, term.items = {Term::of_operand(0)};
        if (factor) term.items.push_back(Term::of_float(*factor));
        return l.emit("pnnx.Expression", {{"input", x}}, {{"expr", term}}, std::move(outputs));
    };
    std::string x = l.input(0);
    if (!before.empty()) x = apply(before, x, std::nullopt);
    Layer::Named arguments{{"keepdim", flag(l.integer(4, 0) != 0)}};
    if (!l.integer(1, 1)) arguments.emplace_back("dim", list_of(l.list(3)));
    x = l.emit(std::string(type), {{"input", x}}, std::move(arguments));
    if (!after.empty()) x = apply(after, x, std::nullopt);
    apply("mul", x, l.number(2, 1), {l.output()});
}

void interp(Layer& l) {
    static constexpr std::string_view kModes[]{"", "nearest", "bilinear", "bicubic"};
    auto mode = l.integer(0, 0);
    if (mode < 1 || mode > 3 || l.integer(5, 0)) return l.refuse("a size that is another tensor's, or an unknown mode");
    Layer::Named arguments{{"mode", Term::of_text(std::string(kModes[mode]))}};
    if (mode > 1) arguments.emplace_back("align_corners", flag(l.integer(6, 0) != 0));
    if (l.has(9)) return l.refuse("a size by an expression");
    if (l.integer(3, 0) && l.integer(4, 0))
        arguments.emplace_back("size", list_of({l.integer(3, 0), l.integer(4, 0)}));
    else
        arguments.emplace_back("scale_factor",
                               Term::of_list({Term::of_float(l.number(1, 1)), Term::of_float(l.number(2, 1))}));
    l.emit_in_batch("F.interpolate", {}, std::move(arguments));
}

void padding(Layer& l) {
    static constexpr std::string_view kModes[]{"constant", "replicate", "reflect"};
    auto mode = l.integer(4, 0);
    if (mode < 0 || mode > 2 || l.integer(6, 0)) return l.refuse("values by channel, or an unknown mode");
    std::vector<int64_t> pads{l.integer(2, 0), l.integer(3, 0), l.integer(0, 0),
                              l.integer(1, 0), l.integer(7, 0), l.integer(8, 0)};
    while (pads.size() > 2 && pads.back() == 0 && pads[pads.size() - 2] == 0) pads.resize(pads.size() - 2);
    l.emit("F.pad", {{"input", l.input(0)}},
           {{"pad", list_of(pads)},
            {"mode", Term::of_text(std::string(kModes[mode]))},
            {"value", Term::of_float(l.number(5, 0))}},
           {l.output()});
}

void pixel_shuffle(Layer& l) {
    bool up = l.node().type == "PixelShuffle";
    if (l.integer(1, 0) != (up ? 0 : 1) && l.integer(0, 1) != 1) return l.refuse("this order of channels");
    l.emit(up ? "nn.PixelShuffle" : "nn.PixelUnshuffle", {{"input", l.input(0)}},
           {{up ? "upscale_factor" : "downscale_factor", Term::of_int(l.integer(0, 1))}}, {l.output()});
}

void shuffle_channel(Layer& l) {
    if (l.integer(1, 0)) return l.refuse("the reverse order");
    l.emit_in_batch("nn.ChannelShuffle", {}, {{"groups", Term::of_int(l.integer(0, 1))}});
}

void split(Layer& l) {
    for (size_t i = 0; i < l.node().outputs.size(); ++i)
        l.emit("pnnx.Output", {{"input", l.input(0)}}, {}, {l.output(i)});
}

}  // namespace

void define_ncnn_shape(LayerDefinitions& all) {
    all.push_back({"Concat", concatenate});
    all.push_back({"Crop", crop});
    for (auto name : {"ExpandDims", "Squeeze"}) all.push_back({name, squeeze});
    all.push_back({"Interp", interp});
    all.push_back({"Padding", padding});
    all.push_back({"Permute", permute});
    for (auto name : {"PixelShuffle", "Reorg"}) all.push_back({name, pixel_shuffle});
    all.push_back({"Reduction", reduction});
    all.push_back({"Reshape", reshape});
    all.push_back({"ShuffleChannel", shuffle_channel});
    all.push_back({"Slice", slice});
    all.push_back({"Split", split});
}

}  // namespace refactor::pnnx
