#include "onnx/model_builder.h"

#include "common/error.h"
#include "computation/if.h"
#include "frontend/compile.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "mem_manager/blob.h"

#include <tuple>

#include <gtest/gtest.h>

namespace refactor::onnx {
namespace {

constexpr int64_t kF32 = 1, kI64 = 7, kBool = 9;

RawTensor tensor_f32(std::vector<int64_t> dims, std::vector<float> const& values) {
    return {kF32, std::move(dims), mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(float))};
}
RawTensor tensor_i64(std::vector<int64_t> dims, std::vector<int64_t> const& values) {
    return {kI64, std::move(dims), mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(int64_t))};
}
RawTensor zeros(std::vector<int64_t> dims) {
    int64_t count = 1;
    for (auto size : dims) count *= size;
    return tensor_f32(std::move(dims), std::vector<float>(static_cast<size_t>(count)));
}

struct Builder : ModelBuilder {
    explicit Builder(int64_t opset = 17) {
        set_ir_version(8);
        add_opset("", opset);
    }
    void input(std::string name, std::vector<DeclaredDim> dims, int64_t dtype = kF32) {
        graph().add_input(std::move(name), dtype, std::move(dims));
    }
    void node(std::string type, std::vector<std::string> in, std::vector<std::string> out,
              RawAttributes attributes = {}) {
        graph().add_node("", "", std::move(type), std::move(in), std::move(out), std::move(attributes));
    }
    void output(std::string name, int64_t dtype = 0) { graph().add_output(std::move(name), dtype, {}); }
};

/// What `InvalidModel` or `Unsupported` says; fails if nothing is thrown.
template <class E>
std::string refusal(Builder builder) {
    try {
        (void)std::move(builder).build();
    } catch (E const& error) {
        return error.what();
    } catch (Error const& error) {
        ADD_FAILURE() << "another error: " << error.what();
        return {};
    }
    ADD_FAILURE() << "nothing is refused";
    return {};
}

std::string shape_text(frontend::Model const& model) {
    auto outputs = model.outputs();
    return frontend::to_string(outputs.at(0), model.symbols());
}

/// y = op(x) for x: f32[2, 6] and one i64 list as a constant input.
Builder with_list(std::string type, std::vector<int64_t> list, RawAttributes attributes = {}, int64_t opset = 17) {
    Builder b(opset);
    b.input("x", {int64_t{2}, int64_t{6}});
    auto size = static_cast<int64_t>(list.size());
    b.graph().add_initializer("list", tensor_i64({size}, list));
    b.node(std::move(type), {"x", "list"}, {"y"}, std::move(attributes));
    b.output("y");
    return b;
}

TEST(ModelBuilder, InfersAndLowersAConvolution) {
    Builder b;
    b.input("x", {std::string("N"), int64_t{3}, std::string("H"), int64_t{9}});
    b.graph().add_initializer("w", zeros({4, 3, 3, 3}));
    b.node("Conv", {"x", "w"}, {"c"},
           {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    b.node("Relu", {"c"}, {"y"});
    b.output("y", kF32);
    auto model = std::move(b).build();
    model.substitute("H", 7);
    EXPECT_EQ(shape_text(model), "f32[N, 4, 4, 5]");
    EXPECT_EQ(model.variables(), std::vector<std::string>{"N"});
    auto lowered = frontend::lower(model);
    EXPECT_EQ(lowered.graph.node_count(), 2u);
    auto* relu = lowered.graph.outputs().at(0)->producer();
    auto* info = computation::info_of<kernel::ConvInfo>(*relu->input(0)->producer()->value.op);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->window.strides, (Dims{2, 2}));
    EXPECT_EQ(relu->input(0)->value.name, "c");
}

TEST(ModelBuilder, SizesFlowThroughShapeArithmetic) {
    Builder b;
    b.input("x", {std::string("N"), std::string("S"), int64_t{768}});
    b.graph().add_initializer("zero", tensor_i64({1}, {0}));
    b.graph().add_initializer("one", tensor_i64({1}, {1}));
    b.graph().add_initializer("rest", tensor_i64({2}, {12, -1}));
    b.node("Shape", {"x"}, {"shape"});
    b.node("Gather", {"shape", "zero"}, {"n"});
    b.node("Slice", {"shape", "one", "two"}, {"s"});
    b.graph().add_initializer("two", tensor_i64({1}, {2}));
    b.node("Concat", {"n", "s", "rest"}, {"target"}, {{"axis", int64_t{0}}});
    b.node("Reshape", {"x", "target"}, {"y"});
    b.output("y");
    auto model = std::move(b).build();
    EXPECT_EQ(shape_text(model), "f32[N, S, 12, 64]");
    EXPECT_EQ(frontend::lower(model).graph.node_count(), 1u);
}

TEST(ModelBuilder, ConstantsAreFoldedWithinLimits) {
    Builder b;
    b.graph().add_initializer("a", tensor_f32({3}, {1, -2, 3}));
    b.graph().add_initializer("big", tensor_i64({2}, {100000, 1000}));
    b.node("Abs", {"a"}, {"y"});
    b.node("Expand", {"one", "big"}, {"z"});
    b.graph().add_initializer("one", tensor_f32({1}, {1}));
    b.output("y");
    b.output("z");
    auto model = std::move(b).build();
    auto outputs = model.outputs();
    ASSERT_TRUE(outputs[0].constant);
    EXPECT_EQ(static_cast<float const*>(outputs[0].constant->data())[1], 2);
    EXPECT_FALSE(outputs[1].constant) << "400 MB from one element";
}

TEST(ModelBuilder, ReportsAllProblemsAtOnce) {
    Builder b;
    b.input("x", {int64_t{2}});
    b.node("Relu", {"x", "x"}, {"a"});
    b.node("Frobnicate", {"a"}, {"b"});
    b.node("Cast", {"b"}, {"y"});
    b.output("y");
    auto text = refusal<InvalidModel>(std::move(b));
    for (auto part : {"Relu", "2 inputs, expected 1", "Frobnicate", "required attribute \"to\""})
        EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ModelBuilder, StructureIsChecked) {
    auto base = [](std::string in, std::string out) {
        Builder b;
        b.input("x", {int64_t{2}});
        b.node("Relu", {std::move(in)}, {"a"});
        b.node("Neg", {"a"}, {std::move(out)});
        b.output("y");
        return b;
    };
    EXPECT_NE(refusal<InvalidModel>(base("nope", "y")).find("\"nope\""), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(base("x", "z")).find("\"y\" is not produced"), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(base("y", "y")).find("cycle"), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(base("x", "x")).find("more than once"), std::string::npos);
}

TEST(ModelBuilder, VersionsAreChecked) {
    auto with = [](std::optional<int64_t> ir, std::vector<int64_t> opsets) {
        Builder b(opsets.empty() ? 17 : opsets[0]);
        for (auto version : opsets) b.add_opset("", version);
        if (ir) b.set_ir_version(*ir);
        b.input("x", {int64_t{2}});
        b.node("Relu", {"x"}, {"y"});
        b.output("y");
        return b;
    };
    EXPECT_NE(refusal<InvalidModel>(with(999, {17})).find("ir_version 999"), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(with(8, {17, 9})).find("17 and 9"), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(with(8, {-5})).find("opset -5"), std::string::npos);
    EXPECT_NE(refusal<Unsupported>(with(8, {999})).find("opset 999"), std::string::npos);
}

TEST(ModelBuilder, TensorsAreChecked) {
    auto with = [](RawTensor tensor) {
        Builder b;
        b.graph().add_initializer("w", std::move(tensor));
        b.node("Identity", {"w"}, {"y"});
        b.output("y");
        return b;
    };
    auto bytes = tensor_f32({2}, {1, 2}).blob;
    constexpr int64_t kHuge = int64_t{1} << 59;
    refusal<InvalidModel>(with({kF32, {3}, bytes}));
    refusal<InvalidModel>(with({kF32, {1}, bytes}));
    refusal<InvalidModel>(with({kF32, {-2, -1}, bytes}));
    refusal<InvalidModel>(with({kF32, {kHuge + 1, 32}, bytes}));
    refusal<InvalidModel>(with({kF32, {int64_t{1} << 32, int64_t{1} << 32}, nullptr}));
    refusal<InvalidModel>(with({999, {2}, bytes}));
    refusal<Unsupported>(with({kF32, std::vector<int64_t>(5000, 1), bytes}));
}

TEST(ModelBuilder, TypesAreChecked) {
    Builder b;
    b.input("x", {int64_t{2}});
    b.input("z", {int64_t{2}}, kI64);
    b.node("Add", {"x", "z"}, {"y"});
    b.output("y");
    EXPECT_NE(refusal<InvalidModel>(std::move(b)).find("is i64, expected f32"), std::string::npos);
    Builder declared;
    declared.input("x", {int64_t{2}});
    declared.node("Relu", {"x"}, {"y"});
    declared.output("y", kI64);
    EXPECT_NE(refusal<InvalidModel>(std::move(declared)).find("declared as i64, but is f32"), std::string::npos);
}

TEST(ModelBuilder, BadArgumentsAreRefused) {
    constexpr int64_t kHuge = int64_t{1} << 31;
    refusal<InvalidModel>(with_list("Reshape", {-1, -1}));
    refusal<InvalidModel>(with_list("Reshape", {5, 5}));
    refusal<InvalidModel>(with_list("Expand", {5, 5}));
    refusal<InvalidModel>(with_list("Expand", {-3, 2, 6}));
    refusal<InvalidModel>(with_list("Expand", {kHuge, kHuge, 2, 6}));
    refusal<InvalidModel>(with_list("Tile", {kHuge, kHuge}));
    refusal<InvalidModel>(with_list("Tile", {2}));
    refusal<InvalidModel>(with_list("Squeeze", {0}));
    refusal<InvalidModel>(with_list("Unsqueeze", {0, 0}));
    refusal<InvalidModel>(with_list("Unsqueeze", {50}));
    refusal<InvalidModel>(with_list("ReduceSum", {7}));
    refusal<InvalidModel>(with_list("Pad", {1, 1}));
    refusal<InvalidModel>(with_list("Pad", {-9, 0, 0, 0}));
    refusal<InvalidModel>(with_list("Pad", {1, 1, 1, 1}, {{"mode", std::string("bogus")}}));
    refusal<InvalidModel>(with_list("Gather", {99}));
    refusal<InvalidModel>(with_list("Gather", {0}, {{"axis", int64_t{9}}}));
    refusal<InvalidModel>(with_list("Gather", {0}, {{"axis", 1.f}}));
    refusal<InvalidModel>(with_list("TopK", {100}));
}

TEST(ModelBuilder, AxesOfReductionsMovedToAnInput) {
    auto build = [](int64_t opset, bool attribute) {
        Builder b(opset);
        b.input("x", {int64_t{2}, int64_t{3}});
        b.graph().add_initializer("axes", tensor_i64({1}, {1}));
        if (attribute)
            b.node("ReduceMax", {"x"}, {"y"}, {{"axes", std::vector<int64_t>{1}}});
        else
            b.node("ReduceMax", {"x", "axes"}, {"y"});
        b.output("y");
        return b;
    };
    EXPECT_EQ(shape_text(build(17, true).build()), "f32[2, 1]");
    EXPECT_EQ(shape_text(build(18, false).build()), "f32[2, 1]");
    refusal<InvalidModel>(build(18, true));
    refusal<InvalidModel>(build(17, false));
}

TEST(ModelBuilder, NodesThatNeedDataAreDeferred) {
    Builder b;
    b.input("x", {int64_t{2}, int64_t{6}});
    b.input("s", {int64_t{2}}, kI64);
    b.node("Reshape", {"x", "s"}, {"y"});
    b.output("y");
    auto model = std::move(b).build();
    ASSERT_EQ(model.inference().reasons.size(), 1u);
    EXPECT_NE(model.inference().reasons[0].find("depends on data"), std::string::npos);
    EXPECT_THROW(frontend::lower(model), Unsupported);
    auto compiled = frontend::compile(model, {});
    ASSERT_EQ(compiled.executable->calls.size(), 1u);
    EXPECT_EQ(compiled.executable->calls[0].procedure->id(), "deferred:cpu:compile:any");
}

TEST(ModelBuilder, SubstituteRefusesUnknownNames) {
    Builder b;
    b.input("x", {std::string("N"), std::monostate{}});
    b.node("Relu", {"x"}, {"y"});
    b.output("y");
    auto model = std::move(b).build();
    EXPECT_EQ(model.variables(), (std::vector<std::string>{"N", "x.1"}));
    EXPECT_THROW(model.substitute("M", 1), InvalidInput);
    EXPECT_THROW(model.substitute("N", -1), InvalidInput);
    model.substitute("N", 10);
    EXPECT_EQ(shape_text(model), "f32[10, x.1]");
}

TEST(ModelBuilder, UnrankedInputsWaitForTheirShape) {
    Builder b;
    b.graph().add_input("x", kF32, std::nullopt);
    b.node("Relu", {"x"}, {"y"});
    b.output("y");
    auto model = std::move(b).build();
    auto compiled = frontend::compile(model, {});
    runtime::Session session(compiled.executable, "default", 1);
    for (Dims const& dims : {Dims{2, 3}, Dims{4}, Dims{}}) {
        runtime::Value x;
        auto* data = static_cast<float*>(x.resize(DataType::F32, dims));
        std::fill_n(data, x.count(), -1.f);
        session.set_input(0, x);
        session.run();
        EXPECT_EQ(session.output(0).dims, dims);
        EXPECT_EQ(session.output(0).data<float>()[0], 0.f);
    }
}

std::shared_ptr<GraphBuilder> branch(std::string type, std::string captured, std::string result) {
    auto graph = std::make_shared<GraphBuilder>();
    graph->add_node("", "", std::move(type), {std::move(captured)}, {result}, {});
    graph->add_output(std::move(result), 0, {});
    return graph;
}

Builder conditional(std::string captured, std::string result, bool constant) {
    Builder b;
    b.input("x", {std::string("N"), int64_t{3}});
    if (constant) {
        bool yes = true;
        b.graph().add_initializer("c", {kBool, {}, mem_manager::Blob::copy_of(&yes, 1)});
    } else {
        b.input("c", {}, kBool);
    }
    b.node("If", {"c"}, {"y"},
           {{"then_branch", branch("Relu", captured, result)}, {"else_branch", branch("Neg", "x", "e")}});
    b.output("y");
    return b;
}

TEST(ModelBuilder, BranchesReadOuterValues) {
    auto model = conditional("x", "t", false).build();
    EXPECT_EQ(shape_text(model), "f32[N, 3]");
    auto lowered = frontend::lower(model);
    ASSERT_EQ(lowered.graph.node_count(), 1u);
    EXPECT_TRUE(dynamic_cast<computation::If const*>(lowered.graph.outputs()[0]->producer()->value.op.get()));
}

TEST(ModelBuilder, AKnownConditionIsInlined) {
    auto lowered = frontend::lower(conditional("x", "t", true).build());
    ASSERT_EQ(lowered.graph.node_count(), 1u);
    EXPECT_EQ(lowered.graph.outputs()[0]->producer()->value.op->type(), "Elementwise");
}

TEST(ModelBuilder, BranchesAreChecked) {
    EXPECT_NE(refusal<InvalidModel>(conditional("nope", "t", false)).find("\"nope\""), std::string::npos);
    EXPECT_NE(refusal<InvalidModel>(conditional("x", "x", false)).find("hides"), std::string::npos);
}

TEST(Registry, KnowsWhichOpsetsItSupports) {
    EXPECT_TRUE(is_supported("", "Conv", 11));
    EXPECT_TRUE(is_supported("ai.onnx", "Resize", 19));
    EXPECT_TRUE(is_supported("", "Upsample", 9));
    EXPECT_FALSE(is_supported("", "Upsample", 10));
    EXPECT_FALSE(is_supported("", "RMSNormalization", 22));
    EXPECT_FALSE(is_supported("com.example", "Conv", 11));
}

TEST(SupportedOperators, EveryVersionIsFoundAndNothingElse) {
    auto all = supported_operators();
    ASSERT_FALSE(all.empty());
    for (size_t i = 0; i < all.size(); ++i) {
        auto const& [domain, op_type, first, last] = all[i];
        EXPECT_TRUE(is_supported(domain, op_type, first)) << op_type << " " << first;
        if (last) {
            EXPECT_LE(first, *last) << op_type;
            EXPECT_TRUE(is_supported(domain, op_type, *last)) << op_type << " " << *last;
        }
        if (i == 0) continue;
        auto const& before = all[i - 1];
        EXPECT_LT(std::tie(before.domain, before.op_type, before.first), std::tie(domain, op_type, first));
        if (before.domain == domain && before.op_type == op_type) {
            ASSERT_TRUE(before.last.has_value()) << op_type;
            EXPECT_LT(*before.last, first) << op_type;
        }
    }
}

}  // namespace
}  // namespace refactor::onnx
