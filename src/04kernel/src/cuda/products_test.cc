// Products with weights of fewer bits, and of rows that are normalised first, on the emulated GPU, each algorithm by
// itself, against sums in f64.
#include "common/half.h"
#include "cuda/device_test.h"
#include "cuda/kernels.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "kernel/ops/normalized_matmul.h"
#include "mem_manager/blob.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;
using enum DataType;

constexpr unsigned kSeed = 20261122;

std::vector<float> floats_of(Tensor& t) {
    std::vector<float> values(static_cast<size_t>(t.count()));
    convert(t.dtype, t.data(), F32, values.data(), t.count());
    return values;
}

Tensor rounded(DataType type, Dims dims, std::vector<float> const& values) {
    Tensor t(type, dims);
    convert(F32, values.data(), type, t.data(), t.count());
    return t;
}

struct Product {
    MatMulInfo info;
    std::optional<LayerNormInfo> norm;
    std::vector<Tensor> inputs;
    Tensor y;

    /// A [m, k] of type `a`, weights of type `b` with values of about 1, with their scales.
    Product(DataType a, DataType b, int64_t m, int64_t k, int64_t n, bool trans_b, bool one_scale, std::mt19937& random)
        : y(a, {m, n}) {
        info.trans_b = trans_b, info.scaled = bits_of(b) == 8;
        Dims dims = trans_b ? Dims{n, k} : Dims{k, n};
        auto wide = numbers(F32, dims, random);
        auto values = floats_of(wide);
        if (b == I8)
            for (auto& value : values) value = std::round(std::clamp(value * 40, -127.f, 127.f));
        inputs = {numbers(a, {m, k}, random), rounded(b, dims, values)};
        if (!info.scaled) return;
        Tensor scales(F32, {n});
        for (int64_t i = 0; i < n; ++i)
            scales.as<float>()[i] = one_scale ? 0.37f : 0.2f + 0.01f * static_cast<float>(random() % 32);
        inputs.push_back(scales);
    }
    void add_epilogue(ActivationKind activation, std::mt19937& random) {
        info.epilogue.bias = info.epilogue.residual = true, info.epilogue.activation.kind = activation;
        inputs.push_back(numbers(y.dtype, {y.dims[1]}, random));
        inputs.push_back(numbers(y.dtype, y.dims, random));
    }

    /// Rows are normalised first, with a bias unless by `rms`.
    void add_norm(bool rms, std::mt19937& random) {
        norm = LayerNormInfo{1, 1e-3f, rms, !rms, false};
        for (int i = 0; i < 2 - rms; ++i) inputs.push_back(numbers(y.dtype, {inputs[0].dims[1]}, random));
    }
    /// A as the product takes it, before it is rounded.
    std::vector<float> rows() {
        auto a = floats_of(inputs[0]);
        if (!norm) return a;
        auto count = NormalizedMatMulInfo{*norm, info}.product_inputs();
        auto scale = floats_of(inputs[count]), bias = norm->has_bias ? floats_of(inputs[count + 1]) : scale;
        auto k = scale.size();
        for (size_t first = 0; first < a.size(); first += k) {
            double mean = 0, square = 0;
            for (size_t i = 0; i < k && !norm->rms; ++i) mean += static_cast<double>(a[first + i]);
            mean /= static_cast<double>(k);
            for (size_t i = 0; i < k; ++i) square += std::pow(static_cast<double>(a[first + i]) - mean, 2);
            auto factor = 1 / std::sqrt(square / static_cast<double>(k) + static_cast<double>(norm->epsilon));
            for (size_t i = 0; i < k; ++i) {
                auto& x = a[first + i];
                x = static_cast<float>((static_cast<double>(x) - mean) * factor * static_cast<double>(scale[i]));
                if (norm->has_bias) x += bias[i];
            }
        }
        return a;
    }

    /// Operands as a compiler gives them: weights, scales and what normalises are constants.
    std::vector<Operand> operands() {
        std::vector<Operand> result;
        auto count = NormalizedMatMulInfo{{}, info}.product_inputs();
        for (size_t i = 0; i < inputs.size(); ++i) {
            bool constant = i == 1 || (i == 2 && info.scaled) || i >= count;
            result.push_back(
                {inputs[i], constant ? mem_manager::Blob::copy_of(inputs[i].data(), inputs[i].bytes()) : nullptr});
        }
        return result;
    }
    Candidates candidates_on(mem_manager::Device& device, Precision precision) {
        auto in = operands();
        std::vector<Operand> out{{y, nullptr}};
        Request request{in, out, "nvidia", Isa::Scalar, 1, precision, &device};
        return norm ? candidates(NormalizedMatMulInfo{*norm, info}, request) : candidates(info, request);
    }
};

/// Runs the candidate whose id begins so.
void run(Product& p, Candidates& found, std::string const& id, mem_manager::Device& device) {
    auto it =
        std::find_if(found.kernels.begin(), found.kernels.end(), [&](auto& k) { return k->id().starts_with(id); });
    std::string reasons;
    for (auto const& rejection : found.rejections) reasons += rejection.reason + '\n';
    ASSERT_NE(it, found.kernels.end()) << id << '\n' << reasons;
    std::vector<TensorDesc const*> in, out{&p.y};
    for (auto const& t : p.inputs) in.push_back(&t);
    PackCache packs;
    BindArgs args{in, out, {}, packs, 1};
    EXPECT_TRUE((*it)->estimate(args).ok());
    auto task = (*it)->bind(args);
    ASSERT_TRUE(task.ok()) << (*it)->id() << ": " << task.error().reason;
    std::vector<std::unique_ptr<DeviceCopy>> memory;
    std::vector<void*> arguments;
    p.inputs.push_back(p.y);
    for (auto& t : p.inputs) {
        memory.push_back(std::make_unique<DeviceCopy>(device, t.data(), t.bytes()));
        arguments.push_back(memory.back()->data());
    }
    p.inputs.pop_back();
    DeviceCopy workspace(device, nullptr, (*task)->workspace_bytes());
    static ThreadPool pool(1);
    mem_manager::Stream stream(device);
    (*task)->run(arguments.data(), {pool, static_cast<std::byte*>(workspace.data()), stream.native()});
    stream.synchronize();
    memory.back()->read(p.y.data(), p.y.bytes());
}

/// What A becomes as f8e4m3fn with one scale, as numbers.
std::vector<float> through_f8(std::vector<float> values) {
    float most = 0;
    for (auto value : values) most = std::max(most, std::isfinite(value) ? std::abs(value) : 0);
    auto scale = most / 448;
    for (auto& value : values) value = f32_from_f8(F8E4M3FN, f8_from_f32(F8E4M3FN, value * (448 / most))) * scale;
    return values;
}

/// `step`: what may be lost by rounding an operand, relative to it.
void expect_product(Product& p, std::vector<float> const& a, double step, std::string const& where) {
    auto m = p.y.dims[0], n = p.y.dims[1], k = p.inputs[0].dims[1];
    auto b = floats_of(p.inputs[1]), y = floats_of(p.y);
    std::vector<std::vector<float>> more;
    for (size_t i = 2; i < p.inputs.size(); ++i) more.push_back(floats_of(p.inputs[i]));
    auto type = p.y.dtype;
    auto unit = type == F32 ? 0x1p-24 : type == F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (int64_t l = 0; l < k; ++l) {
                auto w = b[static_cast<size_t>(p.info.trans_b ? j * k + l : l * n + j)];
                auto term = static_cast<double>(a[static_cast<size_t>(i * k + l)]) * static_cast<double>(w);
                sum += term, magnitude += std::abs(term);
            }
            size_t next = 0;
            auto at = [&](int64_t place) { return static_cast<double>(more[next++][static_cast<size_t>(place)]); };
            if (p.info.scaled) {
                auto scale = at(j);
                sum *= scale, magnitude *= scale;
            }
            if (p.info.epilogue.bias) sum += at(j);
            if (p.info.epilogue.residual) sum += at(i * n + j);
            if (p.info.epilogue.activation.kind == ActivationKind::Relu) sum = std::max(sum, 0.);
            // An epilogue behind the product rounds twice.
            auto allowed =
                step * magnitude + static_cast<double>(k) * 0x1p-23 * magnitude + 3 * unit * (std::abs(sum) + 4);
            auto actual = static_cast<double>(y[static_cast<size_t>(i * n + j)]);
            ASSERT_LE(std::abs(actual - sum), allowed)
                << where << ", " << i << ", " << j << ": " << actual << ", " << sum;
        }
}

std::vector<std::pair<DataType, DataType>> const kPairs{{F32, F16},      {F32, BF16},      {F32, I8},
                                                        {F32, F8E4M3FN}, {F32, F8E5M2},    {F16, I8},
                                                        {F16, F8E4M3FN}, {BF16, F8E4M3FN}, {BF16, I8}};

std::string text_of(DataType type) { return std::string(refactor::name_of(type)); }

TEST(CudaProducts, WidenWeights) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    for (auto [a, b] : kPairs)
        for (bool trans_b : {false, true})
            for (bool follows : {false, true})
                for (auto const* algorithm : {"few_rows", "tiled", "widened"}) {
                    Product p(a, b, follows ? 5 : 8, 35, 41, trans_b, false, random);
                    if (follows) p.add_epilogue(ActivationKind::Relu, random);
                    auto id = std::string("matmul:nvidia:") + algorithm + ':' + text_of(a) + '_' + text_of(b);
                    auto found = p.candidates_on(device, Precision::Default);
                    run(p, found, id, device);
                    // Widening for the library rounds weights times scales to the type of A.
                    auto step = *algorithm == 'w' && a != F32 ? a == F16 ? 0x1p-11 : 0x1p-8 : 0;
                    expect_product(p, floats_of(p.inputs[0]), step, id);
                    if (HasFatalFailure()) return;
                }
}

TEST(CudaProducts, RoundToF8) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    for (auto a : {F16, BF16})
        for (auto activation : {ActivationKind::None, ActivationKind::Relu})
            for (int64_t m : {1, 37}) {
                Product p(a, F8E4M3FN, m, 64, 48, true, true, random);
                if (activation != ActivationKind::None) p.add_epilogue(activation, random);
                auto found = p.candidates_on(device, Precision::F8);
                run(p, found, "matmul:nvidia:cublaslt_f8:" + text_of(a), device);
                expect_product(p, through_f8(floats_of(p.inputs[0])), 0, text_of(a));
                if (HasFatalFailure()) return;
            }
}

TEST(CudaProducts, F8KeepsWhatIsNotFiniteInItsRow) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    Product p(BF16, F8E4M3FN, 4, 32, 16, true, true, random);
    auto values = floats_of(p.inputs[0]);
    values[32 + 5] = INFINITY, values[64 + 7] = NAN;
    for (size_t i = 96; i < 128; ++i) values[i] = 0;
    p.inputs[0] = rounded(BF16, {4, 32}, values);
    auto found = p.candidates_on(device, Precision::F8);
    run(p, found, "matmul:nvidia:cublaslt_f8", device);
    auto y = floats_of(p.y);
    for (size_t j = 0; j < 16; ++j) {
        EXPECT_TRUE(std::isfinite(y[j]));
        EXPECT_FALSE(std::isfinite(y[16 + j]));
        EXPECT_TRUE(std::isnan(y[32 + j]));
        EXPECT_EQ(y[48 + j], 0);
    }
    std::fill(values.begin(), values.end(), 0.f);
    p.inputs[0] = rounded(BF16, {4, 32}, values);
    run(p, found, "matmul:nvidia:cublaslt_f8", device);
    for (auto value : floats_of(p.y)) EXPECT_EQ(value, 0);
}

TEST(CudaProducts, F8IsRefusedWithAReason) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    auto reason = [&](Product p, Precision precision = Precision::F8) {
        for (auto const& rejection : p.candidates_on(device, precision).rejections)
            if (rejection.reason.starts_with("matmul:nvidia:cublaslt_f8")) return rejection.reason;
        return std::string("accepted");
    };
    EXPECT_EQ(reason({F16, F8E4M3FN, 3, 32, 16, true, true, random}), "accepted");
    auto contains = [](std::string const& text, char const* part) { return text.find(part) != std::string::npos; };
    EXPECT_TRUE(contains(reason({F16, F8E4M3FN, 3, 32, 16, true, true, random}, Precision::Default), "not to be"));
    EXPECT_TRUE(contains(reason({F32, F8E4M3FN, 3, 32, 16, true, true, random}), "f8e4m3fn with f32"));
    EXPECT_TRUE(contains(reason({F16, I8, 3, 32, 16, true, true, random}), "i8 with f16"));
    EXPECT_TRUE(contains(reason({F16, F8E4M3FN, 3, 32, 16, true, false, random}), "one scale"));
    EXPECT_TRUE(contains(reason({F16, F8E4M3FN, 3, 32, 16, false, true, random}), "B transposed"));
    EXPECT_TRUE(contains(reason({F16, F8E4M3FN, 3, 40, 16, true, true, random}), "multiples of 16"));
    EXPECT_TRUE(contains(reason({F16, F8E4M3FN, 3, 32, 17, true, true, random}), "multiples of 16"));
}

TEST(CudaProducts, NormaliseRows) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    struct Size {
        int64_t m, k, n;
    };
    std::vector<std::pair<DataType, DataType>> const pairs{{F32, F32}, {F16, F16}, {BF16, BF16}, {F16, I8}};
    for (auto [a, b] : pairs)
        for (auto size : {Size{1, 768, 41}, {2, 96, 9}, {5, 35, 70}, {8, 64, 3}, {1, 8192, 2}, {2, 1100, 5}})
            for (bool rms : {false, true})
                for (auto const* algorithm : {"few_rows", "in_steps"}) {
                    Product p(a, b, size.m, size.k, size.n, true, false, random);
                    if (size.k % 2) p.add_epilogue(ActivationKind::Relu, random);
                    p.add_norm(rms, random);
                    auto id = std::string("normalized_matmul:nvidia:") + algorithm;
                    auto found = p.candidates_on(device, Precision::Default);
                    run(p, found, id, device);
                    // Rows, and weights times scales, are rounded to the type of A.
                    expect_product(p, p.rows(), a == F32 ? 0x1p-20 : a == F16 ? 0x1p-10 : 0x1p-7, id);
                    if (HasFatalFailure()) return;
                }
}

TEST(CudaProducts, ManyRowsAreNormalisedInAStepOfTheirOwn) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    Product p(F16, F16, 33, 64, 40, true, false, random);
    p.add_norm(false, random);
    auto found = p.candidates_on(device, Precision::Default);
    run(p, found, "normalized_matmul:nvidia:in_steps", device);
    expect_product(p, p.rows(), 0x1p-10, "in steps");
}

TEST(CudaProducts, NormalisedRowsAreRefusedWithAReason) {
    std::mt19937 random(kSeed);
    auto& device = emulated();
    auto reason = [&](int64_t m, int64_t k, bool trans_b, bool constant) {
        Product p(F32, F32, m, k, 16, trans_b, false, random);
        p.add_norm(false, random);
        auto in = p.operands();
        if (!constant) in[2].constant = nullptr;
        std::vector<Operand> out{{p.y, nullptr}};
        Request request{in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &device};
        auto found = normalized_few_rows({*p.norm, p.info}, request);
        if (!found) return found.error().reason;
        std::vector<TensorDesc const*> inputs, outputs{&p.y};
        for (auto const& t : p.inputs) inputs.push_back(&t);
        PackCache packs;
        auto task = (*found)->bind({inputs, outputs, {}, packs, 1});
        return task.ok() ? std::string() : task.error().reason;
    };
    EXPECT_EQ(reason(3, 64, true, true), "");
    EXPECT_EQ(reason(3, 64, false, true), "B is not transposed");
    EXPECT_EQ(reason(3, 64, true, false), "scale or bias is not a constant of the type of X");
    EXPECT_EQ(reason(9, 64, true, true), "9 rows, at most 8");
    EXPECT_EQ(reason(1, 8200, true, true), "1 x 8200 elements do not fit in a block");
    EXPECT_EQ(reason(8, 2048, true, true), "8 x 2048 elements do not fit in a block");
    Product p(F32, F32, 1, 8, 4, true, false, random);
    p.add_norm(true, random);
    auto in = p.operands();
    std::vector<Operand> out{{p.y, nullptr}};
    auto found = candidates(NormalizedMatMulInfo{*p.norm, p.info}, Request{in, out});
    ASSERT_TRUE(found.kernels.empty());
    EXPECT_NE(found.rejections.back().reason.find("normalized_matmul:cpu"), std::string::npos);
}

TEST(CudaPlugin, CompilesNormalisedRows) {
    std::mt19937 random(kSeed);
    SourceCollector collector;
    for (auto [a, b] : {std::pair{F32, F32}, {F16, F16}, {BF16, BF16}, {F16, I8}})
        for (int64_t m : {1, 4}) {
            Product p(a, b, m, m == 1 ? 768 : 35, 64, true, false, random);
            p.add_norm(m > 1, random);
            auto in = p.operands();
            std::vector<Operand> out{{p.y, nullptr}};
            Request request{in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &collector};
            auto kernel = normalized_few_rows({*p.norm, p.info}, request);
            ASSERT_TRUE(kernel.ok());
            std::vector<TensorDesc const*> inputs, outputs{&p.y};
            for (auto const& t : p.inputs) inputs.push_back(&t);
            PackCache packs;
            ASSERT_TRUE((*kernel)->bind({inputs, outputs, {}, packs, 1}).ok());
        }
    ASSERT_EQ(collector.sources.size(), 8u);
    compile_all(collector.sources);
}

TEST(CudaPlugin, CompilesPackedProducts) {
    SourceCollector collector;
    for (auto type : {F32, F16, BF16})
        for (int32_t bits : {2, 4, 8})
            for (bool ordered : {true, false}) {  // few rows, tiles
                Tensor const absent(Undefined, {});
                collector(BlockMatMulInfo{24, 64, bits, 32},
                          {Tensor(type, {3, 64}), Tensor(U8, {24, 2, 4 * bits}), Tensor(F32, {48}), absent,
                           ordered ? absent : Tensor(I32, {64}), Tensor(F32, {24})},
                          {Tensor(type, {3, 24})});
            }
    EXPECT_EQ(collector.sources.size(), 18u);
    compile_all(collector.sources);
}

TEST(CudaPlugin, CompilesRoundingToF8) {
    std::mt19937 random(kSeed);
    SourceCollector collector;
    for (auto a : {F16, BF16}) {
        Product p(a, F8E4M3FN, 3, 32, 16, true, true, random);
        p.candidates_on(collector, Precision::F8);
    }
    ASSERT_EQ(collector.sources.size(), 2u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
