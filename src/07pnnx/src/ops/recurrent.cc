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
    int64_t projection = 0;  ///< size of the projected state, 0 if there is none

    int64_t width() const { return projection ? projection : info.hidden; }

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
        c.expect_equal(Call::shape(edge)[2], name == "hx" ? width() : info.hidden, "the size of a state");
        return edge;
    }

    /// W_hr of all directions, [D, P, H].
    Edge projector(int64_t layer) const {
        std::vector<Edge> parts;
        for (auto suffix : {"", "_reverse"}) {
            if (*suffix && !info.bidirectional) break;
            auto* edge = c.tensor(frontend::concat("weight_hr_l", layer, suffix));
            c.expect_rank(edge, 2, 2, "weight_hr");
            c.expect_equal(Call::shape(edge)[0], projection, "the rows of weight_hr");
            c.expect_equal(Call::shape(edge)[1], info.hidden, "the columns of weight_hr");
            parts.push_back(c.unsqueeze(edge, 0));
        }
        return c.concat(parts, 0);
    }

    /// The projected state h = W_hr m enters the gates as W_hh W_hr m, so that m is the state of a layer without
    /// projection. An initial h, which no m need lead to, is read with the first position: x gets `projection` more
    /// features for each direction, which are zero elsewhere. x is [S, N, F].
    void fold_projection(Edge hx, int64_t layer, Edge& x, Edge& w, Edge& r) const {
        auto* wide = r;
        r = c.matmul(r, projector(layer));
        if (!hx) return;
        auto const& from = Call::shape(x);
        auto dtype = Call::type_of(x);
        auto* first = state(hx, layer);  // [D, N, P]
        DimExpr rows = 4 * info.hidden, none = projection;
        auto* zero = c.filled(dtype, 0, {DimExpr(1), rows, none});
        std::vector<Edge> features{x}, columns;
        for (int64_t d = 0; d <= info.bidirectional; ++d) {
            auto* own = c.slice(first, 0, d, d + 1);
            auto* rest = c.filled(dtype, 0, {from[0] - 1, from[1], none});
            features.push_back(c.concat(d ? std::vector<Edge>{rest, own} : std::vector<Edge>{own, rest}, 0));
            auto* weight = c.slice(wide, 0, d, d + 1);
            columns.push_back(!info.bidirectional ? weight
                              : d                 ? c.concat({zero, weight}, 0)
                                                  : c.concat({weight, zero}, 0));
        }
        columns.insert(columns.begin(), w);
        x = c.concat(features, 2), w = c.concat(columns, 2);
    }

    /// [S, D, N, H] or [N, S, D, H] as features of a position.
    Edge features(Edge y) const {
        if (!info.batch_first && info.bidirectional) y = c.transpose(y, {0, 2, 1, 3});
        auto const& shape = Call::shape(y);
        if (info.batch_first || info.bidirectional)
            return c.reshape(y, {shape[0], shape[1], directions * shape.back()});
        return c.reshape(y, {shape[0], shape[2], shape.back()});
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
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 3, "the input");
    bool has_batch = Call::rank(x) == 3;
    Layers layers{c, info_of(c), 1, 1, c.integer("num_layers", 1), c.integer("proj_size", 0)};
    auto& info = layers.info;
    if (layers.projection < 0 || layers.projection >= info.hidden)
        refuse_invalid("proj_size is ", layers.projection, ", expected less than hidden_size = ", info.hidden);
    // One sequence without a batch axis: positions first.
    if (!has_batch) x = c.unsqueeze(x, 1), info.batch_first = false;
    // What is projected has the positions first.
    if (layers.projection && info.batch_first) x = c.swap_axes(x, 0, 1), info.batch_first = false;
    layers.directions = info.bidirectional ? 2 : 1;
    layers.batch = Call::shape(x)[!info.batch_first];
    if (layers.count < 1 || layers.count > 1024) refuse_invalid("num_layers is ", layers.count);
    bool lstm = info.cell == RecurrentCell::Lstm;
    auto *h = layers.checked_state("hx"), *cell = lstm ? layers.checked_state("cx") : nullptr;
    info.initial_h = h && !layers.projection, info.initial_c = cell;
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
        auto *w = layers.weight("weight_ih", layer), *r = layers.weight("weight_hh", layer);
        c.expect_equal(Call::shape(w).back(), Call::shape(x)[2], "the number of features");
        c.expect_equal(Call::shape(r).back(), layers.width(), "the columns of weight_hh");
        if (layers.projection) layers.fold_projection(h, layer, x, w, r);
        std::vector<Edge> inputs{x, w, r};
        if (info.bias) inputs.push_back(layers.bias(layer));
        if (info.initial_h) inputs.push_back(layers.state(h, layer));
        if (cell) inputs.push_back(layers.state(cell, layer));
        std::vector<LowerContext::Spec> outputs{{Call::type_of(x), y_shape}};
        outputs.resize(1 + info.y_h + info.y_c, {Call::type_of(x), state_shape});
        auto results = c.emit_all(info, inputs, std::move(outputs));
        for (size_t i = 0; layers.projection && i < 1 + size_t{info.y_h}; ++i)
            results[i] = c.matmul(results[i], layers.projector(layer), true);
        x = layers.features(results[0]);
        for (size_t i = 1; i < results.size(); ++i)
            last[i - 1].push_back(info.batch_first ? c.swap_axes(results[i], 0, 1) : results[i]);
    }
    if (layers.projection && c.flag("batch_first", false) && has_batch) x = c.swap_axes(x, 0, 1);
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
