#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/device_graphs.h"
#include "mem_manager/device_host_memory.h"
#include "mem_manager/device_streams.h"
#include "mem_manager/pinned.h"
#include "runtime/executor.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include <gtest/gtest.h>

namespace refactor::runtime {

namespace {

using mem_manager::Blob;

/// A device in host memory that knows which addresses are its own, and counts what is asked of it.
class TestDevice final : public mem_manager::Device {
    int ordinal_;
    std::map<char const*, size_t> blocks_;

    static TestDevice& of(void* handle) { return *static_cast<TestDevice*>(handle); }
    static int32_t create(void* device, void** stream, char*, size_t) {
        ++of(device).streams;
        *stream = device;
        return 0;
    }
    static void destroy(void* device, void*) { --of(device).streams; }
    static int32_t synchronize(void* device, void*, char* text, size_t bytes) {
        ++of(device).waits;
        if (!of(device).broken) return 0;
        std::strncpy(text, "an illegal address was accessed", bytes);
        return 700;
    }
    static int32_t from_host(void* device, void*, void* to, void const* from, size_t bytes, char*, size_t) {
        of(device).copy_from_host(to, from, bytes);
        return 0;
    }
    static int32_t to_host(void* device, void*, void* to, void const* from, size_t bytes, char*, size_t) {
        of(device).copy_to_host(to, from, bytes);
        return 0;
    }
    static int32_t within(void* device, void*, void* to, void const* from, size_t bytes, char*, size_t) {
        of(device).copy_within(to, from, bytes);
        return 0;
    }
    static int32_t begin(void* device, void*, char*, size_t) {
        of(device).recording = std::make_unique<Works>();
        return 0;
    }
    static int32_t end(void* device, void*, void** graph, char* text, size_t bytes) {
        *graph = of(device).recording.release();
        ++of(device).attempts;
        if (!of(device).refuses) return 0;
        delete static_cast<Works*>(*graph);
        std::strncpy(text, "operation not permitted", bytes);
        return 900;
    }
    static int32_t repeat(void* device, void*, void* graph, char*, size_t) {
        ++of(device).repeats;
        for (auto const& work : *static_cast<Works*>(graph)) work();
        return 0;
    }
    static void forget(void*, void* graph) { delete static_cast<Works*>(graph); }
    static int32_t pin(void*, size_t bytes, void** address, char*, size_t) {
        *address = std::malloc(bytes);
        return 0;
    }
    static void unpin(void*, void* address, size_t) { std::free(address); }
    void own(void const* address) const {
        if (!owns(address)) throw InternalError("the address is not of the device");
    }

public:
    using Works = std::vector<std::function<void()>>;
    int streams = 0, uploads = 0, downloads = 0, waits = 0, repeats = 0, attempts = 0;
    bool broken = false, refuses = false;
    std::unique_ptr<Works> recording;

    void perform(std::function<void()> work) {
        if (recording)
            recording->push_back(std::move(work));
        else
            work();
    }

    explicit TestDevice(int ordinal) : ordinal_(ordinal) {}
    std::string_view kind() const override { return "test"; }
    int ordinal() const override { return ordinal_; }
    std::string name() const override { return "test:" + std::to_string(ordinal_); }
    mem_manager::MemoryInfo memory() const override { return {}; }
    void* allocate(size_t bytes) override {
        if (!bytes) return nullptr;
        // As devices do: at a multiple of 64 bytes.
        auto* block = static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
        blocks_[block] = bytes;
        return block;
    }
    void deallocate(void* address, size_t) noexcept override {
        blocks_.erase(static_cast<char*>(address));
        std::free(address);
    }
    void copy_from_host(void* to, void const* from, size_t bytes) override {
        own(to), ++uploads;
        std::memcpy(to, from, bytes);
    }
    void copy_to_host(void* to, void const* from, size_t bytes) override {
        own(from), ++downloads;
        std::memcpy(to, from, bytes);
    }
    void copy_within(void* to, void const* from, size_t bytes) override {
        own(to), own(from);
        std::memmove(to, from, bytes);
    }
    void const* extension(std::string_view name) const override {
        static constexpr RefactorDeviceStreams kStreams{
            sizeof(RefactorDeviceStreams), create, destroy, synchronize, from_host, to_host, within};
        static constexpr RefactorDeviceGraphs kGraphs{sizeof(RefactorDeviceGraphs), begin, end, repeat, forget};
        static constexpr RefactorHostMemory kHostMemory{sizeof(RefactorHostMemory), pin, unpin, from_host, to_host};
        if (name == RG_GRAPHS_EXTENSION) return &kGraphs;
        if (name == RG_HOST_MEMORY_EXTENSION) return &kHostMemory;
        return name == RG_STREAMS_EXTENSION ? &kStreams : nullptr;
    }
    void* handle() const override { return const_cast<TestDevice*>(this); }

    bool owns(void const* address) const {
        auto const* a = static_cast<char const*>(address);
        auto block = blocks_.upper_bound(a);
        if (block == blocks_.begin()) return false;
        --block;
        return a < block->first + block->second;
    }
    size_t blocks() const { return blocks_.size(); }
};

/// y = x + c, where all three must be on the device of the stream.
class AddTask final : public Task {
    int64_t count_;

public:
    static constexpr float kUnlucky = 13;
    explicit AddTask(int64_t count) : count_(count) {}
    void run(void* const* arguments, RunContext const& context) const override {
        auto& device = *static_cast<TestDevice*>(context.stream);
        for (int i = 0; i < 3; ++i)
            if (!device.owns(arguments[i])) throw InvalidInput("argument " + std::to_string(i) + " is on the host");
        auto const *x = static_cast<float const*>(arguments[0]), *c = static_cast<float const*>(arguments[1]);
        device.perform([this, x, c, y = static_cast<float*>(arguments[2]), fault = context.fault] {
            for (int64_t i = 0; i < count_; ++i) {
                y[i] = x[i] + c[0];
                if (y[i] == kUnlucky) *fault = uint64_t{1} << 32 | static_cast<uint64_t>(i);
            }
        });
    }
};

/// y = (x + c) + c through the arena.
class RemotePlanner final : public Planner {
    std::vector<PortInfo> inputs_{{"x", DataType::F32, "[n]", {-1}, {"n"}}};
    std::vector<PortInfo> outputs_{{"y", DataType::F32, "[n]", {-1}, {"n"}}};
    std::string names_[4] = {"x", "c", "a", "y"}, type_ = "Add";
    float constant_ = 0.5f;
    std::map<mem_manager::Device*, std::shared_ptr<Blob>> copies_;

public:
    std::vector<PortInfo> const& inputs() const override { return inputs_; }
    std::vector<PortInfo> const& outputs() const override { return outputs_; }
    std::string const& node_name(uint32_t node) const override { return names_[node]; }
    std::string const& node_type(uint32_t) const override { return type_; }
    std::string const& edge_name(uint32_t edge) const override { return names_[edge]; }
    void to_plain(Tensor const&, void const*, void*) const override { FAIL() << "no tensor is blocked"; }
    std::string_view device_kind() const override { return "test"; }
    void const* constant_on(mem_manager::Device& device, Tensor const& tensor) override {
        auto& copy = copies_[&device];
        if (!copy) {
            copy = Blob::make(device, tensor.bytes);
            device.copy_from_host(copy->data(), tensor.address, tensor.bytes);
        }
        return copy->data();
    }
    std::shared_ptr<Plan const> plan(std::span<Dims const> dims) override {
        auto plan = std::make_shared<Plan>();
        auto n = dims[0][0];
        auto bytes = static_cast<size_t>(n) * sizeof(float);
        plan->tensors.push_back({Storage::Input, 0, 0, 0, nullptr, DataType::F32, true, {n}, bytes});
        plan->tensors.push_back(
            {Storage::Constant, 0, 1, 0, &constant_, DataType::F32, true, {}, sizeof(float), nullptr, true});
        plan->tensors.push_back({Storage::Arena, 0, 2, 0, nullptr, DataType::F32, true, {n}, bytes});
        plan->tensors.push_back({Storage::Output, 0, 3, 0, nullptr, DataType::F32, true, {n}, bytes});
        plan->arguments = {0, 1, 2, 2, 1, 3};
        plan->blocks = {{bytes, 0, 0, 1}};
        plan->arena_bytes = bytes;
        plan->kernel_ids = {"add:test:test:f32"};
        for (uint32_t i = 0; i < 2; ++i) {
            plan->tasks.push_back(std::make_unique<AddTask>(n));
            plan->steps.push_back({plan->tasks.back().get(), i, 0, 3 * i, 2, 1});
        }
        plan->workspace_blocks.assign(2, kNoTensor);
        plan->inputs = {0}, plan->outputs = {3};
        return plan;
    }
};

Value vector_of(std::initializer_list<float> values) {
    return {DataType::F32,
            {static_cast<int64_t>(values.size())},
            Blob::copy_of(values.begin(), values.size() * sizeof(float))};
}

std::vector<float> floats(Value const& value) {
    auto const* data = static_cast<float const*>(value.blob->data());
    return {data, data + element_count(value.dims)};
}

class RemoteExecutor : public testing::Test {
protected:
    TestDevice first{0}, second{1};
    std::shared_ptr<RemotePlanner> planner = std::make_shared<RemotePlanner>();
    ~RemoteExecutor() override { planner = nullptr; }
};

TEST_F(RemoteExecutor, KeepsEverythingOnTheDeviceAndFetchesOutputsOnce) {
    Executor executor(planner, "default", 1, &first);
    executor.set_input(0, vector_of({1, -2, 3}));
    executor.run();
    EXPECT_EQ(first.downloads, 0) << "outputs are fetched when they are read";
    EXPECT_EQ(first.uploads, 2) << "the input and the constant";
    EXPECT_GE(first.waits, 1);
    auto held = executor.output(0);
    EXPECT_EQ(floats(held), (std::vector<float>{2, -1, 4}));
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, -1, 4}));
    EXPECT_EQ(first.downloads, 1);
    executor.set_input(0, vector_of({7, 8, 9}));
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{8, 9, 10}));
    EXPECT_EQ(floats(held), (std::vector<float>{2, -1, 4})) << "a held output is not overwritten";
    EXPECT_EQ(first.uploads, 3) << "constants are copied once";
}

TEST_F(RemoteExecutor, SharesConstantsWithClonesAndFreesEverythingElse) {
    {
        Executor executor(planner, "default", 1, &first);
        executor.set_input(0, vector_of({1}));
        auto clone = executor.clone();
        EXPECT_EQ(&clone->device(), &first);
        executor.run(), clone->run();
        EXPECT_EQ(floats(clone->output(0)), (std::vector<float>{2}));
        EXPECT_EQ(first.uploads, 3);
        EXPECT_EQ(first.streams, 2);
    }
    EXPECT_EQ(first.streams, 0);
    EXPECT_EQ(first.blocks(), 1u) << "the constant belongs to the Program";
}

TEST_F(RemoteExecutor, DispatchKeepsInputsAndOutputs) {
    Executor executor(planner, "default", 1, &first);
    executor.set_input(0, vector_of({1, 2}));
    executor.run();
    executor.dispatch(second, "mru");
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3}));
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3}));
    EXPECT_EQ(second.downloads, 1);
    EXPECT_EQ(executor.allocator(), "mru");
    executor.dispatch(executor.device(), "default");
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3}));
    try {
        executor.dispatch(mem_manager::cpu_device(), "default");
        FAIL();
    } catch (Unsupported const& error) {
        EXPECT_NE(std::string(error.what()).find("compiled for devices of kind \"test\""), std::string::npos);
    }
    EXPECT_THROW(executor.dispatch(second, "fastest"), InvalidInput);
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3})) << "a refused dispatch changes nothing";
}

TEST_F(RemoteExecutor, UsesInputsThatAreOnTheDeviceAlready) {
    Executor executor(planner, "default", 1, &first);
    float values[] = {4, 5};
    Value value{DataType::F32, {2}, Blob::make(first, sizeof values)};
    first.copy_from_host(value.blob->data(), values, sizeof values);
    executor.set_input(0, value);
    executor.run();
    EXPECT_EQ(first.uploads, 2);
    executor.set_input(0, vector_of({-4, -5}));
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{-3, -4}));
    EXPECT_EQ(static_cast<float*>(value.blob->data())[0], 4) << "the caller's block is not written";
}

TEST_F(RemoteExecutor, TracesAndProfilesThroughTheHost) {
    Executor executor(planner, "default", 1, &first);
    executor.set_input(0, vector_of({1, 2}));
    std::vector<float> seen;
    executor.trace([&](uint32_t, std::string const&, TracedTensor const& tensor, bool) {
        EXPECT_FALSE(first.owns(tensor.data));
        seen.push_back(static_cast<float const*>(tensor.data)[0]);
    });
    EXPECT_EQ(seen, (std::vector<float>{1, 0.5, 1.5, 1.5, 0.5, 2}));
    first.waits = 0;
    EXPECT_EQ(executor.profile(2).size(), 2u);
    EXPECT_GE(first.waits, 4) << "every step is waited for";
}

TEST_F(RemoteExecutor, RepeatsTheWorkOfAPlanThatRunsAgain) {
    Executor executor(planner, "default", 1, &first);
    auto run = [&](std::initializer_list<float> x) {
        executor.set_input(0, vector_of(x));
        executor.run();
        return floats(executor.output(0));
    };
    EXPECT_EQ(run({1, 2}), (std::vector<float>{2, 3}));
    EXPECT_EQ(first.repeats, 0);
    EXPECT_EQ(run({5, 6}), (std::vector<float>{6, 7}));
    EXPECT_EQ(run({7, 8}), (std::vector<float>{8, 9}));
    EXPECT_EQ(first.repeats, 2);
    EXPECT_EQ(executor.recording_state(), "recorded");
    EXPECT_EQ(run({1, 2, 3}), (std::vector<float>{2, 3, 4})) << "a new shape";
    EXPECT_EQ(first.repeats, 2);
    executor.allow_recording(false);
    EXPECT_EQ(run({1, 2, 3}), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(first.repeats, 2);
    EXPECT_EQ(executor.recording_state(), "not allowed");
}

TEST_F(RemoteExecutor, GoesOnWithoutWhatCannotBeRecorded) {
    Executor executor(planner, "default", 1, &first);
    first.refuses = true;
    auto expect_state = [&](char const* state) {
        auto text = executor.recording_state();
        EXPECT_EQ(text.find(state), 0u) << text;
        EXPECT_NE(text.find("operation not permitted"), std::string::npos) << text;
    };
    for (float x : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}) {
        executor.set_input(0, vector_of({x}));
        executor.run();
        EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{x + 1}));
        if (x == 3) expect_state("not yet");
    }
    EXPECT_EQ(first.repeats, 0);
    EXPECT_EQ(first.attempts, 3);
    expect_state("cannot be recorded");
}

TEST_F(RemoteExecutor, RecordsAgainWhatOthersHaveSpoiled) {
    Executor executor(planner, "default", 1, &first);
    for (float x : {1.f, 2.f, 3.f}) {
        first.refuses = x == 2;
        executor.set_input(0, vector_of({x}));
        executor.run();
        EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{x + 1}));
    }
    EXPECT_EQ(first.repeats, 1);
    EXPECT_EQ(executor.recording_state(), "recorded");
}

TEST_F(RemoteExecutor, ThrowsWhatKernelsReport) {
    Executor executor(planner, "default", 1, &first);
    for (int i = 0; i < 3; ++i) {
        executor.set_input(0, vector_of({1, 2, 12.5f}));
        try {
            executor.run();
            FAIL();
        } catch (InvalidInput const& error) {
            EXPECT_EQ(std::string(error.what()), "Add node \"x\": index 2 is outside of the axis");
        }
        EXPECT_THROW(executor.output(0), InvalidInput) << "the run has no result";
        executor.set_input(0, vector_of({1, 2, 3}));
        executor.run();
        EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3, 4}));
    }
}

TEST_F(RemoteExecutor, CopiesPinnedMemoryItself) {
    Executor executor(planner, "default", 1, &first);
    auto input = vector_of({1, 2});
    auto pinned = mem_manager::make_pinned(first, input.blob->bytes());
    EXPECT_TRUE(pinned->is_pinned_for(second)) << "of the same kind";
    EXPECT_FALSE(input.blob->is_pinned_for(first));
    std::memcpy(pinned->data(), input.blob->data(), input.blob->bytes());
    input.blob = pinned;
    executor.set_input(0, input);
    executor.run();
    EXPECT_TRUE(executor.output(0).blob->is_pinned_for(first));
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2, 3}));
}

TEST_F(RemoteExecutor, ReportsWhatTheDeviceReports) {
    Executor executor(planner, "default", 1, &first);
    executor.set_input(0, vector_of({1}));
    first.broken = true;
    try {
        executor.run();
        FAIL();
    } catch (DeviceError const& error) {
        EXPECT_EQ(std::string(error.what()),
                  "test:0: stream.synchronize failed with code 700: an illegal address was accessed");
    }
    first.broken = false;
    executor.run();
    EXPECT_EQ(floats(executor.output(0)), (std::vector<float>{2}));
}

}  // namespace

}  // namespace refactor::runtime
