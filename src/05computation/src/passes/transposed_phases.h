#pragma once
#include "kernel/ops/conv.h"
#include "passes/quantized.h"

namespace refactor::computation {

/// A transposed convolution as a convolution: outputs whose positions have the same remainder by the strides (a phase)
/// read the same taps of the kernel, at the same distances in X, whatever the phase. So one convolution with stride 1
/// computes all phases as channels, and moving these to their positions gives Y.
///
/// Along an axis of stride s, kernel k (extent with dilation) and T = ceil(k / s): Y[s u + r - pad] = Σ over t < T of
/// X[u - t] · W[s t + r], where W is zero behind its end and between dilated taps.
class TransposedPhases {
    size_t axes_ = 0;
    int64_t group_ = 1, in_channels_ = 0, out_channels_ = 0;  ///< channels of one group
    Dims kernel_, strides_, dilations_, taps_, first_;        ///< `first_`: u of the first position
    Dims crop_;
    kernel::Window window_;
    Shape positions_, y_;  ///< spatial sizes
    bool cropped_ = false;

public:
    /// Why the node cannot be computed so, or empty.
    std::string init(NodePtr node, kernel::ConvTransposeInfo const& info);

    kernel::Window const& window() const { return window_; }
    int64_t group() const { return group_; }
    int64_t channels() const { return group_ * out_channels_; }
    int64_t channels_of_group() const { return out_channels_; }
    /// Phases, the channels of each group behind each other.
    int64_t phases() const;
    /// Of `values`, one for all or one for each channel (or each of a group), those of the convolution's channels.
    template <class T>
    std::vector<T> of_channels(std::vector<T> const& values) const {
        if (values.size() <= 1) return values;
        std::vector<T> all;
        for (int64_t g = 0; g < group_; ++g)
            for (int64_t p = 0; p < phases(); ++p)
                for (int64_t m = 0; m < out_channels_; ++m)
                    all.push_back(values[(static_cast<size_t>(g * out_channels_ + m)) % values.size()]);
        return all;
    }
    /// W [C, M/group, kernel…] of bytes as that of the convolution; `zeros`: as the weights, one or one for each
    /// channel of a group.
    EdgePtr weights(Graph& graph, EdgePtr w, std::vector<double> const& zeros) const;
    /// X [N, C, spatial…] with the channels last.
    EdgePtr channels_last(Graph& graph, EdgePtr x) const;
    /// Shape of what the convolution makes, with the channels last.
    Shape shape(DimExpr const& batch) const;
    /// Moves its phases to their positions: makes `y` [N, M, spatial…].
    void spread(Graph& graph, EdgePtr phases, EdgePtr y) const;
};

}  // namespace refactor::computation
