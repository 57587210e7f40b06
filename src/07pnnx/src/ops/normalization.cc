#include "common/half.h"
#include "kernel/ops/vision.h"
#include "mem_manager/blob.h"
#include "operator_def.h"

#include <cmath>

namespace refactor::pnnx {

namespace {

Shape per_channel(Edge x) {
    Shape shape(Call::rank(x) - 1, DimExpr(1));
    shape[0] = Call::shape(x)[1];
    return shape;
}

/// Elements of a weight as doubles; nothing if it is not constant.
std::optional<std::vector<double>> constants(Call& c, std::string_view name) {
    auto* tensor = c.constant(name);
    auto count = tensor ? element_count(*tensor->shape).constant() : std::nullopt;
    if (!count) return std::nullopt;
    std::vector<double> values(static_cast<size_t>(*count));
    if (!convert(tensor->dtype, tensor->constant->data(), DataType::F64, values.data(), *count)) return std::nullopt;
    return values;
}

/// Scale and shift computed ahead, in double; false unless all parameters are constant and x is f32.
bool build_folded(Call& c, Edge x, double eps) {
    auto mean = constants(c, "running_mean"), variance = constants(c, "running_var");
    auto weight = constants(c, "weight"), bias = constants(c, "bias");
    if (!mean || !variance || Call::type_of(x) != DataType::F32) return false;
    if ((c.has("weight") && !weight) || (c.is_tensor("bias") && !bias)) return false;
    if (!weight) weight = std::vector<double>(mean->size(), 1);
    if (!bias) bias = std::vector<double>(mean->size(), 0);
    auto channels = static_cast<int64_t>(mean->size());
    for (auto size : {variance->size(), weight->size(), bias->size()})
        if (size != mean->size()) refuse_invalid("the parameters have ", mean->size(), " and ", size, " elements");
    c.expect_equal(channels, Call::shape(x)[1], "the number of statistics");
    std::vector<float> scales, shifts;
    for (size_t i = 0; i < mean->size(); ++i) {
        auto scale = (*weight)[i] / std::sqrt((*variance)[i] + eps);
        scales.push_back(static_cast<float>(scale));
        shifts.push_back(static_cast<float>((*bias)[i] - (*mean)[i] * scale));
    }
    Dims dims(Call::rank(x) - 1, 1);
    dims[0] = channels;
    c.set(c.map({x, c.floats(scales, dims), c.floats(shifts, dims)}, [](Expression& e, auto const& v) {
        return e.binary(ExprOp::Add, e.binary(ExprOp::Mul, v[0], v[1]), v[2]);
    }));
    return true;
}

void build_batch_norm(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 64, "the input");
    if (c.flag("training", false)) refuse_unsupported("training");
    if (!c.has("running_mean") || !c.has("running_var")) refuse_unsupported("statistics of the batch");
    auto eps = c.number("eps", 1e-5);
    if (build_folded(c, x, eps)) return;
    auto dtype = Call::type_of(x);
    auto shape = per_channel(x);
    auto parameter = [&](std::string_view name) { return c.cast(c.reshape(c.tensor(name), shape), dtype); };
    std::vector<Edge> inputs{x, parameter("running_mean"), parameter("running_var")};
    auto weight = inputs.size();
    if (c.has("weight")) inputs.push_back(parameter("weight"));
    auto bias = inputs.size();
    if (c.is_tensor("bias")) inputs.push_back(parameter("bias"));
    c.set(c.map(inputs, [&](Expression& e, auto const& v) {
        auto deviation = e.unary(ExprOp::Sqrt, e.binary(ExprOp::Add, v[2], e.constant(dtype, eps)));
        auto y = e.binary(ExprOp::Div, e.binary(ExprOp::Sub, v[0], v[1]), deviation);
        if (weight < bias) y = e.binary(ExprOp::Mul, y, v[weight]);
        return bias < inputs.size() ? e.binary(ExprOp::Add, y, v[bias]) : y;
    }));
}

/// Scale and bias of a normalisation: ones and zeros where there are none.
Edge parameter(Call& c, std::string_view name, double fallback, Shape const& shape, DataType dtype) {
    if (!c.is_tensor(name)) return c.filled(dtype, fallback, shape);
    auto* edge = c.tensor(name);
    c.expect_rank(edge, shape.size(), shape.size(), name);
    for (size_t i = 0; i < shape.size(); ++i) c.expect_equal(Call::shape(edge)[i], shape[i], name);
    return c.cast(edge, dtype);
}

template <bool kRms>
void build_layer_norm(Call& c) {
    auto* x = c.tensor("input");
    auto sizes = c.sizes("normalized_shape");
    if (sizes.empty() || sizes.size() > Call::rank(x))
        refuse_invalid("normalized_shape has ", sizes.size(), " entries for an input with ", Call::rank(x), " axes");
    kernel::LayerNormInfo info;
    info.rms = kRms, info.axis = static_cast<int64_t>(Call::rank(x) - sizes.size());
    // Without eps torch's RMSNorm takes the smallest step from 1.
    info.epsilon = static_cast<float>(c.number("eps", kRms ? 1.1920928955078125e-07 : 1e-5));
    Shape normalized(Call::shape(x).begin() + info.axis, Call::shape(x).end());
    for (size_t i = 0; i < sizes.size(); ++i) c.expect_equal(sizes[i], normalized[i], "an entry of normalized_shape");
    std::vector<Edge> inputs{x, parameter(c, "weight", 1, normalized, Call::type_of(x))};
    if (!kRms && c.is_tensor("bias")) {
        info.has_bias = true;
        inputs.push_back(parameter(c, "bias", 0, normalized, Call::type_of(x)));
    }
    c.set(c.emit(info, inputs, Call::type_of(x), Call::shape(x)));
}

/// Over groups of channels and all positions; instance normalisation has a group for each channel.
void normalize_groups(Call& c, Edge x, int64_t groups) {
    auto channels = Call::shape(x)[1];
    bool flat = Call::rank(x) == 2;
    auto* spatial = flat ? c.unsqueeze(x, 2) : x;
    kernel::GroupNormInfo info;
    info.groups = groups, info.epsilon = static_cast<float>(c.number("eps", 1e-5));
    std::vector<Edge> inputs{spatial, parameter(c, "weight", 1, {channels}, Call::type_of(x)),
                             parameter(c, "bias", 0, {channels}, Call::type_of(x))};
    auto* y = c.emit(info, inputs, Call::type_of(x), Call::shape(spatial));
    c.set(c.reshape(y, Call::shape(x)));
}

void build_group_norm(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 2, 64, "the input");
    auto groups = c.integer("num_groups");
    if (groups < 1) refuse_invalid("num_groups is ", groups, ", expected at least 1");
    if (auto channels = Call::shape(x)[1].constant(); channels && *channels % groups)
        refuse_invalid(*channels, " channels are not divisible by ", groups, " groups");
    normalize_groups(c, x, groups);
}

void build_instance_norm(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 64, "the input");
    if (c.has("running_mean") && !c.flag("use_input_stats", false)) return build_batch_norm(c);
    normalize_groups(c, x, 0);
}

/// torch has the odd neighbour before the channel, the kernel behind it: the channels are reversed for the time.
void build_local_response_norm(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 64, "the input");
    kernel::LrnInfo info;
    info.size = c.integer("size");
    if (info.size < 1 || info.size > (1 << 20)) refuse_invalid("size is ", info.size, ", expected 1 to 2^20");
    info.alpha = static_cast<float>(c.number("alpha", 1e-4)), info.beta = static_cast<float>(c.number("beta", 0.75));
    info.bias = static_cast<float>(c.number("k", 1));
    auto reversed = [&](Edge edge) { return info.size % 2 ? edge : c.slice(edge, 1, -1, INT64_MIN + 1, -1); };
    c.set(reversed(c.emit(info, {reversed(x)}, Call::type_of(x), Call::shape(x))));
}

}  // namespace

void define_normalization(Definitions& all) {
    all.push_back({"nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d F.batch_norm",
                   "input running_mean running_var weight bias training momentum eps | num_features affine "
                   "track_running_stats",
                   build_batch_norm});
    all.push_back({"nn.LayerNorm F.layer_norm", "input normalized_shape weight bias eps | elementwise_affine",
                   build_layer_norm<false>});
    all.push_back(
        {"nn.RMSNorm F.rms_norm", "input normalized_shape weight eps | elementwise_affine", build_layer_norm<true>});
    all.push_back(
        {"nn.GroupNorm F.group_norm", "input num_groups weight bias eps | num_channels affine", build_group_norm});
    all.push_back({"nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d F.instance_norm",
                   "input running_mean running_var weight bias use_input_stats momentum eps | num_features affine "
                   "track_running_stats",
                   build_instance_norm});
    all.push_back({"nn.LocalResponseNorm F.local_response_norm", "input size alpha beta k", build_local_response_norm});
}

}  // namespace refactor::pnnx
