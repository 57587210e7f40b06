// Procedures on an emulated GPU against those of the host, and their code through NVRTC.
#include "common/error.h"
#include "common/thread_pool.h"
#include "cuda/plugin_compiler.h"
#include "kernel/procedures/select.h"
#include "kernel/procedures/sequence.h"
#include "mem_manager/blob.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace refactor::kernel::cuda {

namespace {

using mem_manager::Device;
using runtime::Value;
using testing::emulated;

constexpr unsigned kSeed = 20261121;

/// The emulated GPU, whose sources are kept.
class Recorder final : public Device {
    Device& device_ = emulated();

public:
    static inline std::set<std::string> sources;
    static inline RefactorDeviceKernels const* kernels = nullptr;

    std::string_view kind() const override { return device_.kind(); }
    int ordinal() const override { return device_.ordinal(); }
    std::string name() const override { return device_.name(); }
    mem_manager::MemoryInfo memory() const override { return device_.memory(); }
    void* allocate(size_t bytes) override { return device_.allocate(bytes); }
    void deallocate(void* address, size_t bytes) noexcept override { device_.deallocate(address, bytes); }
    void copy_from_host(void* to, void const* host, size_t bytes) override { device_.copy_from_host(to, host, bytes); }
    void copy_to_host(void* host, void const* from, size_t bytes) override { device_.copy_to_host(host, from, bytes); }
    void copy_within(void* to, void const* from, size_t bytes) override { device_.copy_within(to, from, bytes); }
    void* handle() const override { return device_.handle(); }
    void const* extension(std::string_view name) const override {
        auto const* table = device_.extension(name);
        if (name != RG_KERNELS_EXTENSION) return table;
        kernels = static_cast<RefactorDeviceKernels const*>(table);
        static RefactorDeviceKernels recording = *kernels;
        recording.load = [](void* device, char const* source, char const* function, void** loaded, char* text,
                            size_t bytes) {
            sources.insert(source);
            return kernels->load(device, source, function, loaded, text, bytes);
        };
        return &recording;
    }
};

Recorder& recorder() {
    static Recorder device;
    return device;
}

/// A tensor on the host of numbers that `draw` gives.
template <class Draw>
Value tensor(DataType dtype, Dims dims, Draw&& draw) {
    Value value;
    auto count = element_count(std::as_const(dims));
    auto* data = value.resize(dtype, dims);
    std::vector<double> numbers(static_cast<size_t>(count));
    for (auto& number : numbers) number = draw();
    EXPECT_TRUE(convert(DataType::F64, numbers.data(), dtype, data, count));
    return value;
}

Value integers(std::vector<int64_t> const& numbers, Dims dims) {
    Value value;
    std::copy(numbers.begin(), numbers.end(), static_cast<int64_t*>(value.resize(DataType::I64, dims)));
    return value;
}

Value on_device(Value const& value) {
    auto copy = value;
    copy.blob = mem_manager::Blob::make(recorder(), value.blob->bytes());
    recorder().copy_from_host(copy.blob->data(), value.blob->data(), value.blob->bytes());
    return copy;
}

void expect_equal(Value const& actual, Value const& expected, std::string const& where) {
    ASSERT_EQ(describe(actual), describe(expected)) << where;
    if (expected.kind == runtime::ValueKind::Sequence) {
        for (size_t i = 0; i < expected.contents->elements.size(); ++i)
            expect_equal(actual.contents->elements[i], expected.contents->elements[i], where);
        return;
    }
    auto host = on_host(actual);
    ASSERT_TRUE(
        std::equal(host.data<std::byte>(), host.data<std::byte>() + expected.blob->bytes(), expected.data<std::byte>()))
        << where;
}

struct Both {
    ProcedurePtr host, device;

    /// Runs twice on the device: with operands there, then with those of the host.
    void operator()(std::vector<Value> const& operands, size_t outputs, std::string const& where) const {
        ASSERT_EQ(host->device_kind(), "cpu");
        ASSERT_EQ(device->device_kind(), "nvidia") << where;
        static auto const pool = std::make_shared<ThreadPool>(1);
        static std::string const allocator = "default";
        std::vector<Value> there, expected(outputs), actual(outputs);
        std::vector<Value const*> here;
        for (auto const& value : operands) here.push_back(value.unset() ? nullptr : &value);
        host->call(here, expected, {pool, {}, nullptr, allocator});
        auto state = device->make_state();
        for (bool resident : {true, false}) {
            there.clear();
            for (auto const& value : operands) there.push_back(resident && value.blob ? on_device(value) : value);
            std::vector<Value const*> inputs;
            for (auto const& value : there) inputs.push_back(value.unset() ? nullptr : &value);
            device->call(inputs, actual, {pool, {}, state.get(), allocator, &recorder()});
            for (size_t i = 0; i < outputs; ++i)
                expect_equal(actual[i], expected[i], where + ", output " + std::to_string(i));
        }
    }
};

std::string text_of(DataType dtype, Value const& x) {
    return std::string(name_of(dtype)) + ", x " + describe(x) + ", seed " + std::to_string(kSeed);
}

auto sparse(std::mt19937& random, double share) {
    return [&random, share] {
        std::uniform_real_distribution<double> uniform(0, 1);
        return uniform(random) < share ? 1. + std::floor(uniform(random) * 3) : uniform(random) < 0.5 ? 0. : -0.;
    };
}

constexpr DataType kTypes[]{DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8,
                            DataType::I16, DataType::I32, DataType::I64, DataType::U8,   DataType::Bool};

void nonzero_cases() {
    std::mt19937 random(kSeed);
    for (auto dtype : kTypes)
        for (auto const& dims : {Dims{}, Dims{0, 3}, Dims{7}, Dims{3, 5, 2}, Dims{2, 4099}, Dims{1, 1, 9001, 1, 3}}) {
            auto x = tensor(dtype, dims, sparse(random, dims.size() == 1 ? 0 : 0.3));
            Both{make_nonzero(dtype, nullptr), make_nonzero(dtype, &recorder())}({x}, 1, text_of(dtype, x));
        }
}

void compress_cases() {
    std::mt19937 random(kSeed);
    for (auto dtype : kTypes)
        for (auto axis : {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(-1)})
            for (int64_t shorter : {0, 2}) {
                auto x = tensor(dtype, {5, 3, 7}, sparse(random, 0.9));
                auto size = (axis ? *axis ? 7 : 5 : 105) - shorter;
                auto condition = tensor(DataType::Bool, {size}, sparse(random, 0.5));
                Both{make_compress(dtype, axis, nullptr), make_compress(dtype, axis, &recorder())}({x, condition}, 1,
                                                                                                   text_of(dtype, x));
            }
    auto x = tensor(DataType::F32, {3}, sparse(random, 1)), condition = tensor(DataType::Bool, {6}, [] { return 1.; });
    Both both{make_compress(DataType::F32, {}, nullptr), make_compress(DataType::F32, {}, &recorder())};
    std::vector<Value> outputs(1);
    std::vector<Value const*> inputs{&x, &condition};
    auto pool = std::make_shared<ThreadPool>(1);
    auto state = both.device->make_state();
    try {
        both.device->call(inputs, outputs, {pool, {}, state.get(), "default", &recorder()});
        FAIL();
    } catch (InvalidInput const& error) {
        EXPECT_EQ(error.message(), "the condition asks for element 5, x has 3");
    }
}

void unique_cases() {
    std::mt19937 random(kSeed);
    auto few = [&] { return static_cast<double>(random() % 4); };
    for (auto dtype : kTypes)
        for (bool sorted : {true, false})
            for (auto const& [dims, axis] : std::vector<std::pair<Dims, std::optional<int64_t>>>{
                     {{5, 7}, {}}, {{0}, {}}, {{2500}, {}}, {{9, 2}, 0}, {{2, 8, 1}, 1}, {{3, 1, 41}, -1}}) {
                auto x = tensor(dtype, dims, few);
                for (size_t outputs : {1u, 4u})
                    Both{make_unique(dtype, axis, sorted, nullptr), make_unique(dtype, axis, sorted, &recorder())}(
                        {x}, outputs, text_of(dtype, x) + (sorted ? ", sorted" : ""));
            }
    auto x = tensor(DataType::F32, {9}, [&] { return random() % 2 ? NAN : static_cast<double>(random() % 3) - 1; });
    Both{make_unique(DataType::F32, {}, true, nullptr), make_unique(DataType::F32, {}, true, &recorder())}({x}, 4,
                                                                                                           "with NaN");
}

void suppression_cases() {
    std::mt19937 random(kSeed);
    std::uniform_real_distribution<double> uniform(0, 1);
    auto draw = [&] { return uniform(random); };
    for (bool center : {false, true})
        for (auto const& [boxes, most, overlap, score] : std::vector<std::tuple<int64_t, int64_t, double, double>>{
                 {50, 5, 0.3, 0.4}, {7, 100, 0, -1}, {300, 30, 0.5, 0.9}, {3, 0, 0.5, 0.5}, {1100, 50, 0.9, 0.2}}) {
            std::vector<Value> operands{
                tensor(DataType::F32, {2, boxes, 4}, draw),
                tensor(DataType::F32, {2, 3, boxes}, [&] { return std::round(draw() * 64) / 64; }),
                integers({most}, {1}),
                tensor(DataType::F32, {1}, [&, o = overlap] { return o; }),
                {}};
            if (score >= 0) operands[4] = tensor(DataType::F32, {}, [s = score] { return s; });
            Both{make_non_max_suppression(center, nullptr), make_non_max_suppression(center, &recorder())}(
                operands, 1, std::to_string(boxes) + " boxes, seed " + std::to_string(kSeed));
        }
}

void open_size_cases() {
    std::mt19937 random(kSeed);
    auto x = tensor(DataType::F16, {7, 5, 9}, sparse(random, 0.9));
    Both slice{make_slice(DataType::F16, 3, nullptr), make_slice(DataType::F16, 3, &recorder())};
    slice({x, integers({1, -1}, {2}), integers({100, INT64_MIN}, {2}), integers({0, 2}, {2}), integers({3, -2}, {2})},
          1, "two axes");
    slice({x, integers({4}, {1}), integers({2}, {1})}, 1, "nothing");
    slice({x, integers({2}, {1}), integers({9}, {1}), {}, integers({INT64_MAX}, {1})}, 1, "a wide step");
    Both range{make_range(DataType::F32, nullptr), make_range(DataType::F32, &recorder())};
    for (auto const& [start, limit, delta] :
         {std::array{0., 5., 0.3}, std::array{5., -2., -0.7}, std::array{1., 1., 1.}}) {
        std::vector<Value> operands;
        for (auto number : {start, limit, delta})
            operands.push_back(tensor(DataType::F32, {}, [number] { return number; }));
        range(operands, 1, "from " + std::to_string(start));
    }
}

void sequence_cases() {
    std::mt19937 random(kSeed);
    for (auto dtype : {DataType::F32, DataType::I8, DataType::F64})
        for (bool new_axis : {false, true}) {
            auto x = tensor(dtype, {3, 40, 2}, sparse(random, 0.9));
            auto split = [&](Device* place) { return make_split_to_sequence(dtype, 1, false, place); };
            auto join = [&](Device* place) { return make_concat_from_sequence(dtype, -1, new_axis, place); };
            Both{split(nullptr), split(&recorder())}({x, {}}, 1, text_of(dtype, x));
            Both{split(nullptr), split(&recorder())}({x, integers({7}, {})}, 1, text_of(dtype, x));
            for (size_t count : {1u, 3u, 16u, 17u, 40u}) {
                std::vector<Value> parts;
                for (size_t i = 0; i < count; ++i)
                    parts.push_back(tensor(dtype, {3, new_axis ? 2 : static_cast<int64_t>(i % 3)}, sparse(random, 1)));
                Both{join(nullptr), join(&recorder())}({Value::sequence(parts)}, 1, std::to_string(count) + " parts");
            }
        }
}

TEST(CudaSelects, FindsWhatIsNotZero) { nonzero_cases(); }
TEST(CudaSelects, Compresses) { compress_cases(); }
TEST(CudaSelects, FindsWhatIsDistinct) { unique_cases(); }
TEST(CudaSelects, SuppressesBoxes) { suppression_cases(); }
TEST(CudaSelects, SlicesAndCountsByData) { open_size_cases(); }
TEST(CudaSelects, CutsAndJoinsSequences) { sequence_cases(); }

TEST(CudaSelects, DeclinesWhatItHasNoCodeFor) {
    EXPECT_EQ(make_nonzero(DataType::String, &recorder())->device_kind(), "cpu");
    EXPECT_EQ(make_unique(DataType::String, {}, true, &recorder())->device_kind(), "cpu");
    EXPECT_EQ(make_compress(DataType::String, {}, &recorder())->device_kind(), "cpu");
    EXPECT_EQ(make_slice(DataType::String, 2, &recorder())->device_kind(), "cpu");
    EXPECT_EQ(make_split_to_sequence(DataType::String, 0, true, &recorder())->device_kind(), "cpu");
}

TEST(CudaPlugin, CompilesSelects) {
    std::string why;
    if (!testing::built_plugin(why)) GTEST_SKIP() << why;
    if (Recorder::sources.empty())
        nonzero_cases(), compress_cases(), unique_cases(), suppression_cases(), open_size_cases(), sequence_cases();
    testing::compile_all(Recorder::sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
