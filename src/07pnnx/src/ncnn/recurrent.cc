#include "ncnn/layer.h"

#include <algorithm>

// LSTM, GRU and RNN over the rows of a sequence. Source: layer/lstm.cpp, gru.cpp and rnn.cpp of Tencent/ncnn.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;
using Names = std::vector<std::string>;

struct Cell {
    Layer& l;
    int64_t gates, hidden, output, directions;
    bool lstm, gru;

    /// A weight that holds blocks of rows for each direction, one edge for each block.
    Names blocks(std::string const& key, int64_t count, std::vector<int64_t> dims) const {
        auto pieces = directions * count;
        dims[0] *= pieces;
        auto all = l.weight(key, dims, true);
        if (pieces == 1) return {all};
        Names names;
        for (int64_t i = 0; i < pieces; ++i) names.push_back(concat(l.node().name, "/", key, i));
        l.emit("torch.chunk", {{"input", all}}, {{"chunks", Term::of_int(pieces)}, {"dim", Term::of_int(0)}}, names);
        return names;
    }
    std::string join(Names const& parts) const {
        std::vector<std::pair<std::string, std::string>> inputs;
        for (auto const& part : parts) inputs.emplace_back("", part);
        return parts.size() == 1 ? parts[0] : l.emit("torch.cat", inputs, {{"dim", Term::of_int(0)}});
    }
    std::string zeros(std::string const& like) const { return l.emit("torch.zeros_like", {{"input", like}}); }
    /// The gates of direction `d` in torch's order: i, o and the others of an LSTM are i, f, o, g.
    Names gates_of(Names const& all, int64_t d) const {
        Names own(all.begin() + d * gates, all.begin() + (d + 1) * gates);
        if (lstm) std::swap(own[2], own[3]);
        return own;
    }
    /// torch adds two biases; those of ncnn are sums, but for the last gate of a GRU.
    std::pair<std::string, std::string> biases(Names const& all, int64_t d) const {
        if (!gru) {
            auto sum = join(gates_of(all, d));
            return {sum, zeros(sum)};
        }
        auto* own = all.data() + 4 * d;
        auto none = zeros(own[0]);
        return {join({own[0], own[1], own[2]}), join({none, none, own[3]})};
    }
};

/// A sequence read backwards: parameter 2 is 0 forward, 1 backward, 2 both.
std::string flipped(Layer& l, std::string const& edge, bool backward, Names outputs = {}) {
    if (!backward && outputs.empty()) return edge;
    if (!backward) return l.emit("pnnx.Output", {{"input", edge}}, {}, outputs);
    return l.emit("torch.flip", {{"input", edge}}, {{"dims", list_of({0})}}, outputs);
}

void recurrent(Layer& l) {
    auto const& type = l.node().type;
    bool lstm = type == "LSTM", gru = type == "GRU";
    auto output = l.integer(0, 0), size = l.integer(1, 0), direction = l.integer(2, 0);
    auto hidden = lstm ? l.integer(3, output) : output;
    Cell cell{l, lstm ? 4 : gru ? 3 : 1, hidden, output, direction == 2 ? 2 : 1, lstm, gru};
    if (l.integer(8, 0)) return l.refuse("int8 weights");
    if (direction < 0 || direction > 2) return l.refuse(concat("the direction ", direction), false);
    auto rows = cell.directions * cell.gates;
    if (output < 1 || hidden < output || hidden > (int64_t{1} << 30) || size < 1 || size % (rows * hidden))
        return l.refuse(concat(size, " weights for ", hidden, " hidden and ", output, " output features"), false);
    std::vector<std::pair<std::string, std::string>> inputs;
    auto x = cell.blocks("weight_ih", cell.gates, {hidden, size / rows / hidden});
    auto bias = cell.blocks("bias", gru ? 4 : cell.gates, {hidden});
    auto h = cell.blocks("weight_hh", cell.gates, {hidden, output});
    Names projection;
    if (hidden != output) projection = cell.blocks("weight_hr", 1, {output, hidden});
    if (l.failed()) return;
    for (int64_t d = 0; d < cell.directions; ++d) {
        std::string suffix = d ? "_l0_reverse" : "_l0";
        auto [in, own] = cell.biases(bias, d);
        inputs.emplace_back("weight_ih" + suffix, cell.join(cell.gates_of(x, d)));
        inputs.emplace_back("weight_hh" + suffix, cell.join(cell.gates_of(h, d)));
        inputs.emplace_back("bias_ih" + suffix, in), inputs.emplace_back("bias_hh" + suffix, own);
        if (!projection.empty()) inputs.emplace_back("weight_hr" + suffix, projection[static_cast<size_t>(d)]);
    }
    bool backward = direction == 1;
    inputs.emplace_back("input", flipped(l, l.input(0), backward));
    static constexpr std::string_view kStates[]{"hx", "cx"};
    for (size_t i = 1; i < l.node().inputs.size() && i < (lstm ? 3u : 2u); ++i)
        inputs.emplace_back(kStates[i - 1], l.input(i));
    Names outputs{concat(l.node().name, "/y")};
    for (size_t i = 1; i < l.node().outputs.size(); ++i) outputs.push_back(l.output(i));
    Layer::Named arguments{{"hidden_size", Term::of_int(hidden)}, {"bidirectional", flag(direction == 2)}};
    if (!projection.empty()) arguments.emplace_back("proj_size", Term::of_int(output));
    auto y = l.emit(concat("nn.", type), inputs, std::move(arguments), std::move(outputs));
    flipped(l, y, backward, {l.output()});
}

}  // namespace

void define_ncnn_recurrent(LayerDefinitions& all) {
    for (auto name : {"GRU", "LSTM", "RNN"}) all.push_back({name, recurrent});
}

}  // namespace refactor::pnnx
