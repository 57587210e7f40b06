#include "kernel/ops/recurrent.h"

#include "operator_def.h"

// nn.LSTM, nn.GRU and nn.RNN: layer after layer, with torch's order of gates.

namespace refactor::pnnx {

namespace {

using kernel::CellFunction;
using kernel::RecurrentCell;
using kernel::RecurrentInfo;

RecurrentCell cell_of(Call& c) {
    return c.type == "nn.LSTM" ? RecurrentCell::Lstm : c.type == "nn.GRU" ? RecurrentCell::Gru : RecurrentCell::Rnn;
}

/// Which of torch's gates the kernel wants in which place: i, f, g, o become i, o, f, g; r, z, n become z, r, n.
std::vector<int64_t> gate_order(RecurrentCell cell) {
    if (cell == RecurrentCell::Lstm) return {0, 3, 1, 2};
    return cell == RecurrentCell::Gru ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{0};
}

struct Layers {
    Call& c;
    RecurrentInfo info;
    DimExpr directions, batch;
    int64_t count;

    /// A weight of one layer for all directions, [D, rows…], its gates in the kernel's order.
    Edge weight(std::string const& name, int64_t layer) const {
        std::vector<Edge> parts;
        for (auto suffix : {"", "_reverse"}) {
            if (*suffix && !info.bidirectional) break;
            auto* edge = c.tensor(frontend::concat(name, "_l", layer, suffix));
            auto order = gate_order(info.cell);
            c.expect_rank(edge, 1, 2, name);
            c.expect_equal(Call::shape(edge)[0], info.hidden * static_cast<int64_t>(order.size()), name);
            std::vector<Edge> gates;
            for (auto gate : order) gates.push_back(c.slice(edge, 0, info.hidden * gate, info.hidden * (gate + 1)));
            parts.push_back(c.unsqueeze(order.size() == 1 ? edge : c.concat(gates, 0), 0));
        }
        return c.concat(parts, 0);
    }

    Edge bias(int64_t layer) const { return c.concat({weight("bias_ih", layer), weight("bias_hh", layer)}, 1); }

    /// State of one layer from [layers · D, N, H]; the kernel has the batch first if the sequence has.
    Edge state(Edge all, int64_t layer) const {
        auto* own = c.slice(all, 0, directions * layer, directions * (layer + 1));
        return info.batch_first ? c.swap_axes(own, 0, 1) : own;
    }

    Edge checked_state(std::string_view name) const {
        auto* edge = c.tensor_or_null(name);
        if (!edge) return nullptr;
        if (Call::rank(edge) == 2) edge = c.unsqueeze(edge, 1);
        c.expect_rank(edge, 3, 3, name);
        c.expect_equal(Call::shape(edge)[0], directions * count, "the states of layers and directions");
        c.expect_equal(Call::shape(edge)[2], info.hidden, "the size of a state");
        return edge;
    }

    /// [S, D, N, H] or [N, S, D, H] as features of a position.
    Edge features(Edge y) const {
        if (!info.batch_first && info.bidirectional) y = c.transpose(y, {0, 2, 1, 3});
        auto const& shape = Call::shape(y);
        if (info.batch_first || info.bidirectional) return c.reshape(y, {shape[0], shape[1], directions * info.hidden});
        return c.reshape(y, {shape[0], shape[2], DimExpr(info.hidden)});
    }
};

RecurrentInfo info_of(Call& c) {
    RecurrentInfo info;
    info.cell = cell_of(c);
    info.hidden = c.integer("hidden_size");
    if (info.hidden < 1) refuse_invalid("hidden_size is ", info.hidden, ", expected at least 1");
    info.bidirectional = c.flag("bidirectional", false), info.batch_first = c.flag("batch_first", false);
    info.bias = c.flag("bias", true);
    // torch: n = tanh(W x + b + r ∘ (R h + b)).
    info.linear_before_reset = info.cell == RecurrentCell::Gru;
    auto nonlinearity = c.text("nonlinearity", "tanh");
    if (nonlinearity != "tanh" && nonlinearity != "relu")
        refuse_invalid("nonlinearity is \"", nonlinearity, "\", expected tanh or relu");
    auto last = nonlinearity == "relu" ? CellFunction::Relu : CellFunction::Tanh;
    for (int d = 0; d <= info.bidirectional; ++d) {
        if (info.cell != RecurrentCell::Rnn) info.activations.push_back({CellFunction::Sigmoid});
        if (info.cell == RecurrentCell::Lstm) info.activations.push_back({CellFunction::Tanh});
        info.activations.push_back({last});
    }
    return info;
}

void build_recurrent(Call& c) {
    if (c.integer("proj_size", 0)) refuse_unsupported("proj_size = ", c.integer("proj_size"));
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 3, "the input");
    bool has_batch = Call::rank(x) == 3;
    Layers layers{c, info_of(c), 1, 1, c.integer("num_layers", 1)};
    auto& info = layers.info;
    // One sequence without a batch axis: positions first.
    if (!has_batch) x = c.unsqueeze(x, 1), info.batch_first = false;
    layers.directions = info.bidirectional ? 2 : 1;
    layers.batch = Call::shape(x)[!info.batch_first];
    if (layers.count < 1 || layers.count > 1024) refuse_invalid("num_layers is ", layers.count);
    bool lstm = info.cell == RecurrentCell::Lstm;
    auto *h = layers.checked_state("hx"), *cell = lstm ? layers.checked_state("cx") : nullptr;
    info.initial_h = h, info.initial_c = cell;
    info.y_h = c.wants(1), info.y_c = c.wants(2);
    if (c.output_count() > (lstm ? 3 : 2)) refuse_invalid(c.output_count(), " outputs");
    auto const& from = Call::shape(x);
    DimExpr hidden = info.hidden;
    auto y_shape = info.batch_first ? Shape{from[0], from[1], layers.directions, hidden}
                                    : Shape{from[0], layers.directions, from[1], hidden};
    auto state_shape = info.batch_first ? Shape{layers.batch, layers.directions, hidden}
                                        : Shape{layers.directions, layers.batch, hidden};
    std::vector<Edge> last[2];
    for (int64_t layer = 0; layer < layers.count; ++layer) {
        std::vector<Edge> inputs{x, layers.weight("weight_ih", layer), layers.weight("weight_hh", layer)};
        c.expect_equal(Call::shape(inputs[1]).back(), Call::shape(x)[2], "the number of features");
        if (info.bias) inputs.push_back(layers.bias(layer));
        if (h) inputs.push_back(layers.state(h, layer));
        if (cell) inputs.push_back(layers.state(cell, layer));
        std::vector<LowerContext::Spec> outputs{{Call::type_of(x), y_shape}};
        outputs.resize(1 + info.y_h + info.y_c, {Call::type_of(x), state_shape});
        auto results = c.emit_all(info, inputs, std::move(outputs));
        x = layers.features(results[0]);
        for (size_t i = 1; i < results.size(); ++i)
            last[i - 1].push_back(info.batch_first ? c.swap_axes(results[i], 0, 1) : results[i]);
    }
    c.set(has_batch ? x : c.squeeze(x, 1));
    size_t next = 0;
    for (size_t i = 1; i < 3; ++i) {
        if (!c.wants(i)) continue;
        auto* all = c.concat(last[next++], 0);
        c.set(i, has_batch ? all : c.squeeze(all, 1));
    }
}

}  // namespace

void define_recurrent(Definitions& all) {
    constexpr std::string_view kGru =
        "input hx | batch_first bias bidirectional hidden_size input_size num_layers dropout nonlinearity weight_* "
        "bias_*";
    all.push_back({"nn.GRU nn.RNN", kGru, build_recurrent});
    all.push_back({"nn.LSTM",
                   "input hx cx | batch_first bias bidirectional hidden_size input_size num_layers dropout proj_size "
                   "weight_* bias_*",
                   build_recurrent});
}

}  // namespace refactor::pnnx
