#include "common/error.h"
#include "kernel/program.h"
#include "mem_manager/blob.h"
#include "runtime/executor.h"

#include <gtest/gtest.h>

namespace refactor::kernel {

namespace {

/// Fills its output with a number, adds floats, or throws; counts what it has done.
class CountingKernel final : public Kernel {
public:
    enum class What : uint8_t { Fill, Add, Throw };

private:
    class Counting final : public runtime::Task {
        What what_;
        int64_t count_;
        int& runs_;

    public:
        Counting(What what, int64_t count, int& runs) : what_(what), count_(count), runs_(runs) {}
        void run(void* const* arguments, runtime::RunContext const& context) const override {
            ++runs_;
            if (what_ == What::Throw) throw InvalidInput("no such row");
            auto const *a = static_cast<float const*>(arguments[0]), *b = static_cast<float const*>(arguments[1]);
            auto* y = static_cast<float*>(what_ == What::Fill ? arguments[0] : arguments[2]);
            for (int64_t i = 0; i < count_; ++i) y[i] = what_ == What::Fill ? 2.f : a[i] + b[i];
            *context.workspace = std::byte{1};
            *context.scratch_of(0) = std::byte{1};
        }
        size_t workspace_bytes() const override { return 64; }
        size_t scratch_bytes() const override { return 64; }
    };
    What what_;
    int& runs_;

public:
    CountingKernel(What what, int& runs) : what_(what), runs_(runs) {}
    std::string id() const override { return "count:cpu:reference:f32"; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        return std::unique_ptr<runtime::Task>(std::make_unique<Counting>(what_, args.outputs[0]->count(), runs_));
    }
};

using What = CountingKernel::What;

/// `y = x + sum`, where `sum = fill + fill`, all of n floats.
struct Sum {
    ProgramParts parts;
    DimExpr n = DimExpr::symbol(parts.symbols.intern("n"));
    int fills = 0, additions = 0;
    uint32_t x = edge("x"), fill = edge("fill"), sum = edge("sum"), y = edge("y");

    explicit Sum(What first = What::Fill) {
        node("Fill", {}, fill, first, fills);
        node("Sum", {fill, fill}, sum, What::Add, additions);
        node("Add", {x, sum}, y, What::Add, additions);
        parts.inputs = {x}, parts.outputs = {y};
    }
    uint32_t edge(std::string name) {
        parts.edges.push_back({std::move(name), DataType::F32, {}, {n}, nullptr});
        return static_cast<uint32_t>(parts.edges.size() - 1);
    }
    void node(std::string name, std::vector<uint32_t> inputs, uint32_t output, What what, int& runs) {
        parts.nodes.push_back({name, name, std::move(inputs), {output}, {}, {}, {}});
        parts.nodes.back().kernels.push_back(std::make_unique<CountingKernel>(what, runs));
        parts.nodes.back().is_pure = true;
    }
    std::shared_ptr<Program> program() { return std::make_shared<Program>(std::move(parts)); }
};

float first_of_run(runtime::Executor& executor, int64_t size) {
    std::vector<float> values(static_cast<size_t>(size), 3.f);
    auto bytes = values.size() * sizeof(float);
    executor.set_input(0, {DataType::F32, {size}, mem_manager::Blob::copy_of(values.data(), bytes)});
    executor.run();
    auto const* y = static_cast<float const*>(executor.output(0).blob->data());
    EXPECT_EQ(y[0], y[size - 1]);
    return y[0];
}

size_t steps_of(Program& program, int64_t size) { return program.plan(std::vector<Dims>{{size}})->steps.size(); }

TEST(PlanAhead, WhatFollowsFromSizesIsComputedOnceForAPlan) {
    Sum model;
    auto program = model.program();
    runtime::Executor executor(program, "default", 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(first_of_run(executor, 5), 7.f);
    EXPECT_EQ(model.fills, 1);
    EXPECT_EQ(model.additions, 1 + 3);
    EXPECT_EQ(executor.plan().steps.size(), 1u);
    // What is between is not kept.
    EXPECT_EQ(executor.plan().made_bytes, 5 * sizeof(float));
    EXPECT_EQ(executor.plan().arena_bytes, 64u);
    EXPECT_EQ(first_of_run(executor, 9), 7.f);
    EXPECT_EQ(model.fills, 2);
    auto clone = executor.clone();
    EXPECT_EQ(first_of_run(*clone, 5), 7.f);
    EXPECT_EQ(model.fills, 2);
}

TEST(PlanAhead, WhatMayDifferOrIsToBeSeenIsAStep) {
    Sum model;
    model.parts.nodes[0].is_pure = false;
    auto program = model.program();
    runtime::Executor executor(program, "default", 1);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(first_of_run(executor, 5), 7.f);
    EXPECT_EQ(model.fills, 2);
    EXPECT_EQ(executor.plan().made_bytes, 0u);
}

TEST(PlanAhead, OutputsAreWrittenByTheRun) {
    Sum model;
    model.parts.outputs.push_back(model.sum);
    auto program = model.program();
    runtime::Executor executor(program, "default", 1);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(first_of_run(executor, 5), 7.f);
        EXPECT_EQ(*static_cast<float const*>(executor.output(1).blob->data()), 4.f);
    }
    EXPECT_EQ(model.fills, 1);
    EXPECT_EQ(executor.plan().steps.size(), 2u);
}

TEST(PlanAhead, AnotherShapeIsTheSameMemory) {
    for (bool is_output : {false, true}) {
        Sum model;
        auto seen = model.edge("seen");
        model.parts.nodes.insert(model.parts.nodes.begin() + 2,
                                 ProgramNode{"View", "View", {model.sum}, {seen}, {}, {}, {}});
        model.parts.nodes[3].inputs[1] = seen;
        if (is_output) model.parts.outputs.push_back(seen);
        auto program = model.program();
        runtime::Executor executor(program, "default", 1);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(first_of_run(executor, 5), 7.f);
        EXPECT_EQ(model.fills, 1);
        EXPECT_EQ(executor.plan().steps.size(), is_output ? 2u : 1u);
        EXPECT_EQ(executor.plan().made_bytes, 5 * sizeof(float));
    }
}

TEST(PlanAhead, WhatFailsFailsInTheRun) {
    Sum model(What::Throw);
    auto program = model.program();
    runtime::Executor executor(program, "default", 1);
    EXPECT_EQ(steps_of(*program, 5), 3u);
    try {
        first_of_run(executor, 5);
        FAIL() << "no error";
    } catch (InvalidInput const& error) {
        EXPECT_NE(std::string(error.what()).find("Fill node \"Fill\""), std::string::npos) << error.what();
    }
}

TEST(PlanAhead, PlansOfAProgramShareTheRoom) {
    constexpr int64_t kMillion = int64_t{1} << 20;
    Sum model;
    auto program = model.program();
    EXPECT_EQ(steps_of(*program, 17 * kMillion), 3u);
    EXPECT_EQ(model.fills, 0);
    EXPECT_EQ(steps_of(*program, 10 * kMillion), 1u);
    EXPECT_EQ(steps_of(*program, 7 * kMillion), 3u);
    EXPECT_EQ(steps_of(*program, 6 * kMillion), 1u);
    EXPECT_EQ(model.fills, 2);
}

TEST(PlanAhead, DevicesComputeInTheRun) {
    Sum model;
    model.parts.device = "nvidia";
    EXPECT_EQ(steps_of(*model.program(), 5), 3u);
    EXPECT_EQ(model.fills, 0);
}

}  // namespace

}  // namespace refactor::kernel
