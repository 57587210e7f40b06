#include "passes/store_weights.h"

#include "common/half.h"
#include "passes/small_weights.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::TestGraph;

std::string notes_of(Compiled const& compiled) {
    std::string text;
    for (auto const& report : compiled.passes)
        if (report.name == "store_weights")
            for (auto const& note : report.notes) text += note + "\n";
    return text;
}

/// Two products with weights [k, n] and [n, m], the second of them transposed; bias and activation in between.
struct TwoProducts {
    TestGraph g;
    std::vector<std::pair<Dims, std::vector<float>>> inputs;

    explicit TwoProducts(uint32_t seed, int64_t rows = 3) : g(seed) {
        auto* x = g.input({rows, 131});
        auto* a = g.add(kernel::MatMulInfo{}, {x, g.weights({131, 260})}, {rows, 260});
        auto* biased = g.elementwise(ExprOp::Add, {a, g.weights({260})}, {rows, 260});
        kernel::MatMulInfo transposed;
        transposed.trans_b = true;
        g.output(
            g.add(transposed, {g.elementwise(ExprOp::Tanh, {biased}, {rows, 260}), g.weights({97, 260})}, {rows, 97}));
        inputs = {{{rows, 131}, g.random_floats(static_cast<size_t>(rows * 131))}};
    }
    Compiled compile_as(DataType weights) const {
        CompileOptions options;
        options.threads = 1, options.verify = true, options.weights = weights;
        return compile(g.copy(), options);
    }
    /// Euclidean norm of the difference from f32 over that of the result.
    double error_of(Compiled const& compiled) const {
        auto actual = test::run(compiled.program, inputs)[0];
        auto expected = test::run(compile_as(DataType::F32).program, inputs)[0];
        double changed = 0, all = 0;
        for (size_t i = 0; i < expected.size(); ++i)
            changed += std::pow(static_cast<double>(actual[i]) - expected[i], 2), all += std::pow(expected[i], 2);
        return std::sqrt(changed / all);
    }
};

TEST(StoreWeights, ResultsDifferByTheRoundingOfWeights) {
    for (auto rows : {1, 3, 70}) {
        TwoProducts model(71, rows);
        // Of the weights alone: 2^-12 and 2^-9 on average at most, for i8 the largest of a channel, about four standard
        // deviations, over 127 · sqrt 12. Two layers, and some tail.
        for (auto [type, error] :
             {std::pair{DataType::F16, 0x1p-12}, {DataType::BF16, 0x1p-9}, {DataType::I8, 0.0091}}) {
            auto compiled = model.compile_as(type);
            EXPECT_LT(model.error_of(compiled), 3 * error) << name_of(type);
            EXPECT_GT(model.error_of(compiled), 0) << name_of(type);
            auto notes = notes_of(compiled);
            EXPECT_NE(notes.find("2 matrices stored as " + std::string(name_of(type))), std::string::npos) << notes;
        }
    }
}

TEST(StoreWeights, PacksNothingButSmallWeights) {
    TwoProducts model(72);
    auto large = model.compile_as(DataType::F32).program->packed_bytes();
    EXPECT_LE(model.compile_as(DataType::I8).program->packed_bytes() * 4, large);
    EXPECT_LE(model.compile_as(DataType::F16).program->packed_bytes() * 2, large);
}

TEST(StoreWeights, RefusesOtherTypes) {
    TwoProducts model(73);
    EXPECT_THROW(model.compile_as(DataType::F64), InvalidInput);
}

TEST(StoreWeights, SaysWhatStays) {
    TestGraph g(74);
    auto* x = g.input({2, 130});
    auto large = g.random_floats(130 * 140);
    large[77] = 1e6f;
    auto* tiny = g.add(kernel::MatMulInfo{}, {x, g.weights({130, 7})}, {2, 7});
    g.output(tiny);
    g.output(g.add(kernel::MatMulInfo{}, {x, g.constant({130, 140}, large)}, {2, 140}));
    CompileOptions options;
    options.weights = DataType::F16;
    auto notes = notes_of(compile(g.copy(), options));
    EXPECT_NE(notes.find("keeps weights of f32: 910 elements are too few to matter"), std::string::npos) << notes;
    EXPECT_NE(notes.find("keeps weights of f32: an element is not finite or too large"), std::string::npos) << notes;
}

/// A table in `type` that the model casts to f32, transposes, gathers from and multiplies with, as tied embeddings.
TEST(StoreWeights, ReadsCastAndTransposedWeightsAsTheyAre) {
    for (auto type : {DataType::F16, DataType::BF16}) {
        TestGraph g(75);
        int64_t n = 3000, k = 200;
        auto floats = g.random_floats(static_cast<size_t>(n * k));
        std::vector<uint16_t> halves(floats.size());
        convert(DataType::F32, floats.data(), type, halves.data(), n * k);
        auto blob = mem_manager::Blob::copy_of(halves.data(), halves.size() * 2);
        auto* table = g.model.graph.add_source({"table", type, {n, k}, {}, blob, false});
        kernel::ElementwiseInfo cast;
        cast.code.push_back({.op = ExprOp::Input, .dtype = type});
        cast.code.push_back({.op = ExprOp::Cast, .dtype = DataType::F32});
        cast.outputs = {1};
        auto* wide = g.add(cast, {table}, {n, k});
        auto* turned = g.add(kernel::TransposeInfo{{1, 0}}, {wide}, {k, n});
        auto* x = g.input({2, k});
        g.output(g.add(kernel::MatMulInfo{}, {x, turned}, {2, n}));
        CompileOptions stored, wide_ones;
        wide_ones.weights = DataType::F32;
        auto small = compile(g.copy(), stored).program, large = compile(g.copy(), wide_ones).program;
        std::vector<std::pair<Dims, std::vector<float>>> inputs{{{2, k}, g.random_floats(static_cast<size_t>(2 * k))}};
        auto a = test::run(small, inputs)[0], b = test::run(large, inputs)[0];
        // The same products, perhaps in another order.
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 200 * 1.2e-7 * 20);
        if (cpu_features().isa < Isa::Avx2) continue;
        EXPECT_EQ(small->packed_bytes() * 2, large->packed_bytes());
        EXPECT_EQ(small->parts().edges[small->parts().nodes[0].inputs[1]].constant, blob);
    }
}

TEST(SmallWeights, ScaleOfEachChannelTakesItsLargestTo127) {
    std::vector<float> matrix{1, -20, 0, -2, 5, 0};
    auto blob = mem_manager::Blob::copy_of(matrix.data(), matrix.size() * sizeof(float));
    auto check = [&](Channels channels, std::vector<float> scales, std::vector<int8_t> data) {
        auto small = make_small_weights(blob, DataType::I8, 2, 3, channels);
        ASSERT_TRUE(small.ok());
        auto const* s = static_cast<float const*>(small->scales->data());
        for (size_t i = 0; i < scales.size(); ++i) EXPECT_FLOAT_EQ(s[i], scales[i] / 127);
        auto const* q = static_cast<int8_t const*>(small->data->data());
        for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(q[i], data[i]) << i;
    };
    check(Channels::Columns, {2, 20, 0}, {64, -127, 0, -127, 32, 0});  // 63.5 rounds to even
    check(Channels::Rows, {20, 5}, {6, -127, 0, -51, 127, 0});
    check(Channels::One, {20, 20, 20}, {6, -127, 0, -13, 32, 0});
}

TEST(SmallWeights, BytesAreTransposedWhenTheyAreRead) {
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {70, 131}, {1, 64}}) {
        std::vector<uint8_t> matrix(static_cast<size_t>(rows * columns));
        for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint8_t>(7 * i);
        auto turned = transposed_bytes(mem_manager::Blob::copy_of(matrix.data(), matrix.size()), rows, columns);
        mem_manager::Blob::Reader reader(*turned);
        auto const* data = static_cast<uint8_t const*>(reader.data());
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
                ASSERT_EQ(data[j * rows + i], matrix[static_cast<size_t>(i * columns + j)]);
    }
}

}  // namespace

}  // namespace refactor::computation
