#pragma once
#include "kernel/ops/recurrent.h"
#include "reduce/kernel_test.h"

// Layers for tests of recurrent kernels of floats.

namespace refactor::kernel::test {
namespace {

struct Sizes {
    int64_t steps, batch, inputs, hidden;
};

/// Operands of a layer with every optional input that `info` names, and its outputs. `values(dims)` makes X and the
/// first h, `weights(dims, terms)` W and R for sums of so many terms.
struct Layer {
    std::vector<Tensor> inputs, outputs;

    template <class Values, class Weights>
    Layer(RecurrentInfo const& info, Sizes s, std::mt19937& random, bool constant, Values&& values, Weights&& weights) {
        int64_t d = info.bidirectional ? 2 : 1, g = gates_of(info.cell), h = s.hidden;
        auto order = [&](int64_t a, int64_t b, int64_t c) { return info.batch_first ? Dims{b, a, c} : Dims{a, b, c}; };
        inputs = {values(order(s.steps, s.batch, s.inputs)), weights(Dims{d, g * h, s.inputs}, s.inputs),
                  weights(Dims{d, g * h, h}, h)};
        if (constant) inputs[1].as_constant(), inputs[2].as_constant();
        if (info.bias) inputs.push_back(random_f32({d, 2 * g * h}, random));
        if (info.lengths) {
            std::vector<int32_t> lengths;
            for (int64_t n = 0; n < s.batch; ++n)
                lengths.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(s.steps + 1)));
            inputs.push_back(Tensor::of(DataType::I32, {s.batch}, lengths));
        }
        if (info.initial_h) inputs.push_back(values(order(d, s.batch, h)));
        if (info.initial_c) inputs.push_back(random_f32(order(d, s.batch, h), random));
        if (info.peepholes) inputs.push_back(random_f32({d, 3 * h}, random, 0.3f));
        auto y = info.batch_first ? Dims{s.batch, s.steps, d, h} : Dims{s.steps, d, s.batch, h};
        if (info.y) outputs.emplace_back(DataType::F32, y);
        if (info.y_h) outputs.emplace_back(DataType::F32, order(d, s.batch, h));
        if (info.y_c) outputs.emplace_back(DataType::F32, order(d, s.batch, h));
    }
};

/// How many of two candidates by tiles, with operands rounded (`pairs`) or in parts, take a layer.
inline int tile_candidates(RecurrentInfo const& info, Sizes s, bool pairs) {
    auto rows = info.batch_first ? s.steps : s.steps * s.batch;
    return cpu_features().isa >= Isa::Avx512Amx && rows >= (pairs ? 16 : 24);
}

/// A layer with the options that `bits` name.
inline RecurrentInfo info_of(RecurrentCell cell, int64_t hidden, unsigned bits) {
    RecurrentInfo info;
    info.cell = cell, info.hidden = hidden;
    info.bidirectional = bits & 1, info.reverse = (bits & 3) == 2, info.batch_first = bits & 4, info.bias = bits & 8;
    info.lengths = bits & 16, info.initial_h = bits & 32, info.y_h = bits & 64, info.y = !(bits & 128) || !info.y_h;
    bool lstm = cell == RecurrentCell::Lstm;
    info.initial_c = lstm && info.initial_h, info.peepholes = lstm && (bits & 256), info.y_c = lstm && info.y_h;
    info.input_forget = lstm && (bits & 512), info.linear_before_reset = cell == RecurrentCell::Gru && (bits & 256);
    if (bits & 1024) info.clip = 0.7f;
    CellActivation sigmoid{CellFunction::Sigmoid, 0, 0}, tanh{CellFunction::Tanh, 0, 0};
    for (int i = 0; i < (info.bidirectional ? 2 : 1); ++i) {
        if (cell != RecurrentCell::Rnn) info.activations.push_back(sigmoid);
        info.activations.push_back(tanh);
        if (lstm) info.activations.push_back(tanh);
    }
    return info;
}

}  // namespace
}  // namespace refactor::kernel::test
