// Depthwise convolutions with the channels last on the emulated GPU, against sums in f64.
#include "cuda/conv_depthwise_source.h"
#include "cuda/device_test.h"
#include "cuda/kernels.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "mem_manager/blob.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;
using enum DataType;

constexpr unsigned kSeed = 20261127;

/// X [2 or 1, in…, channels], W [channels · multiplier, kernel…, 1].
struct Depthwise {
    DataType type = F16;
    int64_t batch = 1, channels = 8;
    Dims in = {}, kernel = {};
    Dims strides = {}, dilations = {}, pads_begin = {}, pads_end = {};  ///< ones and zeros where they are left out
    Epilogue epilogue = {};
    int64_t multiplier = 1;

    ConvInfo info() const {
        auto or_all = [&](Dims const& list, int64_t value) { return list.empty() ? Dims(in.size(), value) : list; };
        ConvInfo info;
        info.window = {or_all(strides, 1), or_all(dilations, 1), or_all(pads_begin, 0), or_all(pads_end, 0)};
        info.group = channels, info.epilogue = epilogue, info.channels_last = true;
        return info;
    }
    Dims out() const {
        auto const& window = info().window;
        Dims sizes;
        for (size_t i = 0; i < in.size(); ++i) {
            auto reach = (kernel[i] - 1) * window.dilations[i] + 1;
            sizes.push_back((in[i] + window.pads_begin[i] + window.pads_end[i] - reach) / window.strides[i] + 1);
        }
        return sizes;
    }
    Dims around(int64_t first, Dims const& spatial, int64_t last) const {
        Dims dims{first};
        for (auto size : spatial) dims.push_back(size);
        dims.push_back(last);
        return dims;
    }
    std::vector<Tensor> inputs(std::mt19937& random) const {
        auto outputs = channels * multiplier;
        std::vector<Tensor> all{numbers(type, around(batch, in, channels), random),
                                numbers(type, around(outputs, kernel, 1), random, 0.4)};
        if (epilogue.bias) all.push_back(numbers(type, {outputs}, random));
        if (epilogue.residual) all.push_back(numbers(type, y().dims, random));
        return all;
    }
    Tensor y() const { return {type, around(batch, out(), channels * multiplier)}; }
};

/// Sizes of two axes; the first is 1 if there is only one.
struct Plane {
    int64_t rows, columns;
    Plane(Dims const& sizes) : rows(sizes.size() > 1 ? sizes[sizes.size() - 2] : 1), columns(sizes.back()) {}
};

std::vector<double> expected(Depthwise const& c, std::vector<Tensor>& inputs) {
    auto x = reals(inputs[0]), w = reals(inputs[1]);
    std::vector<double> bias, residual, y;
    if (c.epilogue.bias) bias = reals(inputs[2]);
    if (c.epilogue.residual) residual = reals(inputs.back());
    auto const info = c.info();
    Plane in(c.in), kernel(c.kernel), out(c.out()), step(info.window.strides), dilation(info.window.dilations);
    Plane pad(info.window.pads_begin);
    if (c.in.size() == 1) pad.rows = 0;
    auto at = [](int64_t i) { return static_cast<size_t>(i); };
    auto sum_of = [&](int64_t n, int64_t row, int64_t column, int64_t channel) {
        double sum = 0;
        for (int64_t r = 0; r < kernel.rows; ++r)
            for (int64_t t = 0; t < kernel.columns; ++t) {
                auto i = row * step.rows - pad.rows + r * dilation.rows;
                auto j = column * step.columns - pad.columns + t * dilation.columns;
                if (i < 0 || i >= in.rows || j < 0 || j >= in.columns) continue;
                sum += x[at(((n * in.rows + i) * in.columns + j) * c.channels + channel)] *
                       w[at((channel * kernel.rows + r) * kernel.columns + t)];
            }
        return sum;
    };
    for (int64_t i = 0; i < c.batch * out.rows * out.columns * c.channels; ++i) {
        auto channel = i % c.channels, place = i / c.channels;
        auto sum = sum_of(place / out.columns / out.rows, place / out.columns % out.rows, place % out.columns, channel);
        if (c.epilogue.bias) sum += bias[at(channel)];
        auto more = c.epilogue.residual ? residual[at(i)] : 0;
        auto last = c.epilogue.residual_last;
        auto value = apply(c.epilogue.activation, static_cast<float>(last ? sum : sum + more));
        y.push_back(static_cast<double>(value) + (last ? more : 0));
    }
    return y;
}

MaybeKernel kernel_of(ConvInfo const& info, std::vector<Tensor>& inputs, Tensor const& y, mem_manager::Device& device) {
    std::vector<Operand> in, out{{y, nullptr}};
    for (auto const& t : inputs) in.push_back({t, nullptr});
    // Known weights and biases for some.
    if (y.dims[0] == 1)
        for (size_t i = 1; i < in.size() - info.epilogue.residual; ++i)
            in[i].constant = mem_manager::Blob::copy_of(inputs[i].data(), inputs[i].bytes());
    return conv_depthwise(info, Request{in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &device});
}

MaybeTask task_of(Kernel const& kernel, std::vector<Tensor> const& inputs, Tensor const& y) {
    std::vector<TensorDesc const*> in, out{&y};
    for (auto const& t : inputs) in.push_back(&t);
    PackCache packs;
    BindArgs args{in, out, {}, packs, 1};
    if (auto cost = kernel.estimate(args); !cost) return Err{cost.error()};
    return kernel.bind(args);
}

/// Why there is no kernel.
std::string refusal(Depthwise const& c, ConvInfo const& info) {
    std::mt19937 random(kSeed);
    auto inputs = c.inputs(random);
    auto y = c.y();
    auto kernel = kernel_of(info, inputs, y, emulated());
    if (!kernel) return kernel.error().reason;
    auto task = task_of(**kernel, inputs, y);
    return task ? "" : task.error().reason;
}

void check(Depthwise const& c, std::mt19937& random) {
    auto inputs = c.inputs(random);
    auto y = c.y();
    auto where = c.info().attributes() + " X " + movement::to_string(inputs[0].dims) + " W " +
                 movement::to_string(inputs[1].dims) + " " + std::string(name_of(c.type));
    auto kernel = kernel_of(c.info(), inputs, y, emulated());
    ASSERT_TRUE(kernel.ok()) << where << kernel.error().reason;
    auto task = task_of(**kernel, inputs, y);
    ASSERT_TRUE(task.ok()) << where << task.error().reason;
    auto wanted = expected(c, inputs);
    std::vector<std::unique_ptr<DeviceCopy>> memory;
    std::vector<void*> arguments;
    inputs.push_back(y);
    for (auto& t : inputs) {
        memory.push_back(std::make_unique<DeviceCopy>(emulated(), t.data(), t.bytes()));
        arguments.push_back(memory.back()->data());
    }
    static ThreadPool pool(1);
    mem_manager::Stream stream(emulated());
    (*task)->run(arguments.data(), {pool, nullptr, stream.native()});
    stream.synchronize();
    memory.back()->read(y.data(), y.bytes());
    auto actual = reals(y);
    auto tolerance = sum_tolerance(c.type, element_count(c.kernel));
    for (size_t i = 0; i < wanted.size(); ++i)
        ASSERT_LE(std::abs(actual[i] - wanted[i]), tolerance * std::max(1., std::abs(wanted[i])))
            << where << ", element " << i << ": " << actual[i] << ", expected " << wanted[i];
}

Epilogue epilogue(ActivationKind kind, bool bias, bool residual = false, bool last = false) {
    return {{kind, kind == ActivationKind::Clip ? -0.5f : 0, 1.5f}, bias, residual, last};
}

/// Odd channels, vectors of each width, windows and strips of each kind, and each epilogue.
std::vector<Depthwise> cases() {
    using enum ActivationKind;
    std::vector<Depthwise> all;
    for (auto type : {F16, BF16, F32}) {
        for (int64_t channels : {1, 3, 4, 8, 10, 24, 96, 104, 264})
            all.push_back({type, 2, channels, {7, 9}, {3, 3}, {}, {}, {1, 1}, {1, 1}});
        all.push_back({type, 1, 32, {9, 11}, {3, 3}, {2, 2}, {}, {0, 0}, {1, 1}, epilogue(Relu, true)});
        all.push_back({type, 1, 24, {9, 10}, {3, 3}, {2, 1}, {}, {1, 0}, {0, 2}, epilogue(Clip, true)});
        all.push_back({type, 2, 16, {9, 10}, {3, 3}, {1, 2}, {}, {1, 1}, {1, 1}, epilogue(Silu, true, true)});
        all.push_back({type, 1, 8, {12, 13}, {3, 3}, {}, {2, 2}, {2, 2}, {2, 2}, epilogue(Relu, false, true, true)});
        all.push_back({type, 1, 8, {12, 13}, {3, 2}, {2, 1}, {1, 3}, {5, 4}, {0, 6}, epilogue(Tanh, true, true, true)});
        all.push_back({type, 1, 40, {8, 7}, {5, 5}, {}, {}, {2, 2}, {2, 2}});
        all.push_back({type, 1, 8, {8, 7}, {5, 5}, {2, 2}, {}, {2, 1}, {1, 2}});
        all.push_back({type, 1, 8, {11, 12}, {7, 7}, {}, {}, {3, 3}, {3, 3}, epilogue(GeluErf, true)});
        all.push_back({type, 1, 8, {11, 12}, {9, 9}, {}, {}, {4, 4}, {4, 4}});
        all.push_back({type, 1, 12, {6, 9}, {1, 7}, {}, {}, {0, 3}, {0, 3}, epilogue(HardSwish, true)});
        all.push_back({type, 1, 12, {9, 6}, {7, 1}, {}, {}, {3, 0}, {3, 0}});
        all.push_back({type, 2, 20, {19}, {4}, {}, {}, {3}, {0}, epilogue(Silu, true)});
        all.push_back({type, 1, 8, {5, 6}, {2, 2}, {3, 3}});
        // Enough outputs for strips of two and of four, also at the end of a row, and of a stride.
        all.push_back({type, 3, 64, {57, 55}, {3, 3}, {}, {}, {1, 1}, {1, 1}, epilogue(Clip, true, true, true)});
        all.push_back({type, 4, 96, {60, 61}, {3, 3}, {}, {}, {1, 1}, {1, 1}, epilogue(Relu, true, true)});
        all.push_back({type, 2, 96, {113, 99}, {3, 3}, {2, 2}, {}, {1, 1}, {1, 1}});
        all.push_back({type, 4, 64, {57, 50}, {5, 5}, {2, 2}, {}, {2, 2}, {2, 2}});
        all.push_back({type, 4, 96, {29, 31}, {7, 7}, {}, {}, {3, 3}, {3, 3}});
    }
    return all;
}

TEST(CudaDepthwise, EqualsSumsInF64) {
    std::mt19937 random(kSeed);
    for (auto const& c : cases()) check(c, random);
}

TEST(CudaDepthwise, DeclinesWhatItIsNotFor) {
    Depthwise c{F16, 1, 8, {6, 7}, {3, 3}};
    EXPECT_EQ(refusal(c, c.info()), "");
    auto front = c.info();
    front.channels_last = false;
    EXPECT_EQ(refusal(c, front), "the channels are in front");
    c.multiplier = 2;
    EXPECT_EQ(refusal(c, c.info()), "several channels in a group");
    EXPECT_EQ(refusal({F64, 1, 8, {6, 7}, {3, 3}}, c.info()), "dtype f64, expected f32, f16 or bf16");
    Depthwise large{F16, 1, 8, {6, 12}, {3, 10}}, deep{F16, 1, 8, {4, 6, 5}, {3, 3, 3}};
    EXPECT_EQ(refusal(large, large.info()), "a window of 10 taps along an axis, at most 9");
    EXPECT_EQ(refusal(deep, deep.info()), "a window over 3 axes");
}

TEST(CudaPlugin, CompilesDepthwise) {
    SourceCollector collector;
    std::mt19937 random(kSeed);
    for (auto const& c : cases()) {
        auto inputs = c.inputs(random);
        auto y = c.y();
        auto kernel = kernel_of(c.info(), inputs, y, collector);
        ASSERT_TRUE(kernel.ok()) << kernel.error().reason;
        EXPECT_TRUE(task_of(**kernel, inputs, y).ok());
    }
    std::string all;
    for (auto const& source : collector.sources) all += source;
    for (auto const* strip : {"kOutputs = 1;", "kOutputs = 2;", "kOutputs = 4;"})
        EXPECT_NE(all.find(strip), all.npos) << strip;
    for (auto type : {F16, BF16, F32}) {
        DepthwiseKind kind;
        kind.dtype = type, kind.wide = true, kind.rows = kind.taps = 3, kind.vector = kind.run = 4, kind.lanes = 8;
        collector.sources.insert(depthwise_source(kind));
    }
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
