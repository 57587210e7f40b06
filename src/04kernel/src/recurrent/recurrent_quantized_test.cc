#include "kernel/ops/recurrent.h"
#include "recurrent/recurrent.h"
#include "reduce/kernel_test.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

struct Sizes {
    int64_t steps, batch, inputs, hidden;
};
/// Numbers of scales and of zero points: 1, of each direction, of each column.
enum class Each { One, Direction, Column };

struct Case {
    Sizes s;
    DataType w = DataType::I8, r = DataType::U8;
    Each scales = Each::Direction, zeros = Each::Column;
    unsigned bits = 0;
};

RecurrentInfo info_of(Case const& c) {
    RecurrentInfo info;
    info.hidden = c.s.hidden, info.quantized = true;
    info.bidirectional = c.bits & 1, info.reverse = (c.bits & 3) == 2, info.bias = c.bits & 4;
    info.lengths = c.bits & 8, info.initial_h = info.initial_c = c.bits & 16, info.peepholes = c.bits & 32;
    info.y_h = info.y_c = c.bits & 64, info.input_forget = c.bits & 128, info.batch_first = c.bits & 256;
    CellActivation sigmoid{CellFunction::Sigmoid, 0, 0}, tanh{CellFunction::Tanh, 0, 0};
    for (int i = 0; i < (info.bidirectional ? 2 : 1); ++i)
        info.activations.insert(info.activations.end(), {sigmoid, tanh, tanh});
    return info;
}

Tensor random_bytes(DataType type, Dims dims, std::mt19937& random, unsigned spread = 256) {
    Tensor t(type, dims);
    auto middle = type == DataType::U8 ? 128u : 0u;
    for (int64_t i = 0; i < t.desc.count(); ++i)
        t.as<uint8_t>()[i] = static_cast<uint8_t>(middle + random() % spread - spread / 2);
    return t;
}

struct Layer {
    std::vector<Tensor> inputs, outputs;

    Layer(RecurrentInfo const& info, Case const& c, std::mt19937& random) {
        auto const& s = c.s;
        int64_t d = info.bidirectional ? 2 : 1, columns = 4 * s.hidden;
        auto order = [&](int64_t a, int64_t b, int64_t k) { return info.batch_first ? Dims{b, a, k} : Dims{a, b, k}; };
        inputs = {random_f32(order(s.steps, s.batch, s.inputs), random),
                  random_bytes(c.w, {d, s.inputs, columns}, random), random_bytes(c.r, {d, s.hidden, columns}, random)};
        inputs[1].as_constant(), inputs[2].as_constant();
        if (info.bias) inputs.push_back(random_f32({d, 2 * columns}, random));
        if (info.lengths) {
            std::vector<int32_t> lengths;
            for (int64_t n = 0; n < s.batch; ++n)
                lengths.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(s.steps + 1)));
            inputs.push_back(Tensor::of(DataType::I32, {s.batch}, lengths));
        }
        if (info.initial_h) inputs.push_back(random_f32(order(d, s.batch, s.hidden), random));
        if (info.initial_c) inputs.push_back(random_f32(order(d, s.batch, s.hidden), random));
        if (info.peepholes) inputs.push_back(random_f32({d, 3 * s.hidden}, random, 0.3f));
        auto dims = [&](Each each) {
            return each == Each::One ? Dims{1} : each == Each::Direction ? Dims{d} : Dims{d, columns};
        };
        for (auto type : {c.w, c.r}) {
            Tensor scales = random_f32(dims(c.scales), random);
            auto typical = 1 / (128 * std::sqrt(static_cast<float>(s.hidden)));
            for (int64_t i = 0; i < scales.desc.count(); ++i)
                scales.as<float>()[i] = typical * (1 + 0.1f * std::fabs(scales.as<float>()[i]));
            inputs.push_back(std::move(scales)), inputs.push_back(random_bytes(type, dims(c.zeros), random, 20));
        }
        auto y = info.batch_first ? Dims{s.batch, s.steps, d, s.hidden} : Dims{s.steps, d, s.batch, s.hidden};
        outputs.emplace_back(DataType::F32, y);
        for (int i = 0; i < (info.y_h ? 2 : 0); ++i) outputs.emplace_back(DataType::F32, order(d, s.batch, s.hidden));
    }
};

/// Of one step all sums are exact; what is left is two products, a sum and the cell in f32.
constexpr Tolerance kOneStep{2e-5, 2e-5};
/// Of many, a state on the border between two codes (2/255 apart, times weights of up to 3/√hidden) may go either way.
constexpr Tolerance kSteps{0.01, 0};

int best() {
    auto isa = cpu_features().isa;
    return isa >= Isa::Avx512Vnni || isa == Isa::Avx2Vnni ? 2 : isa >= Isa::Avx2 ? 1 : 0;
}

TEST(QuantizedRecurrent, CandidatesAgree) {
    std::mt19937 random(seed_of(91));
    auto types = {DataType::U8, DataType::I8};
    for (auto w : types)
        for (auto r : types)
            for (int i = 0; i < 30; ++i) {
                auto pick = [&](unsigned n) { return static_cast<int64_t>(1 + random() % n); };
                Case c{{i % 2 ? pick(9) : 1, pick(60), pick(70), pick(70)}, w, r};
                c.scales = static_cast<Each>(random() % 3), c.zeros = static_cast<Each>(random() % 3);
                c.bits = static_cast<unsigned>(random());
                auto info = info_of(c);
                Layer layer(info, c, random);
                EXPECT_EQ(check_candidates(info, layer.inputs, layer.outputs, c.s.steps > 1 ? kSteps : kOneStep),
                          best());
            }
}

TEST(QuantizedRecurrent, LongAndWide) {
    std::mt19937 random(seed_of(92));
    for (auto s :
         {Sizes{120, 1, 40, 33}, Sizes{5, 1, 30, 260}, Sizes{3, 50, 400, 40}, Sizes{0, 2, 3, 4}, Sizes{3, 0, 3, 4}})
        for (unsigned bits : {0u, 2u, 1u + 4 + 64, 256u + 8 + 1}) {
            Case c{s};
            c.bits = bits;
            auto info = info_of(c);
            Layer layer(info, c, random);
            EXPECT_EQ(check_candidates(info, layer.inputs, layer.outputs, kSteps), best());
        }
}

/// Weights of every byte, and rows whose codes are 0 and 255: no sum may saturate.
TEST(QuantizedRecurrent, ExtremesAreExact) {
    std::mt19937 random(seed_of(93));
    for (auto type : {DataType::U8, DataType::I8}) {
        Case c{{1, 7, 64, 9}, type, type, Each::One, Each::One};
        c.bits = 4;
        auto info = info_of(c);
        Layer layer(info, c, random);
        for (auto matrix : {1, 2}) {
            auto& w = layer.inputs[static_cast<size_t>(matrix)];
            for (int64_t i = 0; i < w.desc.count(); ++i) w.as<uint8_t>()[i] = i / 36 % 2 ? 0x80 : 0x7f;
        }
        auto* x = layer.inputs[0].as<float>();
        for (int64_t i = 0; i < layer.inputs[0].desc.count(); ++i) x[i] = i % 2 ? -1.f : 1.f;
        for (size_t scale : {4, 6}) layer.inputs[scale].as<float>()[0] = 1.f / (64 * 128);
        check_candidates(info, layer.inputs, layer.outputs, kOneStep);
    }
}

/// What cannot be rounded to codes gives NaN, in its sequence alone; numbers too small to be scaled count as zero.
TEST(QuantizedRecurrent, OddRows) {
    std::mt19937 random(seed_of(94));
    Case c{{2, 4, 11, 9}};
    auto info = info_of(c);
    Layer layer(info, c, random);
    auto* x = layer.inputs[0].as<float>();
    x[3] = std::numeric_limits<float>::quiet_NaN(), x[11 + 10] = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < 11; ++i) x[22 + i] = 0, x[33 + i] = i % 2 ? 1e-40f : -1e-42f;
    check_candidates(info, layer.inputs, layer.outputs, kSteps);
    auto in = operands_of(layer.inputs), out = operands_of(layer.outputs);
    auto found = candidates(info, request_of(in, out, cpu_features().isa, 1));
    ThreadPool pool(1);
    PackCache packs;
    run(*found.kernels.front(), layer.inputs, layer.outputs, packs, pool);
    auto const* y = layer.outputs[0].as<float>();
    for (int i = 0; i < 4 * 9; ++i) EXPECT_EQ(std::isnan(y[i]), i < 18) << i;
}

/// One unit, one input: DynamicQuantizeLinear by hand.
TEST(QuantizedRecurrent, FollowsDynamicQuantizeLinear) {
    auto range = code_range(-1, 2);
    EXPECT_EQ(range.scale, 3.f / 255);
    EXPECT_EQ(range.zero, 85);
    EXPECT_EQ(code_range(1, 2).zero, 0);
    EXPECT_EQ(code_range(1, 2).scale, 2.f / 255);
    EXPECT_EQ(code_range(-2, -1).zero, 255);
    EXPECT_EQ(code_range(0, 0).scale, 0);
    EXPECT_TRUE(std::isnan(code_range(std::numeric_limits<float>::quiet_NaN(), 1).scale));
    EXPECT_TRUE(std::isnan(code_range(0, std::numeric_limits<float>::infinity()).scale));
}

TEST(QuantizedRecurrent, Refusals) {
    std::mt19937 random(seed_of(95));
    Case c{{2, 3, 5, 6}};
    c.bits = 4;
    auto info = info_of(c);
    Layer layer(info, c, random);
    auto reasons = [&](RecurrentInfo const& of, std::vector<Tensor> const& inputs) {
        auto in = operands_of(inputs), out = operands_of(layer.outputs);
        auto found = candidates(of, request_of(in, out, cpu_features().isa, 1));
        EXPECT_TRUE(found.kernels.empty());
        return found.rejections.back().reason;
    };
    auto gru = info;
    gru.cell = RecurrentCell::Gru;
    EXPECT_EQ(reasons(gru, layer.inputs), "recurrent:cpu:reference: quantised weights of gru");
    auto inputs = layer.inputs;
    inputs[1].desc.dtype = DataType::I32;
    EXPECT_EQ(reasons(info, inputs), "recurrent:cpu:reference: W is i32, expected u8 or i8");
    inputs = layer.inputs, inputs[7].desc.dtype = DataType::I8;
    EXPECT_EQ(reasons(info, inputs), "recurrent:cpu:reference: the zero point of R is i8, expected u8");
    inputs = layer.inputs, inputs[0].desc.dtype = DataType::F16;
    EXPECT_EQ(reasons(info, inputs), "recurrent:cpu:reference: X is f16, expected f32");

    inputs = layer.inputs, inputs[1].constant = false;
    auto in = operands_of(inputs), out = operands_of(layer.outputs);
    auto found = candidates(info, request_of(in, out, cpu_features().isa, 1));
    EXPECT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    auto reason = [&](size_t i, Tensor tensor) {
        auto changed = layer.inputs;
        changed[i] = std::move(tensor);
        std::string text;
        auto operands = operands_of(layer.inputs);
        for (auto const& kernel : candidates(info, request_of(operands, out, cpu_features().isa, 1)).kernels) {
            Descriptions of(changed, layer.outputs);
            auto task = kernel->bind({of.in, of.out, {}, packs, 1});
            EXPECT_FALSE(task.ok()) << kernel->id();
            if (!task.ok()) text = task.error().reason;
        }
        return text;
    };
    EXPECT_EQ(reason(4, random_f32({3}, random)), "the scale of W is [3], expected [1] or [1, 24]");
    EXPECT_EQ(reason(7, random_bytes(DataType::U8, {2, 2}, random)),
              "the zero point of R is [2, 2], expected [1] or [1, 24]");
    EXPECT_EQ(reason(1, random_bytes(DataType::I8, {1, 24, 5}, random)), "W is [1, 24, 5], expected [1, 5, 24]");
}

}  // namespace
}  // namespace refactor::kernel::test
