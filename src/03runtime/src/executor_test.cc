#include "runtime/executor.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace refactor::runtime {

namespace {

using mem_manager::Blob;

/// output[i] = input[i] + 1, through as many elements as it was bound for.
class Increment : public Task {
    int64_t count_;

public:
    explicit Increment(int64_t count) : count_(count) {}
    void run(void* const* arguments, RunContext const&) const override {
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        for (int64_t i = 0; i < count_; ++i) {
            if (x[i] == -1000) throw InvalidInput("element " + std::to_string(i) + " is -1000");
            y[i] = x[i] + 1;
        }
    }
};

/// y = x + 1 + 1 + 1 over a vector of any length: input → arena → arena → output.
class ChainPlanner final : public Planner {
    std::function<std::unique_ptr<Task>(int64_t)> make_task_;
    std::vector<PortInfo> inputs_{{"x", DataType::F32, "[n]", {-1}, {"n"}}};
    std::vector<PortInfo> outputs_{{"y", DataType::F32, "[n]", {-1}, {"n"}}};
    std::string names_[4] = {"x", "a", "b", "y"};
    std::string type_ = "Increment";

public:
    explicit ChainPlanner(std::function<std::unique_ptr<Task>(int64_t)> make_task =
                              [](int64_t n) { return std::make_unique<Increment>(n); })
        : make_task_(std::move(make_task)) {}
    int plans = 0;
    std::vector<PortInfo> const& inputs() const override { return inputs_; }
    std::vector<PortInfo> const& outputs() const override { return outputs_; }
    std::string const& node_name(uint32_t node) const override { return names_[node + 1]; }
    std::string const& node_type(uint32_t) const override { return type_; }
    std::string const& edge_name(uint32_t edge) const override { return names_[edge]; }
    void to_plain(Tensor const&, void const*, void*) const override { FAIL() << "no tensor is blocked"; }

    std::shared_ptr<Plan const> plan(std::span<Dims const> dims) override {
        ++plans;
        auto plan = std::make_shared<Plan>();
        auto n = dims[0][0];
        auto bytes = static_cast<size_t>(n) * sizeof(float);
        Storage storages[] = {Storage::Input, Storage::Arena, Storage::Arena, Storage::Output};
        uint32_t indices[] = {0, 0, 1, 0};
        for (uint32_t i = 0; i < 4; ++i)
            plan->tensors.push_back({storages[i], indices[i], i, 0, nullptr, DataType::F32, true, {n}, bytes});
        auto rounded = (bytes + 63) & ~size_t(63);
        plan->blocks = {{bytes, 0, 0, 1}, {bytes, rounded, 1, 2}};
        plan->arena_bytes = 2 * rounded;
        for (uint32_t i = 0; i < 3; ++i) {
            plan->tasks.push_back(make_task_(n));
            plan->scratch_bytes = std::max(plan->scratch_bytes, plan->tasks.back()->scratch_bytes());
            plan->kernel_ids.push_back("increment:cpu:test:f32");
            plan->steps.push_back({plan->tasks.back().get(), i, i, 2 * i, 1, 1});
            plan->arguments.insert(plan->arguments.end(), {i, i + 1});
        }
        plan->workspace_blocks.assign(3, kNoTensor);
        plan->inputs = {0}, plan->outputs = {3};
        return plan;
    }
};

Value vector_of(std::initializer_list<float> values) {
    auto blob = Blob::copy_of(values.begin(), values.size() * sizeof(float));
    return {DataType::F32, {static_cast<int64_t>(values.size())}, blob};
}

std::vector<float> floats(Value const& value) {
    auto const* data = static_cast<float const*>(value.blob->data());
    return {data, data + element_count(value.dims)};
}

template <class E, class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (E const& error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

class ExecutorTest : public testing::TestWithParam<char const*> {
protected:
    std::shared_ptr<ChainPlanner> planner = std::make_shared<ChainPlanner>();
    Executor executor{planner, GetParam(), 1};
};

TEST_P(ExecutorTest, RunsAndPlansOncePerShape) {
    for (auto const& [input, expected] : {std::pair{vector_of({1, -2, 3}), std::vector<float>{4, 1, 6}},
                                          std::pair{vector_of({-5, 0.5f, 7}), std::vector<float>{-2, 3.5f, 10}}}) {
        executor.set_input(0, input);
        executor.run();
        EXPECT_EQ(floats(executor.output(0)), expected);
    }
    EXPECT_EQ(planner->plans, 1);
    executor.set_input(0, vector_of({9}));
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{12}));
    EXPECT_EQ(planner->plans, 2);
}

TEST_P(ExecutorTest, HeldOutputsAreNotOverwritten) {
    executor.set_input(0, vector_of({1, 2}));
    executor.run();
    auto held = executor.output(0);
    executor.set_input(0, vector_of({5, 6}));
    executor.run();
    EXPECT_EQ(floats(held), (std::vector<float>{4, 5}));
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{8, 9}));
    auto const* address = executor.output(0).blob->data();
    executor.run();
    EXPECT_EQ(executor.output(0).blob->data(), address) << "an output that nobody holds is written in place";
}

TEST_P(ExecutorTest, ClonesAreIndependent) {
    executor.set_input(0, vector_of({1, 2}));
    auto clone = executor.clone();
    clone->set_input(0, vector_of({10, 20}));
    executor.run();
    clone->run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{4, 5}));
    EXPECT_EQ(floats(clone->output(0)), (std::vector<float>{13, 23}));
}

TEST_P(ExecutorTest, ProfileAndTraceSeeEveryStep) {
    executor.set_input(0, vector_of({1, 2}));
    auto rows = executor.profile(3);
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[1].node, "b");
    EXPECT_EQ(rows[1].kernel, "increment:cpu:test:f32");
    EXPECT_EQ(rows[1].shape, "f32[2]");
    EXPECT_EQ(rows[1].bytes, 16);
    std::vector<std::pair<std::string, float>> seen;
    executor.trace([&](uint32_t, std::string const&, TracedTensor const& tensor, bool) {
        seen.emplace_back(tensor.name, static_cast<float const*>(tensor.data)[0]);
    });
    decltype(seen) expected = {{"x", 1}, {"a", 2}, {"a", 2}, {"b", 3}, {"b", 3}, {"y", 4}};
    EXPECT_EQ(seen, expected);
}

INSTANTIATE_TEST_SUITE_P(Allocators, ExecutorTest, testing::Values("default", "plain", "mru", "bestfit", "compact"));

/// Counts its runs in every thread's scratch memory, which keeps what the step before has written.
class Counting final : public Increment {
    size_t bytes_;

public:
    static inline std::vector<unsigned char*> places;
    Counting(int64_t count, size_t bytes) : Increment(count), bytes_(bytes) {}
    size_t scratch_bytes() const override { return bytes_; }
    void run(void* const* arguments, RunContext const& context) const override {
        Increment::run(arguments, context);
        for (int worker = 0; worker < context.pool.threads(); ++worker) {
            auto* place = reinterpret_cast<unsigned char*>(context.scratch_of(worker));
            places.push_back(place);
            ++*place, ++place[bytes_ - 1];
        }
    }
};

TEST(ExecutorScratch, IsTheSameForAllStepsAndRunsAndOfOneThread) {
    constexpr int kThreads = 3;
    auto planner = std::make_shared<ChainPlanner>(
        [](int64_t n) { return std::make_unique<Counting>(n, static_cast<size_t>(n) * 1000); });
    Executor executor(planner, "default", kThreads);
    executor.set_input(0, vector_of({1, 2, 3, 4, 5}));
    Counting::places.clear();
    executor.run();
    auto first = Counting::places;
    for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(first[i], first[i % kThreads]);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(first[i]) % 64, 0u);
    }
    for (int i = 1; i < kThreads; ++i) EXPECT_GE(first[i] - first[i - 1], 5000);
    auto before = *first[0];
    executor.run();
    EXPECT_EQ(*first[0], static_cast<unsigned char>(before + 3));
    EXPECT_TRUE(
        std::equal(first.begin(), first.end(), Counting::places.begin() + static_cast<ptrdiff_t>(first.size())));
    EXPECT_GE(executor.memory_bytes(), planner->plan(std::vector<Dims>{{5}})->arena_bytes + kThreads * 5000u);

    executor.set_input(0, vector_of({1}));
    executor.run();
    EXPECT_EQ(Counting::places.back(), first[kThreads - 1]) << "memory that suffices is kept";
    executor.trim();
    EXPECT_LT(executor.memory_bytes(), 5000u * kThreads);
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{4}));
}

TEST(ExecutorErrors, NameInputExpectedAndActual) {
    Executor executor(std::make_shared<ChainPlanner>(), "default", 1);
    EXPECT_NE(message_of<InvalidInput>([&] { executor.run(); }).find("no value was set for input \"x\""),
              std::string::npos);
    EXPECT_NE(message_of<InvalidInput>([&] { (void)executor.output(0); }).find("has not run"), std::string::npos);
    auto wrong = vector_of({1, 2});
    wrong.dtype = DataType::I32;
    EXPECT_EQ(message_of<InvalidInput>([&] { executor.set_input(0, wrong); }),
              "input \"x\": expected f32[n], got i32[2]");
    wrong = vector_of({1, 2});
    wrong.dims = {1, 2};
    EXPECT_EQ(message_of<InvalidInput>([&] { executor.set_input(0, wrong); }),
              "input \"x\": expected f32[n], got f32[1, 2]");
    wrong.dims = {3};
    EXPECT_NE(message_of<InvalidInput>([&] { executor.set_input(0, wrong); }).find("needs 12 bytes, got 8"),
              std::string::npos);
    EXPECT_NE(message_of<InvalidInput>([&] { executor.set_input(1, vector_of({1})); }).find("does not exist"),
              std::string::npos);
    EXPECT_THROW(Executor(std::make_shared<ChainPlanner>(), "fastest", 1), InvalidInput);
}

TEST(ExecutorErrors, KernelErrorsNameTheNodeAndLeaveTheExecutorUsable) {
    Executor executor(std::make_shared<ChainPlanner>(), "default", 1);
    executor.set_input(0, vector_of({3, -1001}));
    EXPECT_EQ(message_of<InvalidInput>([&] { executor.run(); }), "Increment node \"b\": element 1 is -1000");
    executor.set_input(0, vector_of({3, 4}));
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{6, 7}));
}

TEST(ExecutorErrors, CancelledAndTimedOutRunsStop) {
    Executor executor(std::make_shared<ChainPlanner>(), "default", 1);
    executor.set_input(0, vector_of({1}));
    CancellationToken token;
    token.cancel();
    EXPECT_THROW(executor.run({&token, std::nullopt}), Cancelled);
    EXPECT_THROW(executor.run({nullptr, std::chrono::steady_clock::now()}), Cancelled);
    executor.run({nullptr, std::chrono::steady_clock::now() + std::chrono::hours(1)});
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{4}));
}

}  // namespace

}  // namespace refactor::runtime
