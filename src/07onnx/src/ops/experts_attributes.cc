#include "experts_attributes.h"

#include <algorithm>
#include <array>

namespace refactor::onnx {

namespace {

using LayersInputs = std::array<LayerInputs, 3>;
constexpr LayersInputs kFloatLayers{
    {{"FC1", 2, kNone, 3, kNone, {}}, {"FC2", 4, kNone, 5, kNone, {}}, {"FC3", 6, kNone, 7, kNone, {}}}};
constexpr LayersInputs kPackedLayers{{{"FC1", 2, 3, 4, 11, "fc1_expert_weight_bits"},
                                      {"FC2", 5, 6, 7, 12, "fc2_expert_weight_bits"},
                                      {"FC3", 8, 9, 10, 13, "fc3_expert_weight_bits"}}};
constexpr size_t kFirstF8Input = 15, kLastF8Input = 20;

Inferred<Layer> layer_of(InferContext const& c, NodeView const& n, LayerInputs const& inputs) {
    Layer layer;
    layer.inputs = inputs;
    auto say = [&](auto const&... rest) { return Err{invalid(inputs.name, ": ", rest...)}; };
    if (!c.has(inputs.weights)) return say("its weights are omitted");
    auto const& w = c.shape(inputs.weights);
    if (w.size() != 3) return say("weights of ", w.size(), " axes, expected 3");
    auto rows = w[1].constant(), width = w[2].constant();
    if (!w[0].constant() || !rows || !width) return Err{unsupported(inputs.name, ": weights of open sizes")};
    layer.n = *rows, layer.k = *width;
    if (inputs.scales == kNone) return layer;
    auto bits = n.integer(inputs.bits, n.integer("expert_weight_bits", 4));
    if (bits != 2 && bits != 4 && bits != 8) return say("weights of ", bits, " bits, expected 2, 4 or 8");
    layer.bits = static_cast<int32_t>(bits), layer.k = *width * 8 / bits;
    layer.block = n.integer("block_size", 0), layer.by_columns = layer.block <= 0;
    if (layer.by_columns) {
        constexpr int64_t kLongest = 128;
        layer.block = layer.k ? std::min(kLongest, layer.k & -layer.k) : kLongest;
    } else if (layer.block < 16 || layer.block & (layer.block - 1)) {
        return say("blocks of ", layer.block, ", expected a power of 2 of at least 16");
    } else if (layer.k % layer.block) {
        return say("blocks of ", layer.block, " do not divide ", layer.k);
    }
    if (!c.has(inputs.scales)) return say("its scales are omitted");
    return layer;
}

Inferred<Gate> gate_of(InferContext const& c, NodeView const& n, LayerInputs const& third) {
    auto fusion = n.integer("swiglu_fusion", 0);
    bool swiglu = n.text("activation_type", "relu") == "swiglu";
    if (fusion < 0 || fusion > 2) return Err{invalid("swiglu_fusion is ", fusion, ", expected 0 to 2")};
    if (swiglu && fusion) {
        if (c.has(third.weights)) return Err{invalid("FC3 beside swiglu_fusion = ", fusion)};
        return fusion == 1 ? Gate::Interleaved : Gate::Halves;
    }
    if (c.has(third.weights)) return Gate::Third;
    if (swiglu) return Err{invalid("swiglu needs FC3 or swiglu_fusion")};
    return Gate::None;
}

Status read_routing(InferContext const& c, NodeView const& n, Experts& x) {
    x.chosen = n.integer("k", 1);
    if (x.chosen < 1 || x.chosen > x.count) return invalid("k is ", x.chosen, ", expected 1 to ", x.count, " experts");
    x.normalized = n.integer("normalize_routing_weights", 0) != 0;
    x.sparse_mixer = n.integer("use_sparse_mixer", 0) != 0;
    if (x.sparse_mixer && x.chosen != 2) return invalid("use_sparse_mixer with k = ", x.chosen, ", expected 2");
    if (x.sparse_mixer && c.has(kRouterWeights)) return unsupported("router_weights with use_sparse_mixer");
    return std::nullopt;
}

}  // namespace

Inferred<Experts> experts_of(InferContext const& c, NodeView const& n) {
    Experts x;
    x.packed = n.op_type == "QMoE";
    auto const& inputs = x.packed ? kPackedLayers : kFloatLayers;
    if (x.packed) {
        if (auto type = n.text("quant_type", "int"); type != "int") return Err{unsupported("quant_type = ", type)};
        if (n.integer("weights_prepacked", -1) == 1) return Err{unsupported("weights_prepacked = 1")};
        for (auto i = kFirstF8Input; i <= kLastF8Input; ++i)
            if (c.has(i)) return Err{invalid("input ", i, " is for other types of quantization than int")};
        x.may_round = n.integer("accuracy_level", 0) == 4;
    }
    x.activation = n.text("activation_type", "relu");
    constexpr std::string_view kActivations[]{"relu", "gelu", "silu", "swiglu", "identity"};
    if (std::ranges::find(kActivations, x.activation) == std::end(kActivations))
        return Err{invalid("activation_type is ", x.activation, ", expected relu, gelu, silu, swiglu or identity")};
    x.alpha = n.number("activation_alpha", 1), x.beta = n.number("activation_beta", 0);
    x.limit = n.number("swiglu_limit", INFINITY);
    RG_TRY(gate, gate_of(c, n, inputs[2]));
    RG_TRY(up, layer_of(c, n, inputs[0]));
    RG_TRY(down, layer_of(c, n, inputs[1]));
    x.gate = gate, x.up = up, x.down = down;
    if (gate == Gate::Third) {
        RG_TRY(third, layer_of(c, n, inputs[2]));
        x.third = third;
    }
    x.count = *c.shape(inputs[0].weights)[0].constant();
    if (auto failure = read_routing(c, n, x)) return Err{*failure};
    return x;
}

}  // namespace refactor::onnx
