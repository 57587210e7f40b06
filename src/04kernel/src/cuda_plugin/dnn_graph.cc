#include "cuda_plugin/dnn_graph.h"

namespace refactor::cuda_plugin {

cudnnDataType_t type_of(int32_t dtype) {
    switch (dtype) {
        case 1:
            return CUDNN_DATA_FLOAT;
        case 10:
            return CUDNN_DATA_HALF;
        case 11:
            return CUDNN_DATA_DOUBLE;
        case 16:
            return CUDNN_DATA_BFLOAT16;
        default:
            throw DnnFailure{CUDNN_STATUS_NOT_SUPPORTED, "cuDNN has no graph of dtype " + std::to_string(dtype)};
    }
}

Descriptor tensor(int64_t number, Sizes const& sizes, cudnnDataType_t type, bool is_virtual, Sizes steps) {
    if (steps.empty()) {
        steps.resize(sizes.size());
        int64_t step = 1;
        for (auto i = sizes.size(); i-- > 0; step *= sizes[i]) steps[i] = step;
    }
    Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
        .set(CUDNN_ATTR_TENSOR_STRIDES, steps)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
    if (is_virtual) made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    return made.finished();
}

Descriptor pointwise(Descriptor const& function, Descriptor const& x, Descriptor const* b, Descriptor const& y,
                     Descriptor const* chooses) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (chooses) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *chooses);
    return operation.finished();
}

namespace {

/// cuDNN wants two spatial axes at least, and takes no third one for nothing.
class ConvolutionGraph {
    RefactorConvolution const& c_;
    DnnGraph graph_;
    int first_axis_;
    cudnnDataType_t type_, sum_type_;
    int64_t next_virtual_ = kFirstVirtualTensor;

    Sizes spatial(int64_t const (&values)[3]) const { return {values + first_axis_, values + 3}; }
    Sizes sizes(int64_t a, int64_t b, int64_t const (&values)[3]) const {
        Sizes all{a, b};
        for (auto value : spatial(values)) all.push_back(value);
        return all;
    }
    /// Row-major, or with the channels behind all other axes.
    Sizes steps_of(Sizes const& of) const {
        Sizes steps(of.size(), 1);
        int64_t step = c_.channels_last ? of[1] : 1;
        for (auto i = of.size(); i-- > 0;) {
            if (c_.channels_last && i == 1) continue;
            steps[i] = step, step *= of[i];
        }
        return steps;
    }
    Descriptor operand(int64_t number, Sizes const& of) {
        graph_.operands.push_back(number);
        return tensor(number, of, type_, false, steps_of(of));
    }
    /// Y itself for the last operation, else a tensor that exists in registers only.
    Descriptor result(bool last) {
        auto of = sizes(c_.batch, c_.out_channels, c_.out);
        return last ? tensor(kOutputTensor, of, type_, false, steps_of(of))
                    : tensor(next_virtual_++, of, sum_type_, true, steps_of(of));
    }

    Descriptor window() const {
        // For the gradient of the data, what the end is padded with only has to agree with the sizes.
        auto end = spatial(c_.transposed ? c_.pad_begin : c_.pad_end);
        Descriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
        auto mode = CUDNN_CROSS_CORRELATION;
        made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sum_type_)
            .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
            .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{3 - first_axis_})
            .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(c_.dilation))
            .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(c_.stride))
            .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(c_.pad_begin))
            .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, end);
        return made.finished();
    }

    /// One or zero, in the type that sums have.
    void scale(Descriptor& operation, cudnnBackendAttributeName_t name, double value) const {
        if (sum_type_ == CUDNN_DATA_DOUBLE)
            operation.set(name, value);
        else
            operation.set(name, static_cast<float>(value));
    }

    Descriptor convolve(Descriptor const& y) {
        auto x = operand(0, sizes(c_.batch, c_.in_channels, c_.in));
        if (c_.transposed) {
            auto w = operand(1, sizes(c_.in_channels, c_.out_channels / c_.groups, c_.kernel));
            Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
            operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, y)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, window());
            scale(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1);
            scale(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0);
            return operation.finished();
        }
        auto w = operand(1, sizes(c_.out_channels, c_.in_channels / c_.groups, c_.kernel));
        Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
            .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
            .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
            .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window());
        scale(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1);
        scale(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0);
        return operation.finished();
    }

    Descriptor function(cudnnPointwiseMode_t mode) const {
        Descriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, sum_type_);
        if (mode == CUDNN_POINTWISE_RELU_FWD) {
            auto nan = CUDNN_PROPAGATE_NAN;
            made.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
            if (c_.activation == 2) {
                made.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, c_.alpha);
                made.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, c_.beta);
            }
            if (c_.activation == 3) made.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, c_.alpha);
        }
        return made.finished();
    }
    cudnnPointwiseMode_t activation() const {
        constexpr cudnnPointwiseMode_t kModes[] = {CUDNN_POINTWISE_RELU_FWD,
                                                   CUDNN_POINTWISE_RELU_FWD,
                                                   CUDNN_POINTWISE_RELU_FWD,
                                                   CUDNN_POINTWISE_SIGMOID_FWD,
                                                   CUDNN_POINTWISE_SWISH_FWD,
                                                   CUDNN_POINTWISE_GELU_FWD,
                                                   CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
                                                   CUDNN_POINTWISE_TANH_FWD};
        return kModes[c_.activation - 1];
    }

    enum class Step { Bias, Residual, Activation };

public:
    explicit ConvolutionGraph(RefactorConvolution const& c)
        : c_(c),
          first_axis_(c.in[0] == 1 && c.out[0] == 1 && c.kernel[0] == 1 && c.pad_begin[0] == 0 ? 1 : 0),
          type_(type_of(c.dtype)),
          sum_type_(type_ == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT) {}

    DnnGraph run() {
        std::vector<Step> steps;
        // Sums in the order that cuDNN's engines know.
        if (c_.residual && !c_.residual_last) steps.push_back(Step::Residual);
        if (c_.bias) steps.push_back(Step::Bias);
        if (c_.activation) steps.push_back(Step::Activation);
        if (c_.residual && c_.residual_last) steps.push_back(Step::Residual);
        auto value = result(steps.empty());
        graph_.operations.push_back(convolve(value));
        for (size_t i = 0; i < steps.size(); ++i) {
            auto y = result(i + 1 == steps.size());
            if (steps[i] == Step::Activation) {
                graph_.operations.push_back(pointwise(function(activation()), value, nullptr, y));
            } else {
                bool bias = steps[i] == Step::Bias;
                int64_t const ones[3] = {1, 1, 1};
                auto b = bias ? operand(2, sizes(1, c_.out_channels, ones))
                              : operand(3, sizes(c_.batch, c_.out_channels, c_.out));
                graph_.operations.push_back(pointwise(function(CUDNN_POINTWISE_ADD), value, &b, y));
            }
            value = std::move(y);
        }
        graph_.forbidden = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
        if (type_ == CUDNN_DATA_FLOAT && !c_.tf32)
            for (auto note : {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS})
                graph_.forbidden.push_back(note);
        if (c_.exact)
            for (auto note : {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT})
                graph_.forbidden.push_back(note);
        return std::move(graph_);
    }
};

}  // namespace

DnnGraph graph_of(RefactorConvolution const& convolution) { return ConvolutionGraph(convolution).run(); }

}  // namespace refactor::cuda_plugin
