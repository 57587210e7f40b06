#include "common/half.h"
#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/fourier.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "operator_def.h"

#include <cmath>
#include <numbers>

// DFT (axis: an attribute before opset 20, an input since), STFT, window functions, MelWeightMatrix.

namespace refactor::onnx {

namespace {

using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

/// The only element of input `i`.
Inferred<DimExpr> scalar(InferContext const& c, size_t i, std::string_view role) {
    RG_TRY(values, c.values(i, role));
    if (values.size() != 1) return Err{invalid(role, " has ", values.size(), " elements, expected 1")};
    return values[0];
}
Inferred<int64_t> number(InferContext const& c, size_t i, std::string_view role) {
    RG_TRY(values, c.integers(i, role));
    if (values.size() != 1) return Err{invalid(role, " has ", values.size(), " elements, expected 1")};
    return values[0];
}

Inferred<int64_t> parts_of(InferContext const& c) {
    auto parts = c.shape(0).back().constant();
    if (!parts) return Err{unsupported("the last size of the signal, ", c.text(c.shape(0)), ", must be known")};
    if (*parts != 1 && *parts != 2)
        return Err{invalid("the last size of the signal is ", *parts, ", expected 1 (real) or 2 (complex)")};
    return *parts;
}

struct Transform {
    kernel::FourierInfo info;
    DimExpr length;
    Shape result;
};

Inferred<Transform> transform_of(InferContext const& c, NodeView const& n) {
    auto const& x = c.shape(0);
    Transform t;
    int64_t axis = n.opset < 20 ? n.integer("axis", 1) : -2;
    if (n.opset >= 20 && c.has(2)) {
        RG_TRY(given, number(c, 2, "axis"));
        axis = given;
    }
    RG_TRY(normal, frontend::normalize_axis(axis, x.size()));
    if (normal + 1 == x.size()) return Err{invalid("the axis ", axis, " is that of the real and imaginary parts")};
    t.info.axis = static_cast<int64_t>(normal);
    t.info.inverse = n.integer("inverse", 0) != 0, t.info.onesided = n.integer("onesided", 0) != 0;
    RG_TRY(parts, parts_of(c));
    bool half = t.info.inverse && t.info.onesided;
    if (t.info.onesided && parts != (half ? 2 : 1))
        return Err{invalid("onesided with ", parts == 1 ? "real" : "complex", " input, expected ",
                           half ? "complex (inverse)" : "real")};
    t.length = half ? (x[normal] - 1) * 2 : x[normal];
    if (c.has(1)) {
        RG_TRY(given, scalar(c, 1, "dft_length"));
        t.length = given;
    }
    if (auto known = t.length.constant(); known && *known < 1)
        return Err{invalid("the length of the transform is ", *known, ", expected at least 1")};
    t.result = x;
    t.result[normal] = t.info.onesided && !half ? floor_div(t.length, 2) + 1 : t.length;
    t.result.back() = half ? 1 : 2;
    return t;
}

Status infer_dft(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 64));
    RG_TRY_STATUS(t, transform_of(c, n));
    return c.set(0, c.dtype(0), t.result);
}

Status lower_dft(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(t, transform_of(c.view(), n));
    c.emit_output(computation::make_operator(t.info, {t.length}), {c.edge(0)});
    return std::nullopt;
}

struct Frames {
    kernel::StftInfo info;
    DimExpr step, length, count, bins;
};

Inferred<Frames> frames_of(InferContext& c, NodeView const& n) {
    if (c.shape(0).size() == 3)
        if (auto parts = parts_of(c); !parts) return Err{parts.error()};
    Frames f;
    f.info.onesided = n.integer("onesided", 1) != 0, f.info.window = c.has(2);
    // As onnxruntime and onnx.reference: of a complex signal the first half is kept.
    RG_TRY(step, scalar(c, 1, "frame_step"));
    f.step = step, f.length = c.shape(0)[1];
    if (c.has(2)) {
        if (c.shape(2).size() != 1) return Err{invalid("the window has ", c.shape(2).size(), " axes, expected 1")};
        f.length = c.shape(2)[0];
    }
    if (c.has(3)) {
        RG_TRY(given, scalar(c, 3, "frame_length"));
        if (c.has(2))
            if (auto failure = c.expect_equal(c.shape(2)[0], given, "the length of the window")) return Err{*failure};
        f.length = given;
    }
    for (auto const& [value, role] : {std::pair(f.step, "frame_step"), std::pair(f.length, "frame_length")})
        if (auto known = value.constant(); known && *known < 1)
            return Err{invalid(role, " is ", *known, ", expected at least 1")};
    auto rest = c.shape(0)[1] - f.length;
    if (auto known = rest.constant(); known && *known < 0)
        return Err{invalid("frames of ", c.text(f.length), " are longer than the signal of ", c.text(c.shape(0)[1]))};
    f.count = floor_div(rest, f.step) + 1;
    f.bins = f.info.onesided ? floor_div(f.length, 2) + 1 : f.length;
    return f;
}

/// The signal is [batch, length, 1 or 2], or [batch, length], as exporters of PyTorch write real ones and onnxruntime
/// takes them.
Status infer_stft(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 3));
    RG_TRY_STATUS(f, frames_of(c, n));
    return c.set(0, c.dtype(0), {c.shape(0)[0], f.count, f.bins, DimExpr(2)});
}

Status lower_stft(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(f, frames_of(view, n));
    auto* signal = c.edge(0);
    if (auto shape = c.shape(0); shape.size() == 2) shape.push_back(1), signal = c.reshape(signal, shape);
    std::vector<LowerContext::Edge> edges{signal};
    if (c.has(2)) edges.push_back(c.edge(2));
    c.emit_output(computation::make_operator(f.info, {f.step, f.length}), edges);
    return std::nullopt;
}

Inferred<DataType> output_type(NodeView const& n) {
    auto given = n.integer("output_datatype", 1);
    auto dtype = data_type_from_onnx(given);
    if (!dtype || !(kNumbers >> static_cast<int>(*dtype) & 1))
        return Err{invalid("output_datatype is ", given, ", expected that of a number")};
    return *dtype;
}

Status infer_window(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(dtype, output_type(n));
    RG_TRY_STATUS(size, scalar(c, 0, "size"));
    return c.set(0, dtype, {size});
}

/// a - b cos(2 pi i / N) + c cos(4 pi i / N), in f64; N is the size, one less if symmetric.
Status lower_window(LowerContext& c, NodeView const& n) {
    struct Coefficients {
        double a, b, c;
    };
    auto k = n.op_type == "HannWindow"      ? Coefficients{0.5, 0.5, 0}
             : n.op_type == "HammingWindow" ? Coefficients{25. / 46, 21. / 46, 0}
                                            : Coefficients{0.42, 0.5, 0.08};
    auto const& size = (*c.output().shape)[0];
    auto period = n.integer("periodic", 1) != 0 ? size : max(size - 1, 1);
    auto dtype = c.output().dtype;
    auto* index =
        c.emit(computation::make_operator(kernel::RangeInfo{}, {DimExpr(0), DimExpr(1)}), {}, DataType::I64, {size});
    auto* length =
        c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {period}), {}, DataType::I64, {DimExpr(1)});
    Expression e;
    auto constant = [&](double value) { return e.constant(DataType::F64, value); };
    auto i = e.cast(e.input(0, DataType::I64), DataType::F64), all = e.cast(e.input(1, DataType::I64), DataType::F64);
    auto angle = e.binary(ExprOp::Div, e.binary(ExprOp::Mul, i, constant(2 * std::numbers::pi)), all);
    auto value =
        e.binary(ExprOp::Sub, constant(k.a), e.binary(ExprOp::Mul, e.unary(ExprOp::Cos, angle), constant(k.b)));
    if (k.c != 0) {
        auto twice = e.unary(ExprOp::Cos, e.binary(ExprOp::Add, angle, angle));
        value = e.binary(ExprOp::Add, value, e.binary(ExprOp::Mul, twice, constant(k.c)));
    }
    c.emit_output(computation::make_operator(e.finish(e.cast(value, dtype))), {index, length});
    return std::nullopt;
}

struct MelBands {
    int64_t bands, length, rate;
    double low, high;
};

Inferred<MelBands> bands_of(InferContext const& c) {
    MelBands m{};
    int64_t* integers[]{&m.bands, &m.length, &m.rate};
    static constexpr std::string_view kRoles[]{"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                               "upper_edge_hertz"};
    for (size_t i = 0; i < 3; ++i) {
        RG_TRY(value, number(c, i, kRoles[i]));
        if (value < 1) return Err{invalid(kRoles[i], " is ", value, ", expected at least 1")};
        *integers[i] = value;
    }
    for (size_t i = 3; i < 5; ++i) {
        RG_TRY(values, c.floats(i, kRoles[i]));
        if (values.size() != 1) return Err{invalid(kRoles[i], " has ", values.size(), " elements, expected 1")};
        (i == 3 ? m.low : m.high) = values[0];
    }
    if (!(m.low >= 0 && m.low < m.high && m.high < 1e12))
        return Err{invalid("the band from ", m.low, " to ", m.high, " Hz is empty")};
    if (m.high > static_cast<double>(m.rate) / 2 * (1 + 2. / static_cast<double>(m.length)))
        return Err{invalid("upper_edge_hertz is ", m.high, ", beyond half the sample rate of ", m.rate)};
    return m;
}

/// Triangles between neighbouring positions of the scale 2595 log10(1 + f / 700).
std::vector<double> mel_weights(MelBands const& m, int64_t bins) {
    auto mel = [](double f) { return 2595 * std::log1p(f / 700) / std::numbers::ln10; };
    auto step = (mel(m.high) - mel(m.low)) / static_cast<double>(m.bands + 2);
    std::vector<int64_t> edges;
    for (int64_t i = 0; i < m.bands + 2; ++i) {
        auto hertz = 700 * std::expm1((static_cast<double>(i) * step + mel(m.low)) / 2595 * std::numbers::ln10);
        edges.push_back(
            static_cast<int64_t>(std::floor(static_cast<double>(m.length + 1) * hertz / static_cast<double>(m.rate))));
    }
    std::vector<double> weights(static_cast<size_t>(bins * m.bands));
    for (int64_t i = 0; i < m.bands; ++i) {
        auto at = static_cast<size_t>(i);
        auto left = edges[at], center = edges[at + 1], right = edges[at + 2];
        auto weight = [&](int64_t j) -> double& { return weights[static_cast<size_t>(j * m.bands + i)]; };
        for (auto j = left; j <= center && j < bins; ++j)
            weight(j) = center == left ? 1 : static_cast<double>(j - left) / static_cast<double>(center - left);
        for (auto j = center; j < right && j < bins; ++j)
            weight(j) = static_cast<double>(right - j) / static_cast<double>(right - center);
    }
    return weights;
}

Status infer_mel(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(dtype, output_type(n));
    RG_TRY_STATUS(m, bands_of(c));
    auto bins = m.length / 2 + 1;
    RG_CHECK_STATUS(c.set(0, dtype, {DimExpr(bins), DimExpr(m.bands)}));
    constexpr int64_t kMostElements = int64_t{1} << 28;
    if (bins > kMostElements / m.bands) return unsupported("a matrix of ", bins, " x ", m.bands, " weights");
    auto weights = mel_weights(m, bins);
    auto count = static_cast<int64_t>(weights.size());
    std::vector<std::byte> data(storage_bytes(dtype, count));
    if (!convert(DataType::F64, weights.data(), dtype, data.data(), count))
        return unsupported("weights of the type ", name_of(dtype));
    c.set_constant(0, mem_manager::Blob::copy_of(data.data(), data.size()));
    return std::nullopt;
}

/// The weights are a constant: its edge is known.
Status lower_mel(LowerContext&, NodeView const&) { return unsupported("weights that are not known"); }

}  // namespace

void define_signal(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kLengths = types(DataType::I32, DataType::I64);
    OperatorDef dft{.name = "DFT",
                    .since = 17,
                    .inputs = {1, 2},
                    .types = {{kFloats}, {kLengths}},
                    .attributes = {{"inverse", K::Int}, {"onesided", K::Int}, {"axis", K::Int}},
                    .infer = infer_dft,
                    .lower = lower_dft};
    all.push_back(dft);
    dft.since = 20, dft.inputs = {1, 3}, dft.types.push_back({kI64}), dft.attributes.pop_back();
    all.push_back(std::move(dft));
    all.push_back({.name = "STFT",
                   .since = 17,
                   .inputs = {2, 4},
                   .types = {{kFloats, 'T'}, {kLengths, 'L'}, {kFloats, 'T'}, {kLengths, 'L'}},
                   .attributes = {{"onesided", K::Int}},
                   .infer = infer_stft,
                   .lower = lower_stft});
    for (auto name : {"BlackmanWindow", "HammingWindow", "HannWindow"})
        all.push_back({.name = name,
                       .since = 17,
                       .types = {{kLengths}},
                       .attributes = {{"output_datatype", K::Int}, {"periodic", K::Int}},
                       .infer = infer_window,
                       .lower = lower_window});
    all.push_back({.name = "MelWeightMatrix",
                   .since = 17,
                   .inputs = {5, 5},
                   .types = {{kLengths, 'I'}, {kLengths, 'I'}, {kLengths, 'I'}, {kFloats, 'F'}, {kFloats, 'F'}},
                   .attributes = {{"output_datatype", K::Int}},
                   .infer = infer_mel,
                   .lower = lower_mel});
}

}  // namespace refactor::onnx
