#include "passes/narrow_rows.h"

#include "common/cpu_features.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::rounding;
using test::TestGraph;

/// x → normalisation → products q, k and v → attention → reshape → product, to which x is added.
struct Layer {
    TestGraph g{6};
    EdgePtr x, normal, q, k, v, attended, rows, y;

    EdgePtr multiply(EdgePtr a, EdgePtr residual = nullptr, int64_t columns = 64, bool may_round = true) {
        kernel::MatMulInfo info;
        info.may_round = may_round, info.epilogue.residual = residual;
        auto shape = a->value.shape;
        auto depth = shape.back().constant();
        shape[shape.size() - 1] = columns;
        std::vector<EdgePtr> inputs{a, g.weights({depth.value(), columns})};
        if (residual) inputs.push_back(residual);
        return g.add(info, inputs, shape);
    }
    /// `values` makes v of the normalised rows.
    template <class F>
    explicit Layer(F&& values) {
        Shape const shape{1, 2, 32, 64};
        x = g.input(shape);
        kernel::LayerNormInfo norm;
        norm.axis = 3;
        normal = g.add(norm, {x, g.weights({64})}, shape);
        q = multiply(normal), k = multiply(normal), v = values(*this);
        kernel::AttentionInfo attention;
        attention.may_round = true;
        attended = g.add(attention, {q, k, v}, shape);
        rows = g.reshape(attended, {64, 64});
        y = multiply(rows, g.reshape(x, {64, 64}));
        g.output(y);
    }
    int run(CompileOptions const& options = rounding(), Isa isa = Isa::Avx512Amx, TensorsBehind const* keep = nullptr,
            std::vector<std::string>* notes = nullptr) {
        return narrow_rows(g.model, {options, isa, 1, keep, notes});
    }
};
bool is_narrow(EdgePtr edge) {
    EXPECT_EQ(edge->value.layout, kernel::Layout::Plain);
    return edge->value.dtype == DataType::BF16;
}
EdgePtr product(Layer& layer) { return layer.multiply(layer.normal); }

TEST(NarrowRows, TensorsOfWhichProductsReadRoundedNumbers) {
    Layer layer(product);
    std::vector<std::string> notes;
    EXPECT_EQ(layer.run(rounding(), Isa::Avx512Amx, nullptr, &notes), 6);
    for (auto* edge : {layer.normal, layer.q, layer.k, layer.v, layer.attended, layer.rows})
        EXPECT_TRUE(is_narrow(edge)) << edge->value.name;
    EXPECT_FALSE(is_narrow(layer.y));
    EXPECT_EQ(notes, std::vector<std::string>{"6 tensors between products are bf16"});
}

TEST(NarrowRows, ProgramsRoundWhatTheyStore) {
    TestGraph g{7};
    auto* x = g.input({40, 64});
    auto* gated = g.elementwise(ExprOp::Mul, {x, g.elementwise(ExprOp::Sigmoid, {x}, {40, 64})}, {40, 64});
    kernel::MatMulInfo info;
    info.may_round = true;
    g.output(g.add(info, {gated, g.weights({64, 32})}, {40, 32}));
    auto const options = rounding();
    EXPECT_EQ(narrow_rows(g.model, {options, Isa::Avx512Amx, 1}), 1);
    EXPECT_TRUE(is_narrow(gated));
    auto const* program = info_of<kernel::ElementwiseInfo>(*gated->producer()->value.op);
    auto const& last = program->code[program->outputs[0]];
    EXPECT_TRUE(last.op == ExprOp::Cast && last.dtype == DataType::BF16);
}

TEST(NarrowRows, LeavesWhatSomethingReadsInF32) {
    Layer read(product);
    read.g.output(read.g.elementwise(ExprOp::Sigmoid, {read.normal}, read.normal->value.shape));
    EXPECT_EQ(read.run(), 5);
    EXPECT_FALSE(is_narrow(read.normal));
    Layer shown(product);
    shown.g.output(shown.g.reshape(shown.attended, {128, 32}));
    EXPECT_EQ(shown.run(), 4);
    EXPECT_FALSE(is_narrow(shown.attended) || is_narrow(shown.rows));
    // A is added to its own product.
    Layer added([](Layer& layer) { return layer.multiply(layer.normal, layer.normal); });
    EXPECT_EQ(added.run(), 2) << "attention rounds all of its operands, or none";
    EXPECT_FALSE(is_narrow(added.normal) || is_narrow(added.q) || is_narrow(added.v));
    Layer given([](Layer& layer) { return layer.x; });
    EXPECT_EQ(given.run(), 3);
    EXPECT_FALSE(is_narrow(given.q) || is_narrow(given.k));
}

TEST(NarrowRows, LeavesWhatHasNoKernel) {
    // A product of few columns has no kernel for A in bf16.
    Layer few(product);
    few.g.output(few.multiply(few.rows, nullptr, 4));
    EXPECT_EQ(few.run(), 4);
    EXPECT_FALSE(is_narrow(few.attended) || is_narrow(few.rows));
    Layer exact(product);
    exact.g.output(exact.multiply(exact.normal, nullptr, 64, false));
    EXPECT_EQ(exact.run(), 5);
    EXPECT_FALSE(is_narrow(exact.normal));
}

TEST(NarrowRows, LeavesWhatStaysF32) {
    Layer kept(product);
    TensorsBehind const keep{{"a node", {kept.k->value.name}}};
    EXPECT_EQ(kept.run(rounding(), Isa::Avx512Amx, &keep), 2);
    EXPECT_TRUE(is_narrow(kept.attended) && is_narrow(kept.rows));
    Layer traced(product);
    traced.rows->value.keep = true;
    EXPECT_EQ(traced.run(), 4);
    EXPECT_FALSE(is_narrow(traced.rows) || is_narrow(traced.attended));
}

TEST(NarrowRows, IsForProcessorsThatRoundFast) {
    Layer layer(product);
    EXPECT_EQ(layer.run(rounding("nvidia")), 0);
    EXPECT_EQ(layer.run(CompileOptions{}), 0);
    EXPECT_EQ(layer.run(rounding(), Isa::Avx512), 0);
    EXPECT_EQ(layer.run(rounding(), Isa::Avx512Bf16), cpu_features().fast_bf16 ? 6 : 0);
}

}  // namespace

}  // namespace refactor::computation
