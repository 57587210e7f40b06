#include "kernel/program.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "runtime/executor.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

namespace refactor::kernel {

namespace {

/// Copies floats, no more than `most`, at a stated cost.
class CopyKernel final : public Kernel {
    std::string name_;
    double cost_;
    int64_t most_;
    bool from_any_address_;

    class Copy final : public runtime::Task {
        size_t bytes_;
        bool from_any_address_;

    public:
        Copy(size_t bytes, bool from_any_address) : bytes_(bytes), from_any_address_(from_any_address) {}
        uint64_t unaligned_inputs() const override { return from_any_address_ ? 1 : 0; }
        void run(void* const* arguments, runtime::RunContext const& context) const override {
            std::memcpy(context.workspace, arguments[0], bytes_);
            std::memcpy(arguments[1], context.workspace, bytes_);
        }
        size_t workspace_bytes() const override { return bytes_; }
        uint64_t in_place_inputs() const override { return 1; }
    };

public:
    CopyKernel(std::string name, double cost, int64_t most, bool from_any_address = false)
        : name_(std::move(name)), cost_(cost), most_(most), from_any_address_(from_any_address) {}
    std::string id() const override { return "copy:cpu:" + name_ + ":f32"; }
    Result<double, Rejection> estimate(BindArgs const&) const override { return cost_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        if (args.inputs[0]->count() > most_) return Err{Rejection{"more than " + std::to_string(most_) + " elements"}};
        return std::unique_ptr<runtime::Task>(
            std::make_unique<Copy>(args.inputs[0]->count() * sizeof(float), from_any_address_));
    }
};

struct Chain {
    ProgramParts parts;
    SymbolId n, m;

    explicit Chain(int length) {
        n = parts.symbols.intern("n"), m = parts.symbols.intern("m");
        Shape shape{DimExpr::symbol(n), DimExpr::symbol(m) * 2};
        for (int i = 0; i <= length; ++i)
            parts.edges.push_back({"t" + std::to_string(i), DataType::F32, {}, shape, nullptr});
        for (int i = 0; i < length; ++i) {
            auto from = static_cast<uint32_t>(i);
            parts.nodes.push_back({"n" + std::to_string(i), "Copy", {from}, {from + 1}, {}, {}, {}});
            auto& kernels = parts.nodes.back().kernels;
            kernels.push_back(std::make_unique<CopyKernel>("slow", 9, 1000));
            kernels.push_back(std::make_unique<CopyKernel>("fast", 5, 20));
        }
        parts.inputs = {0}, parts.outputs = {static_cast<uint32_t>(length)};
        // m is bound by an input of its own.
        parts.edges.push_back({"size", DataType::F32, {}, {DimExpr::symbol(m), DimExpr::symbol(n)}, nullptr});
        parts.inputs.push_back(static_cast<uint32_t>(length) + 1);
    }
};

std::string message_of(Program& program, std::vector<Dims> const& dims) {
    try {
        program.plan(dims);
    } catch (Error const& error) {
        return error.what();
    }
    return "";
}

TEST(Program, ChoosesTheCheapestKernelThatAcceptsTheSizes) {
    Program program(std::move(Chain(1).parts));
    auto small = program.plan(std::vector<Dims>{{2, 6}, {3, 2}}),
         large = program.plan(std::vector<Dims>{{5, 10}, {5, 5}});
    EXPECT_EQ(small->kernel_ids, std::vector<std::string>{"copy:cpu:fast:f32"});
    EXPECT_EQ(large->kernel_ids, std::vector<std::string>{"copy:cpu:slow:f32"});
    auto message = message_of(program, {{60, 60}, {30, 60}});
    EXPECT_NE(message.find("Copy node \"n0\""), std::string::npos);
    EXPECT_NE(message.find("copy:cpu:fast:f32: more than 20"), std::string::npos);
    EXPECT_NE(message.find("copy:cpu:slow:f32: more than 1000"), std::string::npos);
}

/// As a library that compiles: the first node takes long; each of the others waits until two are being bound.
class CompilingKernel final : public Kernel {
public:
    struct Counts {
        std::mutex mutex;
        std::condition_variable changed;
        int calls = 0, inside = 0, most = 0;
        std::chrono::seconds patience;
    };
    explicit CompilingKernel(Counts& counts) : counts_(counts) {}
    std::string id() const override { return "copy:nvidia:compiled:f32"; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        std::unique_lock lock(counts_.mutex);
        if (counts_.calls++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        counts_.most = std::max(counts_.most, ++counts_.inside);
        counts_.changed.notify_all();
        if (counts_.calls > 1) counts_.changed.wait_for(lock, counts_.patience, [&] { return counts_.most > 1; });
        --counts_.inside;
        lock.unlock();
        return CopyKernel("", 0, 1000).bind(args);
    }

private:
    Counts& counts_;
};

TEST(Program, BindsOnAllThreadsWhereADeviceCompiles) {
    if (default_thread_count() < 2) GTEST_SKIP() << "needs two processors";
    auto most = [](char const* device, int threads) {
        CompilingKernel::Counts counts;
        counts.patience = std::chrono::seconds(threads > 1 ? 10 : 0);
        Chain chain(4);
        chain.parts.device = device, chain.parts.threads = threads;
        for (auto& node : chain.parts.nodes) {
            node.kernels.clear();
            node.kernels.push_back(std::make_unique<CompilingKernel>(counts));
        }
        Program program(std::move(chain.parts));
        auto plan = program.plan(std::vector<Dims>{{2, 6}, {3, 2}});
        EXPECT_EQ(plan->steps.size(), 4u);
        for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(plan->steps[i].node, i);
        return counts.most;
    };
    EXPECT_EQ(most("nvidia", 2), 2);
    EXPECT_EQ(most("nvidia", 1), 1);
}

/// Copies as well, and writes down the number of threads it is bound for and the one it finds.
class CountingKernel final : public Kernel {
    double cost_;
    int &bound_, &found_;

    class Counting final : public runtime::Task {
        int& found_;
        size_t bytes_;

    public:
        Counting(int& found, size_t bytes) : found_(found), bytes_(bytes) {}
        void run(void* const* arguments, runtime::RunContext const& context) const override {
            found_ = context.pool.threads();
            std::memcpy(arguments[1], arguments[0], bytes_);
        }
    };

public:
    CountingKernel(double cost, int& bound, int& found) : cost_(cost), bound_(bound), found_(found) {}
    std::string id() const override { return "copy:cpu:counting:f32"; }
    Result<double, Rejection> estimate(BindArgs const& args) const override { return cost_ / args.threads; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        bound_ = args.threads;
        return std::unique_ptr<runtime::Task>(
            std::make_unique<Counting>(found_, args.inputs[0]->count() * sizeof(float)));
    }
};

TEST(Program, ShortStepsKeepToTheCallingThread) {
    struct Case {
        double cost;
        int threads;
    };
    for (auto [cost, threads] : {Case{10, 1}, Case{7000, 1}, Case{9000, 3}, Case{1e6, 3}, Case{0, 3}}) {
        int bound = 0, found = 0;
        Chain chain(1);
        chain.parts.threads = 3;
        chain.parts.nodes[0].kernels.clear();
        chain.parts.nodes[0].kernels.push_back(std::make_unique<CountingKernel>(cost, bound, found));
        auto program = std::make_shared<Program>(std::move(chain.parts));
        runtime::Executor executor(program, "default", 3);
        std::vector<float> values(12);
        executor.set_input(0, {DataType::F32, {2, 6}, mem_manager::Blob::copy_of(values.data(), 48)});
        executor.set_input(1, {DataType::F32, {3, 2}, mem_manager::Blob::copy_of(values.data(), 24)});
        executor.run();
        EXPECT_EQ(bound, threads) << "estimated " << cost << " ns";
        EXPECT_EQ(found, threads) << "estimated " << cost << " ns";
    }
}

TEST(Program, PrefersWhatTheTuningTableKnows) {
    auto kernel_of = [](std::shared_ptr<TuningTable> const& table, bool measure) {
        Chain chain(2);
        chain.parts.tuning = table, chain.parts.measure = measure;
        Program program(std::move(chain.parts));
        auto plan = program.plan(std::vector<Dims>{{2, 6}, {3, 2}});
        EXPECT_EQ(plan->kernel_ids[0], plan->kernel_ids[1]);
        return plan->kernel_ids[0];
    };
    auto table = std::make_shared<TuningTable>();
    EXPECT_EQ(kernel_of(table, false), "copy:cpu:fast:f32");
    EXPECT_TRUE(table->choices().empty());
    auto measured = kernel_of(table, true);
    ASSERT_EQ(table->choices().size(), 1u) << "equal nodes are one case";
    auto const key = table->choices().begin()->first;
    EXPECT_EQ(table->find(key), measured);
    for (auto* id : {"copy:cpu:slow:f32", "copy:cpu:fast:f32"}) {
        table->set(key, id);
        EXPECT_EQ(kernel_of(table, false), id);
        EXPECT_EQ(kernel_of(table, true), id) << "known cases are not measured again";
    }
    table->set(key, "copy:cpu:gone:f32");
    EXPECT_EQ(kernel_of(table, false), "copy:cpu:fast:f32");
    EXPECT_NE(kernel_of(table, true), "copy:cpu:gone:f32");
    EXPECT_NE(table->find(key), "copy:cpu:gone:f32") << "measured anew";
}

TEST(Program, NamesTheInputThatContradictsTheShapes) {
    Program program(std::move(Chain(1).parts));
    EXPECT_EQ(message_of(program, {{2, 6}, {3, 4}}),
              "input \"size\", dimension 1 is 4, but \"n\" is 2 by input \"t0\", dimension 0");
    EXPECT_NE(message_of(program, {{2, 7}, {3, 2}}).find("input \"t0\", dimension 1 is 7, expected 6"),
              std::string::npos);
    EXPECT_NE(message_of(program, {{2}, {3, 2}}).find("input \"t0\" has rank 1, expected 2"), std::string::npos);
    EXPECT_THROW(program.plan(std::vector<Dims>{{int64_t(1) << 40, 2 * (int64_t(1) << 40)},
                                                {int64_t(1) << 40, int64_t(1) << 40}}),
                 OutOfMemory);
}

TEST(Program, ChecksConditionsWhereTheirSizesAreKnown) {
    Chain chain(1);
    auto unbound = DimExpr::symbol(chain.parts.symbols.intern("k"));
    chain.parts.conditions.push_back({"Copy node \"n0\"", "the height", unbound, DimExpr(7)});
    chain.parts.conditions.push_back({"Copy node \"n0\"", "the width", DimExpr::symbol(chain.m) * 2, DimExpr(6)});
    Program program(std::move(chain.parts));
    EXPECT_EQ(message_of(program, {{2, 6}, {3, 2}}), "");
    EXPECT_EQ(message_of(program, {{2, 8}, {4, 2}}), "Copy node \"n0\": the width is 8, expected 6");
}

TEST(Program, OneHoldsWhereItBroadcasts) {
    Chain chain(1);
    chain.parts.conditions.push_back({"Copy node \"n0\"", "the width", DimExpr::symbol(chain.m), DimExpr(3), true});
    Program program(std::move(chain.parts));
    for (int64_t m : {1, 3}) EXPECT_EQ(message_of(program, {{2, 2 * m}, {m, 2}}), "");
    EXPECT_EQ(message_of(program, {{2, 8}, {4, 2}}), "Copy node \"n0\": the width is 4, expected 3 or 1");
}

TEST(Program, AliasesHoldAsManyElements) {
    Chain chain(1);
    chain.parts.nodes[0].kernels.clear(), chain.parts.edges[1].shape = {DimExpr::symbol(chain.m) * 4};
    Program program(std::move(chain.parts));
    EXPECT_EQ(message_of(program, {{2, 6}, {3, 2}}), "");
    EXPECT_EQ(message_of(program, {{3, 6}, {3, 3}}), "Copy node \"n0\": f32[3, 6] cannot become f32[12]");
}

TEST(Program, RefusesTensorsBeyondTheLimit) {
    Chain chain(1);
    chain.parts.max_tensor_bytes = 64;
    Program program(std::move(chain.parts));
    EXPECT_EQ(message_of(program, {{2, 8}, {4, 2}}), "");
    EXPECT_EQ(message_of(program, {{2, 10}, {5, 2}}),
              "tensor \"t0\" would take 80 bytes, the limit is 64 (max_tensor_bytes)");
}

TEST(Program, PlansAreCachedByTheirSizes) {
    Program program(std::move(Chain(2).parts), 2);
    std::vector<Dims> a{{1, 2}, {1, 1}}, b{{2, 2}, {1, 2}}, c{{3, 2}, {1, 3}};
    auto first = program.plan(a);
    EXPECT_EQ(program.plan(a), first);
    program.plan(b), program.plan(a), program.plan(c);
    EXPECT_EQ(program.plan(a), first) << "the least recently used plan goes first";
    auto again = program.plan(b);
    EXPECT_EQ(program.plan(b), again);
}

TEST(Program, InPlaceTasksShareMemoryAndWorkspacesAreSeparate) {
    Program program(std::move(Chain(5).parts));
    auto plan = program.plan(std::vector<Dims>{{2, 4}, {2, 2}});
    // Four intermediates in one line of 64 bytes, and one workspace at a time.
    EXPECT_EQ(plan->arena_bytes, 128u);
    EXPECT_EQ(plan->lower_bound, 128u);
}

TEST(Program, EmptyTensorsNeedNoSteps) {
    Program program(std::move(Chain(3).parts));
    EXPECT_TRUE(program.plan(std::vector<Dims>{{0, 4}, {2, 0}})->steps.empty());
}

/// One float of a file, behind a byte.
class PackedFile final : public mem_manager::BlobSource {
    alignas(float) std::byte bytes_[1 + sizeof(float)];

public:
    explicit PackedFile(float value) { std::memcpy(bytes_ + 1, &value, sizeof value); }
    void const* direct() const override { return nullptr; }
    void const* unaligned() const override { return bytes_ + 1; }
    void read(void* to) const override { std::memcpy(to, bytes_ + 1, sizeof(float)); }
};

/// Steps that copy a constant, the i-th from any address if the i-th bit says so, and what its address is.
std::pair<std::shared_ptr<runtime::Plan const>, void const*> plan_of_copies(int steps, unsigned from_any_address) {
    ProgramParts parts;
    auto source = std::make_unique<PackedFile>(7.f);
    auto const* unaligned = source->unaligned();
    parts.edges.push_back(
        {"c", DataType::F32, {}, {DimExpr(1)}, mem_manager::Blob::lazy(sizeof(float), std::move(source))});
    for (int i = 0; i < steps; ++i) {
        auto y = static_cast<uint32_t>(parts.edges.size());
        parts.edges.push_back({"y" + std::to_string(i), DataType::F32, {}, {DimExpr(1)}, nullptr});
        parts.nodes.push_back({"n" + std::to_string(i), "Copy", {0}, {y}, {}, {}, {}});
        parts.nodes.back().kernels.push_back(std::make_unique<CopyKernel>("any", 1, 10, from_any_address >> i & 1));
        parts.outputs.push_back(y);
    }
    // The plan keeps what the Program owns alive, the constant too.
    auto program = std::make_shared<Program>(std::move(parts));
    auto plan = program->plan(std::vector<Dims>{});
    return {std::shared_ptr<runtime::Plan const>(plan.get(), [program, plan](auto*) {}), unaligned};
}

void const* address_of_constant(runtime::Plan const& plan) {
    for (auto const& tensor : plan.tensors)
        if (tensor.constant) return tensor.address;
    return nullptr;
}

TEST(Program, ConstantsStayInTheirFileIfAnyAddressWillDo) {
    auto [plan, unaligned] = plan_of_copies(2, 0b11);
    EXPECT_EQ(address_of_constant(*plan), unaligned);
}

TEST(Program, OneStepThatNeedsAlignedElementsDecidesForAll) {
    for (unsigned from_any_address : {0b00u, 0b01u, 0b10u}) {
        auto [plan, unaligned] = plan_of_copies(2, from_any_address);
        auto const* address = address_of_constant(*plan);
        EXPECT_NE(address, unaligned);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
        EXPECT_EQ(*static_cast<float const*>(address), 7.f);
    }
}

TEST(Program, RunsOnEveryAllocator) {
    auto program = std::make_shared<Program>(std::move(Chain(4).parts));
    for (auto const* allocator : {"default", "plain", "mru", "bestfit", "compact"}) {
        runtime::Executor executor(program, allocator, 1);
        for (int64_t n : {1, 3, 2}) {
            std::vector<float> values(static_cast<size_t>(n) * 4);
            for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 3.5f;
            auto bytes = values.size() * sizeof(float);
            executor.set_input(0, {DataType::F32, {n, 4}, mem_manager::Blob::copy_of(values.data(), bytes)});
            executor.set_input(1, {DataType::F32, {2, n}, mem_manager::Blob::copy_of(values.data(), bytes / 2)});
            executor.run();
            EXPECT_EQ(std::memcmp(executor.output(0).blob->data(), values.data(), bytes), 0) << allocator << ' ' << n;
        }
    }
}

}  // namespace

}  // namespace refactor::kernel
