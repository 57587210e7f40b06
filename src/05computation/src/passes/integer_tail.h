#pragma once
#include "kernel/ops/integer.h"
#include "passes/quantized.h"

namespace refactor::computation {

/// What follows the sums of an integer product or convolution, as far as its kernels can do it in their epilogue.
///
/// `follow` walks down from the f32 tensor `sum * scale + shift`; `channels` are on `axis`. Then `output` is the tensor
/// that the integer node makes, and the rest says how.
class IntegerTail {
    size_t axis_;
    int64_t channels_;
    EdgePtr scale_edge_ = nullptr;
    bool takes_residual_ = true, takes_slope_ = true;

    struct State {
        EdgePtr output = nullptr;
        std::vector<double> scale, shift;  ///< one, or one for each channel; shift may be empty
        float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
        bool clipped = false;
        double slope = 1;  ///< of negative numbers; what comes behind it is bounds and a quantisation
        std::optional<Quantum> middle, last;
        std::vector<double> before;  ///< shift in front of the middle quantum
        float before_low = 0, before_high = 0;
        double factor = 1;  ///< behind the middle quantum
        EdgePtr residual = nullptr;
        float residual_scale = 1;
        int32_t residual_zero = 0;
    };
    State s_;

    struct Single;
    bool take_slope(Single const& single);
    bool take_unary(NodePtr node);
    bool take_addend(NodePtr node);
    bool take_factor(NodePtr node);
    bool take_residual(EdgePtr other);
    bool take_quantize(NodePtr node);
    bool take_dequantize(NodePtr node);
    bool step(NodePtr node);
    std::optional<std::vector<double>> per_channel(EdgePtr edge) const;

public:
    IntegerTail(size_t axis, int64_t channels, EdgePtr output, std::vector<double> scale, std::vector<double> shift)
        : axis_(axis), channels_(channels) {
        s_.output = output, s_.scale = std::move(scale), s_.shift = std::move(shift);
    }
    /// Bytes, quantised from that by `last`.
    IntegerTail(size_t axis, int64_t channels, EdgePtr output, std::vector<double> scale, std::vector<double> shift,
                Quantum const& last)
        : IntegerTail(axis, channels, output, std::move(scale), std::move(shift)) {
        s_.last = last;
    }
    /// `f32(sum) * scale` with a tensor of one scale, or one for each channel; `channels` -1: not known.
    IntegerTail(size_t axis, int64_t channels, EdgePtr output, EdgePtr scale)
        : axis_(axis), channels_(channels), scale_edge_(scale) {
        s_.output = output, s_.scale = {1};
    }
    /// Leaves the addition of other tensors to other nodes.
    void refuse_residual() { takes_residual_ = false; }
    /// Leaves a leaky ReLU to another node.
    void refuse_slope() { takes_slope_ = false; }
    void follow();
    EdgePtr output() const { return s_.output; }
    /// Fills inputs from `kBias` on; the rest is in the result.
    kernel::IntegerResult finish(Graph& graph, std::string const& name, std::vector<EdgePtr>& inputs) const;
};

}  // namespace refactor::computation
