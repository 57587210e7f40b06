#include "ncnn/layer.h"

#include <algorithm>
#include <cmath>

// Products, normalisation, attention: layers with weights.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;

void inner_product(Layer& l) {
    auto filters = l.integer(0, 0), size = l.integer(2, 0);
    if (filters < 1 || size % filters) return l.refuse(concat(size, " weights for ", filters, " outputs"), false);
    if (l.integer(8, 0)) return l.refuse("int8 weights");
    std::vector<std::pair<std::string, std::string>> inputs{
        {"input", l.input(0)}, {"weight", l.weight("weight", {filters, size / filters}, true)}};
    if (l.integer(1, 0)) inputs.emplace_back("bias", l.weight("bias", {filters}, false));
    l.finish(l.emit("ncnn.InnerProduct", inputs));
}

void batch_norm(Layer& l) {
    std::vector<int64_t> channels{l.integer(0, 0)};
    std::vector<std::pair<std::string, std::string>> inputs;
    for (auto key : {"weight", "running_mean", "running_var", "bias"})
        inputs.emplace_back(key, l.weight(key, channels, false));
    l.emit_in_batch("nn.BatchNorm2d", std::move(inputs), {{"eps", Term::of_float(l.number(1, 0))}});
}

void group_norm(Layer& l) {
    bool instance = l.node().type == "InstanceNorm";
    auto channels = l.integer(instance ? 0 : 1, 0);
    int64_t eps_id = instance ? 1 : 2, affine_id = instance ? 2 : 3;
    std::vector<std::pair<std::string, std::string>> inputs;
    if (l.integer(affine_id, 1))
        for (auto key : {"weight", "bias"}) inputs.emplace_back(key, l.weight(key, {channels}, false));
    Layer::Named arguments{{"eps", Term::of_float(l.number(eps_id, 1e-3))}};
    if (!instance) arguments.emplace_back("num_groups", Term::of_int(l.integer(0, 1)));
    l.emit_in_batch(instance ? "nn.InstanceNorm2d" : "nn.GroupNorm", std::move(inputs), std::move(arguments));
}

void layer_norm(Layer& l) {
    bool rms = l.node().type == "RMSNorm";
    auto size = l.integer(0, 0);
    std::vector<std::pair<std::string, std::string>> inputs{{"input", l.input(0)}};
    if (l.integer(2, 1)) {
        inputs.emplace_back("weight", l.weight("weight", {size}, false));
        if (!rms) inputs.emplace_back("bias", l.weight("bias", {size}, false));
    }
    l.emit(rms ? "nn.RMSNorm" : "nn.LayerNorm", inputs,
           {{"normalized_shape", list_of({size})}, {"eps", Term::of_float(l.number(1, 1e-3))}}, {l.output()});
}

void prelu(Layer& l) {
    auto slopes = l.integer(0, 0);
    l.emit_in_batch("nn.PReLU", {{"weight", l.weight("weight", {slopes}, false)}}, {});
}

void memory_data(Layer& l) {
    std::vector<int64_t> dims;
    for (auto id : {2, 11, 1, 0})
        if (auto size = l.integer(id, 0); size) dims.push_back(size);
    // How they are stored: with a tag, f32, f16, or bytes.
    auto kind = l.integer(21, 1);
    if (kind < 0 || kind > 3 || kind == 2) return l.refuse(concat("data of the kind ", kind));
    auto data = kind == 3 ? l.byte_weight("data", dims) : l.weight("data", dims, kind == 0);
    l.emit("pnnx.Output", {{"input", data}}, {}, {l.output()});
}

void embed(Layer& l) {
    auto width = l.integer(0, 0), rows = l.integer(1, 0);
    auto weight = l.weight("weight", {rows, width}, true);
    bool bias = l.integer(2, 0) != 0;
    std::vector<std::string> last{l.output()};
    auto y = l.emit("nn.Embedding", {{"input", l.input(0)}, {"weight", weight}}, {},
                    bias ? std::vector<std::string>{} : last);
    if (bias) l.emit("torch.add", {{"input", y}, {"other", l.weight("bias", {width}, false)}}, {}, last);
}

void matmul(Layer& l) {
    std::string right = l.input(1);
    if (l.integer(0, 0))
        right = l.emit("torch.transpose", {{"input", right}}, {{"dim0", Term::of_int(-2)}, {"dim1", Term::of_int(-1)}});
    l.emit("torch.matmul", {{"input", l.input(0)}, {"other", right}}, {}, {l.output()});
}

/// A · Bᵀ + C with constant B and C: what a linear layer of rows becomes.
void constant_gemm(Layer& l) {
    auto columns = l.integer(8, 0), inner = l.integer(9, 0), broadcast = l.integer(10, 0);
    bool rows = l.integer(2, 0) == 0 && l.integer(3, 0) == 1 && l.number(0, 1) == 1 && l.number(1, 1) == 1;
    bool as_linear = l.integer(4, 0) == 0 && l.integer(5, 0) == 1 && rows && l.integer(14, 0) == 0;
    if (!as_linear || l.integer(18, 0)) return l.refuse("constant operands in this arrangement");
    std::vector<std::pair<std::string, std::string>> inputs{{"input", l.input(0)},
                                                            {"weight", l.weight("weight", {columns, inner}, true)}};
    if (l.integer(6, 0) && broadcast != -1) {
        if (broadcast != 4) return l.refuse("a third operand that is no row");
        inputs.emplace_back("bias", l.weight("bias", {columns}, true));
    } else if (l.node().inputs.size() > 1) {
        return l.refuse("a third operand that is not constant");
    }
    l.emit("nn.Linear", inputs, {}, {l.output()});
}

void gemm(Layer& l) {
    for (auto id : {4, 5, 6})
        if (l.integer(id, 0)) return constant_gemm(l);
    std::string sides[2];
    for (size_t i = 0; i < 2; ++i) {
        sides[i] = l.input(i);
        if (l.integer(2 + static_cast<int64_t>(i), 0)) sides[i] = l.emit("torch.t", {{"input", sides[i]}});
    }
    auto alpha = l.number(0, 1), beta = l.number(1, 1);
    if (l.node().inputs.size() == 2 && alpha == 1) {
        l.emit("torch.mm", {{"input", sides[0]}, {"mat2", sides[1]}}, {}, {l.output()});
        return;
    }
    if (l.node().inputs.size() != 3) return l.refuse("a factor without a third operand");
    // (A · B + beta · C) · alpha
    l.emit("torch.addmm", {{"input", l.input(2)}, {"mat1", sides[0]}, {"mat2", sides[1]}},
           {{"alpha", Term::of_float(alpha)}, {"beta", Term::of_float(alpha * beta)}}, {l.output()});
}

void attention(Layer& l) {
    auto width = l.integer(0, 0), heads = l.integer(1, 1), keys = l.integer(3, width), values = l.integer(4, width);
    if (l.integer(7, 0)) return l.refuse("a cache");
    auto queries = width > 0 ? l.integer(2, 0) / width : 0;
    std::vector<std::pair<std::string, std::string>> inputs, biases;
    std::pair<std::string, int64_t> const kParts[]{
        {"q_proj_weight", queries}, {"k_proj_weight", keys}, {"v_proj_weight", values}};
    for (auto const& [key, from] : kParts) {
        inputs.emplace_back(key, l.weight(key, {width, from}, true));
        biases.emplace_back("", l.weight(key + ".bias", {width}, false));
    }
    inputs.emplace_back("out_proj.weight", l.weight("out_proj.weight", {queries, width}, true));
    inputs.emplace_back("out_proj.bias", l.weight("out_proj.bias", {queries}, false));
    inputs.emplace_back("in_proj_bias", l.emit("torch.cat", biases, {{"dim", Term::of_int(0)}}));
    bool mask = l.integer(5, 0) != 0;
    auto operands = l.node().inputs.size() - mask;
    static constexpr std::string_view kNames[]{"query", "key", "value"};
    if (operands < 1 || operands > 3) return l.refuse(concat(operands, " inputs"), false);
    for (size_t i = 0; i < operands; ++i) inputs.emplace_back(kNames[i], l.input(i));
    if (mask) inputs.emplace_back("attn_mask", l.input(operands));
    l.emit("nn.MultiheadAttention", inputs,
           {{"embed_dim", Term::of_int(width)}, {"num_heads", Term::of_int(heads)}, {"batch_first", flag(true)}},
           {l.output()});
}

}  // namespace

void define_ncnn_weighted(LayerDefinitions& all) {
    all.push_back({"BatchNorm", batch_norm});
    all.push_back({"Embed", embed});
    all.push_back({"Gemm", gemm});
    for (auto name : {"GroupNorm", "InstanceNorm"}) all.push_back({name, group_norm});
    all.push_back({"InnerProduct", inner_product});
    for (auto name : {"LayerNorm", "RMSNorm"}) all.push_back({name, layer_norm});
    all.push_back({"MatMul", matmul});
    all.push_back({"MemoryData", memory_data});
    all.push_back({"MultiHeadAttention", attention});
    all.push_back({"PReLU", prelu});
}

}  // namespace refactor::pnnx
