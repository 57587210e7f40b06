#pragma once
// Convolutions of any shape.
#include "conv/test_harness.h"
#include "kernel/ops/conv.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using namespace test;

struct Case {
    Dims x, w;
    ConvInfo info;
    bool constant_weights = true, emulates_tiles = false;  ///< f32 on emulated tiles, too

    Dims out() const {
        Dims y{x[0], w[0]};
        auto const& window = info.window;
        for (size_t i = 0; i + 2 < x.size(); ++i)
            y.push_back(
                (x[i + 2] + window.pads_begin[i] + window.pads_end[i] - window.dilations[i] * (w[i + 2] - 1) - 1) /
                    window.strides[i] +
                1);
        return y;
    }
    /// Square windows of 2 × 2 taps or more, or 2 or more along one axis.
    bool may_be_winograd() const {
        auto taps = element_count(std::span<int64_t const>(w).subspan(2));
        auto longest = *std::max_element(w.begin() + 2, w.end());
        return longest >= 2 && ((w.size() >= 4 && w.end()[-2] == w.back()) || taps == longest);
    }
    std::string text() const { return dims_text(x) + " * " + dims_text(w) + " " + info.attributes(); }
};

Epilogue random_epilogue(std::mt19937& rng) {
    constexpr ActivationKind kKinds[] = {
        ActivationKind::None,    ActivationKind::Relu,     ActivationKind::Clip,      ActivationKind::LeakyRelu,
        ActivationKind::Sigmoid, ActivationKind::Silu,     ActivationKind::HardSwish, ActivationKind::HardSigmoid,
        ActivationKind::GeluErf, ActivationKind::GeluTanh, ActivationKind::Tanh};
    Epilogue e;
    auto bits = rng();
    e.activation = {kKinds[bits % std::size(kKinds)], 0.2f, 0.7f};
    e.bias = bits >> 8 & 1, e.residual = (bits >> 9 & 3) == 0, e.residual_last = bits >> 11 & 1;
    return e;
}

int64_t pick(std::mt19937& rng, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

Case random_case(std::mt19937& rng, size_t rank, int64_t group, int64_t in_group, int64_t out_group) {
    Case c;
    c.info.group = group, c.info.epilogue = random_epilogue(rng);
    c.constant_weights = pick(rng, 0, 7) > 0;
    c.x = {pick(rng, 1, 2), group * in_group}, c.w = {group * out_group, in_group};
    auto& window = c.info.window;
    for (size_t i = 0; i < rank; ++i) {
        c.w.push_back(pick(rng, 1, 4));
        window.strides.push_back(pick(rng, 1, 3)), window.dilations.push_back(pick(rng, 1, 2));
        window.pads_begin.push_back(pick(rng, 0, 2)), window.pads_end.push_back(pick(rng, 0, 2));
        auto reach = window.dilations.back() * (c.w.back() - 1) + 1;
        c.x.push_back(pick(rng, reach, reach + (rank == 3 ? 7 : rank == 2 ? 19 : 60)));
    }
    return c;
}

[[maybe_unused]] Case square_case(std::mt19937& rng, int64_t kernel, int64_t stride, int64_t group, int64_t in_group,
                                  int64_t out_group) {
    auto c = random_case(rng, 2, group, in_group, out_group);
    for (size_t i = 0; i < 2; ++i) {
        c.w[2 + i] = kernel, c.info.window.strides[i] = stride, c.info.window.dilations[i] = 1;
        c.info.window.pads_begin[i] = c.info.window.pads_end[i] = kernel / 2;
        c.x[2 + i] = pick(rng, 5, 40);
    }
    return c;
}

}  // namespace
}  // namespace refactor::kernel
