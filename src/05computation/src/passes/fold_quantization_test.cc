#include "kernel/ops/integer.h"
#include "kernel/ops/quantize.h"
#include "passes/constants.h"
#include "passes/quantized.h"
#include "passes/test_graph.h"

#include <algorithm>

namespace refactor::computation::test {
namespace {

int count_of(std::vector<std::string> const& types, std::string const& type) {
    return static_cast<int>(std::count(types.begin(), types.end(), type));
}

/// Quantised networks under construction; numbers are random.
struct QuantizedGraph : TestGraph {
    std::mt19937 random;
    explicit QuantizedGraph(uint32_t seed) : TestGraph(seed), random(seed) {}

    EdgePtr bytes(Dims const& dims, DataType dtype) {
        std::vector<uint8_t> values(static_cast<size_t>(element_count(dims)));
        for (auto& value : values) value = static_cast<uint8_t>(random());
        auto blob = mem_manager::Blob::copy_of(values.data(), values.size());
        return model.graph.add_source({"w", dtype, Shape(dims.begin(), dims.end()), {}, blob, false});
    }
    EdgePtr dequantize(EdgePtr data, EdgePtr scale, EdgePtr zero, int64_t axis = 0) {
        return add(kernel::DequantizeInfo{{axis, 0}}, {data, scale, zero}, data->value.shape);
    }
    EdgePtr dequantized_weights(Dims const& dims) {
        std::vector<float> scales;
        for (int64_t i = 0; i < dims[0]; ++i) scales.push_back(0.001f + 0.0001f * static_cast<float>(random() % 9));
        return dequantize(bytes(dims, DataType::I8), constant({dims[0]}, scales), nullptr);
    }
    EdgePtr fake(EdgePtr x, float scale, int32_t zero) {
        auto *s = scalar(scale), *z = add_scalar(model.graph, "z", DataType::U8, zero);
        auto* q = add(kernel::QuantizeInfo{}, {x, s, z}, x->value.shape, {}, DataType::U8);
        return dequantize(q, s, z);
    }
    EdgePtr conv(EdgePtr x, Dims const& w, Shape y) {
        kernel::ConvInfo info{{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1, {}};
        return add(info, {x, dequantized_weights(w)}, std::move(y));
    }
    Compiled compiled(std::vector<std::string> passes = {}) {
        CompileOptions options;
        options.threads = 1, options.verify = true, options.passes = std::move(passes);
        return compile(copy(), options);
    }
};

TEST(FoldQuantization, ResidualBlockIsTwoNodes) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "integer nodes are made from AVX2 on";
    QuantizedGraph g(401);
    Shape shape{DimExpr(2), DimExpr(5), DimExpr(9), DimExpr(7)};
    auto* x = g.fake(g.input(shape), 0.03f, 120);
    auto* y = g.fake(g.elementwise(kernel::ExprOp::Relu, {g.conv(x, {5, 5, 3, 3}, shape)}, shape), 0.02f, 0);
    y = g.fake(g.conv(y, {5, 5, 3, 3}, shape), 0.02f, 130);
    g.output(g.fake(g.elementwise(kernel::ExprOp::Add, {y, x}, shape), 0.04f, 110));
    // One quantum of 0.04 among results that reach 3.3.
    auto types = compare_passes(g, {{2, 5, 9, 7}}, 0.0401 / 3.3);
    EXPECT_EQ(count_of(types, "IntegerConv"), 2);
    EXPECT_EQ(count_of(types, "Conv"), 0);
    // At the ends: to bytes with channels last, and back to floats.
    EXPECT_EQ(types.size(), 6u);
}

TEST(FoldQuantization, SaysWhatStays) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "integer nodes are made from AVX2 on";
    QuantizedGraph g(402);
    Shape shape{DimExpr(1), DimExpr(4), DimExpr(6), DimExpr(5)};
    g.output(g.conv(g.input(shape), {4, 4, 3, 3}, shape));
    auto compiled = g.compiled();
    EXPECT_EQ(count_of(types_of(*compiled.program), "IntegerConv"), 0);
    std::vector<std::string> notes;
    for (auto const& report : compiled.passes) notes.insert(notes.end(), report.notes.begin(), report.notes.end());
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("stays f32: \"x0\" is not dequantised"), std::string::npos) << notes[0];
}

TEST(FoldQuantization, MovesBytes) {
    QuantizedGraph g(403);
    Shape shape{DimExpr(3), DimExpr(8)}, turned{DimExpr(8), DimExpr(3)};
    auto* x = g.fake(g.input(shape), 0.05f, 99);
    auto* y = g.add(kernel::TransposeInfo{{1, 0}}, {x}, turned);
    g.output(g.fake(y, 0.05f, 99));
    auto types = compare_passes(g, {{3, 8}}, 1e-6);
    // Both quanta are one: to bytes, the transpose, back.
    EXPECT_EQ(types.size(), 3u);
}

TEST(FoldQuantization, IsSwitchedOff) {
    QuantizedGraph g(404);
    Shape shape{DimExpr(1), DimExpr(4), DimExpr(6), DimExpr(5)};
    g.output(g.conv(g.fake(g.input(shape), 0.05f, 3), {4, 4, 3, 3}, shape));
    EXPECT_EQ(count_of(types_of(*g.compiled({"-fold_quantization"}).program), "IntegerConv"), 0);
}

}  // namespace
}  // namespace refactor::computation::test
