#pragma once
#include "common/error.h"
#include "computation/compile.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/expression.h"
#include "runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace refactor::computation::test {

/// As with `precision="bf16"`.
inline CompileOptions rounding(char const* device = "cpu") {
    CompileOptions options;
    options.device = device, options.compute = DataType::BF16;
    return options;
}

/// Small models for tests: inputs and constants are random and signed, shapes are numbers or symbols.
class TestGraph {
    std::mt19937 random_;
    size_t count_ = 0;

public:
    Model model;

    explicit TestGraph(uint32_t seed) : random_(seed) {}

    std::vector<float> random_floats(size_t count) {
        std::normal_distribution<float> normal(0, 1);
        std::vector<float> values(count);
        for (auto& value : values) value = normal(random_);
        return values;
    }
    EdgePtr input(Shape shape, DataType dtype = DataType::F32) {
        return model.graph.add_input({"x" + std::to_string(count_++), dtype, std::move(shape), {}, nullptr, false});
    }
    EdgePtr constant(Dims const& dims, std::vector<float> const& values) {
        Shape shape(dims.begin(), dims.end());
        auto blob = mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(float));
        return model.graph.add_source({"c" + std::to_string(count_++), DataType::F32, shape, {}, blob, false});
    }
    EdgePtr weights(Dims const& dims) {
        return constant(dims, random_floats(static_cast<size_t>(element_count(dims))));
    }
    EdgePtr scalar(float value) { return constant({}, {value}); }
    template <class Info>
    EdgePtr add(Info info, std::vector<EdgePtr> const& inputs, Shape shape, std::vector<DimExpr> params = {},
                DataType dtype = DataType::F32) {
        auto name = "t" + std::to_string(count_++);
        auto* node = model.graph.insert({name + "_node", make_operator(std::move(info), std::move(params))}, inputs);
        node->output()->value = {name, dtype, std::move(shape), {}, nullptr, false};
        return node->output();
    }
    EdgePtr elementwise(kernel::ExprOp op, std::initializer_list<EdgePtr> inputs, Shape shape) {
        auto expression = make_expression(op, DataType::F32, inputs);
        return add(kernel::ElementwiseInfo{expression.code, expression.outputs}, expression.inputs, std::move(shape));
    }
    EdgePtr reshape(EdgePtr x, Shape shape) {
        auto name = "t" + std::to_string(count_++);
        auto* node = model.graph.insert({name + "_node", std::make_shared<Reshape>()}, {x});
        node->output()->value = {name, x->value.dtype, std::move(shape), {}, nullptr, false};
        return node->output();
    }
    void output(EdgePtr edge) {
        model.graph.add_output(edge);
        model.output_names.push_back(edge->value.name);
    }
    /// A copy with the same constants, so that one model can be compiled several ways.
    Model copy() const { return {Graph(model.graph.sort(false)), model.symbols, model.output_names}; }
};

using Types = std::vector<std::string>;

/// Types of the nodes of a compiled program in order.
inline Types types_of(kernel::Program const& program) {
    Types types;
    for (auto const& node : program.parts().nodes) types.push_back(node.type);
    return types;
}

inline int64_t count(Types const& types, std::string_view type) { return std::count(types.begin(), types.end(), type); }

inline std::vector<std::vector<float>> run(std::shared_ptr<kernel::Program> program,
                                           std::vector<std::pair<Dims, std::vector<float>>> const& inputs) {
    runtime::Executor executor(program, "default", 1);
    for (size_t i = 0; i < inputs.size(); ++i)
        executor.set_input(
            i, {DataType::F32, inputs[i].first,
                mem_manager::Blob::copy_of(inputs[i].second.data(), inputs[i].second.size() * sizeof(float))});
    executor.run();
    std::vector<std::vector<float>> outputs;
    for (size_t i = 0; i < program->outputs().size(); ++i) {
        auto const& value = executor.output(i);
        auto const* data = static_cast<float const*>(value.blob->data());
        outputs.emplace_back(data, data + element_count(value.dims));
    }
    return outputs;
}

/// Compiles with all passes and with none, checks that both give the same on random inputs of `dims`, and returns the
/// node types with all passes. `tolerance` is relative to the largest magnitude.
inline Types compare_passes(TestGraph& graph, std::vector<Dims> const& dims, double tolerance) {
    std::vector<std::pair<Dims, std::vector<float>>> inputs;
    for (auto const& d : dims) inputs.emplace_back(d, graph.random_floats(static_cast<size_t>(element_count(d))));
    CompileOptions with, without;
    with.threads = without.threads = 1;
    with.verify = without.verify = true;
    without.passes = {"-all"};
    auto optimised = compile(graph.copy(), with), plain = compile(graph.copy(), without);
    auto actual = run(optimised.program, inputs), expected = run(plain.program, inputs);
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(actual[i].size(), expected[i].size());
        double most = 0, error = 0;
        for (size_t k = 0; k < expected[i].size(); ++k) {
            most = std::max<double>(most, std::abs(expected[i][k]));
            auto difference = std::abs(static_cast<double>(actual[i][k]) - expected[i][k]);
            error = std::isfinite(difference) ? std::max(error, difference) : INFINITY;
        }
        EXPECT_LE(error, tolerance * most) << "output " << i << "\n" << optimised.program->to_string();
        EXPECT_GT(most, 0);
    }
    return types_of(*optimised.program);
}

}  // namespace refactor::computation::test
