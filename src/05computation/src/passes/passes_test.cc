#include "common/cpu_features.h"
#include "kernel/ops/recurrent.h"
#include "pass.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::count;
using test::TestGraph;
using test::Types;

// Sums of up to 300 products in another order: 300 · eps · a few.
constexpr double kSums = 300 * 1.2e-7 * 4;

kernel::ConvInfo conv(int64_t pad) {
    kernel::ConvInfo info;
    info.window = {{1, 1}, {1, 1}, {pad, pad}, {pad, pad}};
    return info;
}

TEST(Passes, BatchNormResidualAndReluDisappearIntoConvolutions) {
    TestGraph g(1);
    auto n = DimExpr::symbol(g.model.symbols.intern("N"));
    Shape shape{n, 32, 9, 7};
    auto* x = g.input({n, 32, 9, 7});
    auto* a = g.add(conv(1), {x, g.weights({32, 32, 3, 3})}, shape);
    auto* scaled = g.elementwise(ExprOp::Mul, {a, g.weights({32, 1, 1})}, shape);
    auto* shifted = g.elementwise(ExprOp::Add, {scaled, g.weights({1, 32, 1, 1})}, shape);
    auto* b = g.add(conv(0), {g.elementwise(ExprOp::Relu, {shifted}, shape), g.weights({32, 32, 1, 1})}, shape);
    auto* sum = g.elementwise(ExprOp::Add, {b, x}, shape);
    g.output(g.elementwise(ExprOp::Relu, {sum}, shape));
    auto types = compare_passes(g, {{2, 32, 9, 7}}, kSums);
    EXPECT_EQ(count(types, "Conv"), 2);
    EXPECT_EQ(count(types, "Elementwise"), 0);
}

TEST(Passes, ElementwiseChainsBecomeOneNode) {
    TestGraph g(2);
    auto* x = g.input({3, 5, 7});
    auto* y = g.input({5, 7});
    Shape shape{3, 5, 7};
    auto* a = g.elementwise(ExprOp::Mul, {g.elementwise(ExprOp::Add, {x, y}, shape), g.scalar(-1.5f)}, shape);
    auto* b = g.elementwise(ExprOp::Sigmoid, {a}, shape);
    g.output(g.elementwise(ExprOp::Sub, {g.elementwise(ExprOp::Mul, {a, b}, shape), x}, shape));
    EXPECT_EQ(compare_passes(g, {{3, 5, 7}, {5, 7}}, 8 * 1.2e-7), Types{"Elementwise"});
}

TEST(Passes, GeluGoesIntoTheProduct) {
    TestGraph g(3);
    auto* x = g.input({5, 33});
    Shape shape{5, 47};
    auto* product = g.add(kernel::MatMulInfo{}, {x, g.weights({33, 47})}, shape);
    auto* biased = g.elementwise(ExprOp::Add, {product, g.weights({47})}, shape);
    auto* erf = g.elementwise(ExprOp::Erf, {g.elementwise(ExprOp::Div, {biased, g.scalar(1.41421354f)}, shape)}, shape);
    auto* gate = g.elementwise(ExprOp::Add, {erf, g.scalar(1)}, shape);
    auto* half = g.elementwise(ExprOp::Mul, {biased, g.scalar(0.5f)}, shape);
    g.output(g.elementwise(ExprOp::Mul, {half, gate}, shape));
    EXPECT_EQ(compare_passes(g, {{5, 33}}, kSums), Types{"MatMul"});
}

TEST(Passes, ReshapesSinkBelowProductsAndTheirEpilogues) {
    TestGraph g(30);
    auto n = DimExpr::symbol(g.model.symbols.intern("N"));
    Shape rows{n, 7, 3, 11}, merged{n * DimExpr(7), 33}, products{n * DimExpr(7), 47}, shape{n, 7, 47};
    auto* x = g.input(rows);
    auto* residual = g.input(shape);
    kernel::MatMulInfo info;
    info.epilogue.bias = true;
    auto* product = g.add(info, {g.reshape(x, merged), g.weights({33, 47}), g.weights({47})}, products);
    auto* biased = g.elementwise(ExprOp::Add, {product, g.weights({47})}, products);
    auto* scaled = g.elementwise(ExprOp::Mul, {g.weights({1, 47}), biased}, products);
    auto* sum = g.elementwise(ExprOp::Add, {g.reshape(scaled, shape), residual}, shape);
    g.output(g.elementwise(ExprOp::Relu, {sum}, shape));
    EXPECT_EQ(compare_passes(g, {{2, 7, 3, 11}, {2, 7, 47}}, kSums), (Types{"Reshape", "MatMul"}));
}

TEST(Passes, ResidualsOfMergedRowsAreFused) {
    TestGraph g(32);
    // One query: the transpose of heads only moves an axis of size 1, and the rows of the product are [1, 12].
    auto* x = g.input({1, 3, 1, 4});
    auto* residual = g.input({1, 1, 9});
    auto* product = g.add(kernel::MatMulInfo{}, {g.reshape(x, {1, 12}), g.weights({12, 9})}, {1, 9});
    auto* biased = g.elementwise(ExprOp::Add, {g.reshape(product, {1, 1, 9}), g.weights({9})}, {1, 1, 9});
    g.output(g.elementwise(ExprOp::Add, {residual, biased}, {1, 1, 9}));
    auto types = compare_passes(g, {{1, 3, 1, 4}, {1, 1, 9}}, kSums);
    EXPECT_EQ(types, (Types{"Reshape", "Reshape", "MatMul", "Reshape"}));
}

TEST(Passes, ReshapesThatMoveTheLastAxisStay) {
    TestGraph g(31);
    auto* x = g.input({2, 6, 10});
    auto* residual = g.input({8, 5});
    // [8, 15] ends with another axis; [3, 5] operands do not stretch over rows that are not merged.
    auto* product = g.add(kernel::MatMulInfo{}, {g.reshape(x, {8, 15}), g.weights({15, 5})}, {8, 5});
    g.output(g.elementwise(ExprOp::Add, {product, residual}, {8, 5}));
    EXPECT_EQ(compare_passes(g, {{2, 6, 10}, {8, 5}}, kSums), (Types{"Reshape", "MatMul"}));
}

TEST(Passes, InitialStatesOfZerosGo) {
    for (bool zero : {true, false}) {
        TestGraph g(33);
        auto n = DimExpr::symbol(g.model.symbols.intern("N"));
        auto* states = g.add(kernel::ExpandInfo{}, {g.scalar(zero ? 0.f : 0.5f)}, {2, n, 6});
        auto* h = g.add(kernel::SliceInfo{{1, 1, 1}}, {states}, {1, n, 6}, {1, 0, 0});
        kernel::RecurrentInfo info;
        info.hidden = 6, info.bias = info.initial_h = true;
        info.activations = {
            {kernel::CellFunction::Sigmoid}, {kernel::CellFunction::Tanh}, {kernel::CellFunction::Tanh}};
        g.output(g.add(info, {g.input({5, n, 4}), g.weights({1, 24, 4}), g.weights({1, 24, 6}), g.weights({1, 48}), h},
                       {5, 1, n, 6}));
        auto types = compare_passes(g, {{5, 3, 4}}, kSums);
        EXPECT_EQ(types, zero ? Types{"Recurrent"} : (Types{"Expand", "Slice", "Recurrent"}));
    }
}

TEST(Passes, ExpandsOfBroadcastOperandsGo) {
    TestGraph g(34);
    auto n = DimExpr::symbol(g.model.symbols.intern("N"));
    auto *x = g.input({n, 3, 4}), *row = g.input({3, 1}), *one = g.input({1, 4});
    auto* wide = g.add(kernel::ExpandInfo{}, {row}, {n, 3, 4});
    g.output(g.elementwise(ExprOp::Add, {x, wide}, {n, 3, 4}));
    auto* all = g.add(kernel::ExpandInfo{}, {one}, {6, 4});
    g.output(g.elementwise(ExprOp::Mul, {all, g.weights({6, 1})}, {6, 4}));
    // These make the shape.
    auto* more = g.add(kernel::ExpandInfo{}, {one}, {7, 4});
    g.output(g.elementwise(ExprOp::Abs, {more}, {7, 4}));
    auto* repeated = g.add(kernel::ExpandInfo{true}, {row}, {6, 1});
    g.output(g.elementwise(ExprOp::Add, {repeated, g.weights({6, 4})}, {6, 4}));
    EXPECT_EQ(count(compare_passes(g, {{2, 3, 4}, {3, 1}, {1, 4}}, 0), "Expand"), 2);
}

TEST(Passes, AttentionIsFoundWithScaleMaskAndTransposedKeys) {
    TestGraph g(4);
    auto t = DimExpr::symbol(g.model.symbols.intern("T"));
    auto *q = g.input({2, 3, 5, 8}), *k = g.input({2, t, 3, 8}), *v = g.input({2, 3, t, 8}),
         *mask = g.input({2, 1, 5, t});
    auto* keys = g.add(kernel::TransposeInfo{{0, 2, 3, 1}}, {k}, {2, 3, 8, t});
    auto* scaled = g.elementwise(ExprOp::Mul, {q, g.scalar(0.35f)}, {2, 3, 5, 8});
    Shape shape{2, 3, 5, t};
    auto* scores = g.add(kernel::MatMulInfo{}, {scaled, keys}, shape);
    auto* masked = g.elementwise(ExprOp::Add, {scores, mask}, shape);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* p = g.add(softmax, {masked}, shape);
    g.output(g.add(kernel::MatMulInfo{}, {p, v}, {2, 3, 5, 8}));
    auto types = compare_passes(g, {{2, 3, 5, 8}, {2, 11, 3, 8}, {2, 3, 11, 8}, {2, 1, 5, 11}}, kSums);
    EXPECT_EQ(types, (Types{"Attention"}));
}

TEST(Passes, NanGuardsBecomePartOfSoftmax) {
    TestGraph g(14);
    Shape shape{64, 2};
    // A row with a negative score is NaN.
    auto* scores = g.elementwise(ExprOp::Sqrt, {g.input(shape)}, shape);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 1;
    auto* p = g.add(softmax, {scores}, shape);
    auto test = make_expression(ExprOp::IsNan, DataType::Bool, {p});
    auto* is_nan = g.add(kernel::ElementwiseInfo{test.code, test.outputs}, {p}, shape, {}, DataType::Bool);
    auto* guarded = g.elementwise(ExprOp::Where, {is_nan, g.scalar(0), p}, shape);
    g.output(g.elementwise(ExprOp::Mul, {guarded, g.scalar(3)}, shape));
    EXPECT_EQ(compare_passes(g, {{64, 2}}, kSums), (Types{"Elementwise", "Softmax", "Elementwise"}));
    auto reports = compile(g.copy(), {}).passes;
    auto folded = [](auto const& report) { return report.name == "fold_nan_guards" && report.changes == 1; };
    EXPECT_TRUE(std::any_of(reports.begin(), reports.end(), folded));
}

TEST(Passes, ProductsOfOneHotRowsBecomeLookups) {
    TestGraph g(15);
    auto n = DimExpr::symbol(g.model.symbols.intern("N"));
    // Indices from about -12 to 12, of which 0 to 6 have a column.
    auto* x = g.elementwise(ExprOp::Mul, {g.input({n, 5, 1}), g.scalar(4)}, {n, 5, 1});
    auto cast = make_expression(ExprOp::Cast, DataType::I32, {x});
    auto* indices = g.add(kernel::ElementwiseInfo{cast.code, cast.outputs}, {x}, {n, 5, 1}, {}, DataType::I32);
    std::vector<int32_t> numbers{0, 1, 2, 3, 4, 5, 6};
    auto blob = mem_manager::Blob::copy_of(numbers.data(), numbers.size() * sizeof(int32_t));
    auto* range = g.model.graph.add_source({"range", DataType::I32, {1, 1, 7}, {}, blob, false});
    auto test = make_expression(ExprOp::Equal, DataType::Bool, {indices, range});
    Shape shape{n, 5, 7};
    auto* equal = g.add(kernel::ElementwiseInfo{test.code, test.outputs}, {indices, range}, shape, {}, DataType::Bool);
    auto widen = make_expression(ExprOp::Cast, DataType::F32, {equal});
    auto* rows = g.add(kernel::ElementwiseInfo{widen.code, widen.outputs}, {equal}, shape);
    auto* product = g.add(kernel::MatMulInfo{}, {rows, g.weights({7, 9})}, {n, 5, 9});
    auto* biased = g.elementwise(ExprOp::Add, {product, g.weights({9})}, {n, 5, 9});
    g.output(g.elementwise(ExprOp::Relu, {biased}, {n, 5, 9}));
    // Indices are computed once for a row, then bounded.
    EXPECT_EQ(compare_passes(g, {{11, 5, 1}}, kSums), (Types{"Elementwise", "Elementwise", "Reshape", "Gather"}));
}

TEST(Passes, LayerNormWrittenOutIsFound) {
    TestGraph g(5);
    auto* x = g.input({4, 6, 19});
    Shape shape{4, 6, 19}, row{4, 6, 1};
    kernel::ReduceInfo mean{kernel::ReduceKind::Mean, {2}};
    auto* centred = g.elementwise(ExprOp::Sub, {x, g.add(mean, {x}, row)}, shape);
    auto* squares = g.elementwise(ExprOp::Pow, {centred, g.scalar(2)}, shape);
    auto* variance = g.elementwise(ExprOp::Add, {g.add(mean, {squares}, row), g.scalar(1e-5f)}, row);
    auto* normal = g.elementwise(ExprOp::Div, {centred, g.elementwise(ExprOp::Sqrt, {variance}, row)}, shape);
    auto* scaled = g.elementwise(ExprOp::Mul, {normal, g.weights({19})}, shape);
    g.output(g.elementwise(ExprOp::Add, {scaled, g.weights({19})}, shape));
    EXPECT_EQ(compare_passes(g, {{4, 6, 19}}, kSums), Types{"LayerNorm"});
}

TEST(Passes, ReshapesTransposesAndConstantsFold) {
    TestGraph g(6);
    auto* x = g.input({3, 4, 5});
    auto* a = g.add(kernel::TransposeInfo{{2, 0, 1}}, {x}, {5, 3, 4});
    auto* b = g.add(kernel::TransposeInfo{{1, 2, 0}}, {a}, {3, 4, 5});
    auto* c = g.elementwise(ExprOp::Exp, {g.elementwise(ExprOp::Neg, {g.weights({4, 1})}, {4, 1})}, {4, 1});
    g.output(g.elementwise(ExprOp::Mul, {b, c}, {3, 4, 5}));
    EXPECT_EQ(compare_passes(g, {{3, 4, 5}}, 4 * 1.2e-7), Types{"Elementwise"});
}

TEST(Passes, PadsOfNothingGo) {
    for (int64_t begin : {0, 1}) {
        TestGraph g(31);
        // One begin for a crop at the end: of the same shape, but moved.
        auto* padded = g.add(kernel::PadInfo{}, {g.input({4, 6})}, {4, 6}, {DimExpr(0), DimExpr(begin)});
        g.output(g.elementwise(ExprOp::Abs, {padded}, {4, 6}));
        EXPECT_EQ(count(compare_passes(g, {{4, 6}}, 0), "Pad"), begin);
    }
}

TEST(Passes, EqualExpressionsAreComputedOnce) {
    TestGraph g(7);
    auto* x = g.input({8, 16});
    auto* w = g.weights({16, 16});
    auto *a = g.add(kernel::MatMulInfo{}, {x, w}, {8, 16}), *b = g.add(kernel::MatMulInfo{}, {x, w}, {8, 16});
    g.output(g.elementwise(
        ExprOp::Sub, {g.elementwise(ExprOp::Exp, {a}, {8, 16}), g.elementwise(ExprOp::Neg, {b}, {8, 16})}, {8, 16}));
    EXPECT_EQ(count(compare_passes(g, {{8, 16}}, kSums), "MatMul"), 1);
}

TEST(Passes, EqualReshapesAreFoundBesideOthers) {
    TestGraph g(31);
    auto* x = g.input({2, 6});
    for (int i = 0; i < 2; ++i)
        for (auto const& shape : {Shape{12}, Shape{3, 4}})
            g.output(g.elementwise(ExprOp::Abs, {g.reshape(x, shape)}, shape));
    EXPECT_EQ(eliminate_common_subexpressions(g.model, {CompileOptions{}, cpu_features().isa, 1}), 2);
}

TEST(Passes, KeptTensorsStay) {
    TestGraph g(9);
    auto* x = g.input({2, 3});
    auto* a = g.elementwise(ExprOp::Exp, {x}, {2, 3});
    g.output(g.elementwise(ExprOp::Neg, {a}, {2, 3}));
    CompileOptions options;
    options.threads = 1;
    EXPECT_EQ(compile(g.copy(), options).program->parts().nodes.size(), 1u);
    options.keep = {a->value.name};
    EXPECT_EQ(compile(g.copy(), options).program->parts().nodes.size(), 2u);
    options.keep = {"nothing"};
    EXPECT_THROW(compile(g.copy(), options), InvalidInput);
}

TEST(Passes, SelectionByName) {
    auto names = [](std::vector<std::string> selection) {
        Types result;
        for (auto const& pass : select_passes(selection)) result.emplace_back(pass.name);
        return result;
    };
    EXPECT_EQ(names({}).size(), pipeline().size());
    EXPECT_EQ(names({"-all", "fold_affine"}), Types{"fold_affine"});
    auto without = names({"-fuse_attention"});
    EXPECT_EQ(without.size() + 1, pipeline().size());
    EXPECT_EQ(count(without, "fuse_attention"), 0);
    EXPECT_THROW(names({"-no_such_pass"}), InvalidInput);
}

TEST(Compile, OutputsThatShareMemoryAreCopied) {
    TestGraph g(10);
    auto* x = g.input({2, 6});
    auto* a = g.elementwise(ExprOp::Exp, {x}, {2, 6});
    for (auto* edge : {x, a, g.reshape(a, {3, 4}), a, g.weights({4})}) g.output(edge);
    compare_passes(g, {{2, 6}}, 2 * 1.2e-7);
}

TEST(Compile, NamesEveryNodeWithoutKernel) {
    TestGraph g(11);
    auto* x = g.input({2, 3}, DataType::String);
    g.output(g.add(kernel::TransposeInfo{{1, 0}}, {x}, {3, 2}, {}, DataType::String));
    try {
        compile(g.copy(), {});
        FAIL() << "nothing was thrown";
    } catch (Unsupported const& error) {
        EXPECT_NE(std::string(error.what()).find("Transpose node \"t1_node\" (string[2, 3]) on cpu"), std::string::npos)
            << error.what();
    }
}

}  // namespace

}  // namespace refactor::computation
