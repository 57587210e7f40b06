#include "conv/check_cases.h"

namespace refactor::kernel {
namespace {

constexpr char kSplit[] = "conv:cpu:direct:f32:avx512amx";

/// Products of f32 in three parts by tiles (AMX), emulated where the processor has vectors alone.
class SplitConv : public ConvTest {};

TEST_F(SplitConv, Operands) {
    std::vector<Case> cases;
    for (int i = 0; i < 24; ++i)
        cases.push_back(random_case(rng_, static_cast<size_t>(i % 3 + 1), 1, pick(rng_, 1, 100), pick(rng_, 1, 70)));
    for (int64_t kernel : {1, 3, 5})
        for (int64_t stride : {1, 2})
            cases.push_back(square_case(rng_, kernel, stride, 1, pick(rng_, 30, 100), pick(rng_, 30, 100)));
    for (int64_t in_group : {16, 32, 64})
        cases.push_back(square_case(rng_, 3, 1, pick(rng_, 2, 5), in_group, 16 * pick(rng_, 1, 3)));
    for (auto& c : cases) c.emulates_tiles = c.constant_weights = true;
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains(kSplitTiles), cpu_features().isa >= Isa::Avx512);
    EXPECT_EQ(ran.contains(kSplit), cpu_features().isa >= Isa::Avx512Amx);
}

#if RG_X86

/// What kernels of tiles make of inputs in blocked layouts, with those of vectors in front.
std::vector<Tensor> results_of(Case const& c, std::vector<Tensor> const& inputs) {
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (size_t i = 0; i < inputs.size(); ++i)
        arguments.push_back(argument(inputs[i], i == 1 ? Layout::Plain : Layout::Blocked16, i == 1));
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    y.dtype = DataType::F32, y.layout = Layout::Blocked16, y.dims = c.out();
    Request request{operands, {&y, 1}, "cpu", Isa::Avx512, 1};
    std::vector<std::unique_ptr<Kernel>> kernels;
    kernels.push_back(std::move(conv_direct_avx512(c.info, request)).value());
    add_emulated(kernels, c.info, request);
    if (cpu_features().isa >= Isa::Avx512Amx) {
        request.isa = Isa::Avx512Amx;
        kernels.push_back(std::move(conv_direct_split(c.info, request)).value());
    }
    std::vector<Tensor> results;
    ThreadPool pool(1);
    for (auto const& kernel : kernels) {
        Bench bench(*kernel, arguments, y, pool);
        bench.run();
        results.push_back(loaded(bench.output(), y.dims, Layout::Blocked16));
    }
    return results;
}

TEST_F(SplitConv, NumbersThatAreNoThreeParts) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    for (int64_t kernel : {1, 3}) {
        auto c = square_case(rng_, kernel, 1, 1, 70, 40);
        std::vector<Tensor> inputs{Tensor::random(c.x, rng_), Tensor::random(c.w, rng_)};
        c.info.epilogue = {};
        auto &x = inputs[0].values, &w = inputs[1].values;
        x[x.size() / 2] = INFINITY, x[x.size() / 3] = NAN, x[7] = FLT_MAX, x[x.size() - 9] = -INFINITY;
        w[3] = -INFINITY, w[w.size() - 3] = FLT_MAX, w[w.size() / 2] = -3.4e38f;
        auto results = results_of(c, inputs);
        ASSERT_GE(results.size(), 2u);
        auto const& want = results[0].values;
        for (size_t r = 1; r < results.size(); ++r)
            for (size_t i = 0; i < want.size(); ++i) {
                auto got = results[r].values[i];
                ASSERT_EQ(std::isnan(got), std::isnan(want[i])) << "at " << i;
                if (std::isinf(want[i]) || std::isinf(got)) {
                    ASSERT_EQ(got, want[i]) << "at " << i;
                } else if (!std::isnan(want[i])) {
                    ASSERT_NEAR(got, want[i], 1e-3 + 1e-5 * std::abs(want[i])) << "at " << i;
                }
            }
    }
}

TEST_F(SplitConv, AreAsExactAsF32) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    auto c = square_case(rng_, 1, 1, 1, 300, 48);
    c.info.epilogue = {};
    // Of one sign and of many sizes, where sums do not hide what products lose.
    std::vector<Tensor> inputs{Tensor(c.x), Tensor(c.w)};
    std::uniform_real_distribution<float> exponent(-12, 12);
    for (auto& t : inputs)
        for (auto& v : t.values) v = std::exp2(exponent(rng_));
    auto const channels = c.x[1], outputs = c.w[0], pixels = c.x[2] * c.x[3];
    auto error_of = [&](Tensor const& y) {
        double squares = 0;
        for (int64_t i = 0; i < c.x[0] * outputs * pixels; ++i) {
            auto pixel = i % pixels, out = i / pixels % outputs, image = i / pixels / outputs;
            double exact = 0;
            for (int64_t k = 0; k < channels; ++k)
                exact += double{inputs[0].values[static_cast<size_t>((image * channels + k) * pixels + pixel)]} *
                         double{inputs[1].values[static_cast<size_t>(out * channels + k)]};
            auto error = (y.values[static_cast<size_t>(i)] - exact) / exact;
            squares += error * error;
        }
        return squares;
    };
    auto results = results_of(c, inputs);
    ASSERT_GE(results.size(), 2u);
    for (size_t r = 1; r < results.size(); ++r) EXPECT_LE(error_of(results[r]), error_of(results[0]));
}

TEST_F(SplitConv, Refuse) {
    auto c = square_case(rng_, 3, 1, 1, 64, 64);
    struct {
        Isa isa;
        Precision precision;
        bool constant;
        Layout layout;
        char const* why;
    } const cases[]{
        {Isa::Avx512Bf16, Precision::Default, true, Layout::Blocked16, "needs avx512amx"},
        {Isa::Avx512Amx, Precision::Exact, true, Layout::Blocked16, "exact precision allows no sums of parts of bf16"},
        {Isa::Avx512Amx, Precision::Default, true, Layout::Blocked8, "expects Y in the blocked layout"}};
    std::vector<Tensor> const inputs{Tensor(c.x), Tensor(c.w)};
    c.info.epilogue = {};
    for (auto const& refused : cases) {
        std::vector<Operand> operands{operand_of(argument(inputs[0], refused.layout)),
                                      operand_of(argument(inputs[1], Layout::Plain, refused.constant))};
        Operand y;
        y.dtype = DataType::F32, y.layout = refused.layout, y.dims = c.out();
        Request request{operands, {&y, 1}, "cpu", refused.isa, 1};
        request.precision = refused.precision;
        auto found = conv_direct_split(c.info, request);
        ASSERT_FALSE(found) << refused.why;
        EXPECT_NE(found.error().reason.find(refused.why), std::string::npos) << found.error().reason;
    }
}

#endif

}  // namespace
}  // namespace refactor::kernel
