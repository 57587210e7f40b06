#include "kernel/ops/conv.h"

#include "common/cpu_features.h"
#include "conv/direct.h"
#include "conv/first_tiles.h"
#include "conv/shares.h"
#include "conv/test_harness.h"

#include <algorithm>
#include <cfloat>
#include <set>

namespace refactor::kernel {

#if RG_X86
void run_rows_on_emulated_tiles(RowJob const&);
FirstTiles const& emulated_first_tiles();
#endif

namespace {

using namespace test;

struct Case {
    Dims x, w;
    ConvInfo info;
    bool constant_weights = true;

    Dims out() const {
        Dims y{x[0], w[0]};
        auto const& window = info.window;
        for (size_t i = 0; i + 2 < x.size(); ++i)
            y.push_back(
                (x[i + 2] + window.pads_begin[i] + window.pads_end[i] - window.dilations[i] * (w[i + 2] - 1) - 1) /
                    window.strides[i] +
                1);
        return y;
    }
    /// 3 × 3 taps, or 3, 5 or 7 along one axis.
    bool may_be_winograd() const {
        auto taps = element_count(std::span<int64_t const>(w).subspan(2));
        auto longest = *std::max_element(w.begin() + 2, w.end());
        return (w.size() >= 4 && w.end()[-2] == 3 && w.back() == 3) ||
               (taps == longest && (taps == 3 || taps == 5 || taps == 7));
    }
    std::string text() const { return dims_text(x) + " * " + dims_text(w) + " " + info.attributes(); }
};

/// A tensor of Plain inputs through the reference, in the given order.
Tensor reference(Case const& c, std::vector<Tensor> const& inputs, ConvInfo const& info) {
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (auto const& t : inputs) arguments.push_back(argument(t, Layout::Plain));
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    y.dtype = DataType::F32, y.dims = c.out();
    auto found = candidates(info, {operands, {&y, 1}});
    ThreadPool pool(1);
    Bench bench(*found.kernels.back(), arguments, y, pool);
    bench.run();
    return loaded(bench.output(), y.dims, Layout::Plain);
}

/// Inputs of a case, what the reference makes of them, and Σ|x w| of every output.
struct Expected {
    std::vector<Tensor> inputs;
    Tensor want, bound;

    Expected(Case const& c, std::mt19937& rng) : inputs{Tensor::random(c.x, rng), Tensor::random(c.w, rng)} {
        auto const& epilogue = c.info.epilogue;
        if (c.info.may_round) inputs[0].round_to_bf16(), inputs[1].round_to_bf16();
        if (epilogue.bias) inputs.push_back(Tensor::random({c.w[0]}, rng));
        if (epilogue.residual) inputs.push_back(Tensor::random(c.out(), rng));
        want = reference(c, inputs, c.info);
        auto linear = c.info;
        linear.epilogue.activation = {};
        std::vector<Tensor> magnitudes;
        for (auto const& t : inputs) magnitudes.push_back(t.absolute());
        bound = reference(c, magnitudes, linear);
    }
};

constexpr char kDirectTiles[] = "conv:cpu:direct:bf16:emulated";

/// Kernels of tiles (AMX), which this processor need not have, on emulated ones.
void add_emulated([[maybe_unused]] std::vector<std::unique_ptr<Kernel>>& kernels, [[maybe_unused]] ConvInfo const& info,
                  [[maybe_unused]] Request const& request) {
#if RG_X86
    auto add = [&](KernelResult found) {
        if (found) kernels.push_back(std::move(found).value());
    };
    static TileIsa const kTiles = with_tiles(run_rows_on_emulated_tiles);
    add(make_rounded_direct(
        info, request, {kDirectTiles, Isa::Avx512Bf16, []() -> TileIsa const& { return kTiles; }, false}));
    add(make_first_tiles(info, request, Isa::Avx512Bf16, emulated_first_tiles));
#endif
}

/// Runs every candidate for the layouts against the reference. Tolerance: a sum of K products in any order differs from
/// the exact one by at most K/2 eps Σ|x w|; activations are 1.1-Lipschitz and add a few ulps. The transforms of
/// Winograd mix the outputs of a tile, so that its error follows the largest Σ|x w| around; it was at most 23 eps of
/// that in 10⁷ random outputs of tiles of 4 × 4, 54 of 6 × 6, 24 in 10⁶ of each form along one axis, 5 of a stride
/// of 2. Strassen's algorithm mixes those of two pixels and two channels, with less. Adds the ids of the kernels that
/// ran to `ran`.
void check(Case const& c, Layout in, Layout out, Isa isa, int threads, Expected const& expected,
           std::set<std::string>& ran) {
    SCOPED_TRACE(c.text() + " layouts " + std::to_string(block_of(in)) + " " + std::to_string(block_of(out)));
    auto const& epilogue = c.info.epilogue;
    auto const& [inputs, want, bound] = expected;
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
        auto layout = i == 0 ? in : i == 3 || (i == 2 && !epilogue.bias) ? out : Layout::Plain;
        arguments.push_back(argument(inputs[i], layout, i == 1 && c.constant_weights));
    }
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    y.dtype = DataType::F32, y.layout = out, y.dims = c.out();
    Request const request{operands, {&y, 1}, "cpu", isa, threads};
    auto found = candidates(c.info, request);
    ASSERT_FALSE(found.kernels.empty());
    if (isa == Isa::Avx512Bf16) add_emulated(found.kernels, c.info, request);
    ThreadPool pool(threads);
    auto terms = element_count(c.w) / c.w[0];
    for (auto const& kernel : found.kernels) {
        if (kernel->id().find("reference") != std::string::npos && isa != Isa::Scalar) continue;
        SCOPED_TRACE(kernel->id());
        Bench bench(*kernel, arguments, y, pool);
        if (!bench.task) {
            EXPECT_FALSE(bench.rejection.empty());
            continue;
        }
        bench.run();
        ran.insert(kernel->id());
        auto got = loaded(bench.output(), y.dims, out);
        // Kernels that reorder may have chosen one that mixes.
        auto is = [&](char const* name) { return kernel->id().find(name) != std::string::npos; };
        bool mixes = is("winograd") || is("strassen") || (is("reordered") && (c.may_be_winograd() || terms == c.w[1]));
        auto mixed = !mixes ? 0. : is("winograd_f6") || is("reordered") ? 128. : is("s2:") ? 16. : 64.;
        auto largest = bound.values.empty()
                           ? 0.
                           : static_cast<double>(*std::max_element(bound.values.begin(), bound.values.end()));
        for (size_t i = 0; i < got.values.size(); ++i) {
            auto tolerance = 1.1 * FLT_EPSILON * (static_cast<double>(terms) * 0.5 + 8) * bound.values[i] +
                             4 * FLT_EPSILON * std::abs(want.values[i]) + mixed * FLT_EPSILON * largest;
            ASSERT_NEAR(got.values[i], want.values[i], tolerance) << "at " << i << " of " << dims_text(y.dims);
        }
    }
}

Epilogue random_epilogue(std::mt19937& rng) {
    constexpr ActivationKind kKinds[] = {
        ActivationKind::None,    ActivationKind::Relu,     ActivationKind::Clip,      ActivationKind::LeakyRelu,
        ActivationKind::Sigmoid, ActivationKind::Silu,     ActivationKind::HardSwish, ActivationKind::HardSigmoid,
        ActivationKind::GeluErf, ActivationKind::GeluTanh, ActivationKind::Tanh};
    Epilogue e;
    auto bits = rng();
    e.activation = {kKinds[bits % std::size(kKinds)], 0.2f, 0.7f};
    e.bias = bits >> 8 & 1, e.residual = (bits >> 9 & 3) == 0, e.residual_last = bits >> 11 & 1;
    return e;
}

int64_t pick(std::mt19937& rng, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

Case random_case(std::mt19937& rng, size_t rank, int64_t group, int64_t in_group, int64_t out_group) {
    Case c;
    c.info.group = group, c.info.epilogue = random_epilogue(rng);
    c.constant_weights = pick(rng, 0, 7) > 0;
    c.x = {pick(rng, 1, 2), group * in_group}, c.w = {group * out_group, in_group};
    auto& window = c.info.window;
    for (size_t i = 0; i < rank; ++i) {
        c.w.push_back(pick(rng, 1, 4));
        window.strides.push_back(pick(rng, 1, 3)), window.dilations.push_back(pick(rng, 1, 2));
        window.pads_begin.push_back(pick(rng, 0, 2)), window.pads_end.push_back(pick(rng, 0, 2));
        auto reach = window.dilations.back() * (c.w.back() - 1) + 1;
        c.x.push_back(pick(rng, reach, reach + (rank == 3 ? 7 : rank == 2 ? 19 : 60)));
    }
    return c;
}

Case square_case(std::mt19937& rng, int64_t kernel, int64_t stride, int64_t group, int64_t in_group,
                 int64_t out_group) {
    auto c = random_case(rng, 2, group, in_group, out_group);
    for (size_t i = 0; i < 2; ++i) {
        c.w[2 + i] = kernel, c.info.window.strides[i] = stride, c.info.window.dilations[i] = 1;
        c.info.window.pads_begin[i] = c.info.window.pads_end[i] = kernel / 2;
        c.x[2 + i] = pick(rng, 5, 40);
    }
    return c;
}

/// Returns the ids of the kernels that ran.
std::set<std::string> check_all(std::vector<Case> const& cases, std::mt19937& rng) {
    std::set<std::string> ran;
    struct Setup {
        Isa isa;
        Layout layout;
    };
    for (auto const& c : cases) {
        Expected expected(c, rng);
        for (auto setup : {Setup{Isa::Scalar, Layout::Blocked16}, Setup{Isa::Avx2, Layout::Blocked8},
                           Setup{Isa::Avx512, Layout::Blocked16}, Setup{Isa::Avx512Bf16, Layout::Blocked16},
                           Setup{Isa::Avx512Amx, Layout::Blocked16}}) {
            if (setup.isa > cpu_features().isa || (setup.isa >= Isa::Avx512Bf16 && !c.info.may_round)) continue;
            check(c, setup.layout, setup.layout, setup.isa, 2, expected, ran);
            check(c, Layout::Plain, Layout::Plain, setup.isa, 1, expected, ran);
            check(c, Layout::Plain, setup.layout, setup.isa, 2, expected, ran);
            check(c, setup.layout, Layout::Plain, setup.isa, 1, expected, ran);
            if (::testing::Test::HasFatalFailure()) return ran;
        }
    }
    return ran;
}

class ConvTest : public ::testing::Test {
protected:
    uint32_t seed_ = std::random_device{}();
    std::mt19937 rng_{seed_};
    void SetUp() override { RecordProperty("seed", std::to_string(seed_)), std::printf("seed %u\n", seed_); }
};

TEST_F(ConvTest, AnyRankAndWindow) {
    std::vector<Case> cases;
    for (int i = 0; i < 18; ++i)
        cases.push_back(random_case(rng_, static_cast<size_t>(i % 3 + 1), 1, pick(rng_, 1, 37), pick(rng_, 1, 53)));
    check_all(cases, rng_);
}

TEST_F(ConvTest, DeepWindowsInParts) {
    std::vector<Case> cases;
    // Channels: not whole blocks, and groups that begin inside of one; [x, w, groups, dilation].
    struct Deep {
        Dims x, w;
        int64_t group, dilation;
    };
    for (auto const& deep :
         {Deep{{1, 203, 6, 9}, {40, 203, 3, 3}, 1, 1}, Deep{{2, 1100, 5, 7}, {24, 1100, 1, 1}, 1, 1},
          Deep{{1, 300, 5, 6}, {20, 150, 3, 3}, 2, 1}, Deep{{1, 160, 7, 8}, {19, 160, 3, 3}, 1, 2}}) {
        Case c;
        c.info.epilogue = random_epilogue(rng_), c.info.group = deep.group;
        c.x = deep.x, c.w = deep.w;
        auto pad = deep.w[2] / 2 * deep.dilation;
        c.info.window = {{1, 1}, {deep.dilation, deep.dilation}, {pad, pad}, {pad, pad}};
        cases.push_back(c);
    }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx2"), cpu_features().isa >= Isa::Avx2);
}

TEST_F(ConvTest, PixelsByStrassen) {
    std::vector<Case> cases;
    // Odd numbers of pixels, more depth and pixels than a block has, several images.
    for (auto const& dims : {Dims{2, 64, 5, 11, 256}, Dims{1, 96, 7, 7, 128}, Dims{1, 1056, 6, 9, 256},
                             Dims{3, 32, 30, 29, 128}, Dims{1, 192, 1, 70, 384}}) {
        Case c;
        c.info.epilogue = random_epilogue(rng_);
        c.x = {dims[0], dims[1], dims[2], dims[3]}, c.w = {dims[4], dims[1], 1, 1};
        c.info.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
        cases.push_back(c);
    }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:strassen:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, Groups) {
    std::vector<Case> cases;
    for (int i = 0; i < 8; ++i)
        cases.push_back(
            random_case(rng_, static_cast<size_t>(i % 3 + 1), pick(rng_, 2, 5), pick(rng_, 1, 20), pick(rng_, 1, 20)));
    cases.push_back(random_case(rng_, 2, 2, 32, 48));
    cases.push_back(random_case(rng_, 2, 8, 4, 4));
    check_all(cases, rng_);
}

TEST_F(ConvTest, GroupsOfAPartOfABlock) {
    std::vector<Case> cases;
    for (int64_t width : {2, 4, 8})
        for (size_t rank : {1, 2, 2}) cases.push_back(random_case(rng_, rank, pick(rng_, 2, 20), width, width));
    cases.push_back(square_case(rng_, 3, 1, 9, 4, 4));
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:grouped:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:grouped:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, GroupsThatBeginInsideOfABlock) {
    std::vector<Case> cases;
    for (int64_t width : {24, 40, 11, 56}) cases.push_back(random_case(rng_, 2, pick(rng_, 2, 5), width, width));
    cases.push_back(random_case(rng_, 2, 3, 24, 8));
    check_all(cases, rng_);
}

/// Winograd takes groups one after the other; with few tiles the threads share each.
TEST_F(ConvTest, GroupsOfWholeBlocks) {
    std::vector<Case> cases;
    for (int64_t groups : {2, 3})
        for (int form = 0; form < 4; ++form) {
            auto const rank = form == 3 ? size_t{3} : size_t{2};
            auto c = random_case(rng_, rank, groups, 16 * pick(rng_, 1, 3), 16 * pick(rng_, 1, 3));
            auto& window = c.info.window;
            c.constant_weights = true;
            for (size_t axis = 0; axis < rank; ++axis) {
                c.w[2 + axis] = form == 1 && axis == 0 ? 1 : 3;
                c.x[2 + axis] = form == 2 ? pick(rng_, 3, 6) : pick(rng_, 3, rank == 3 ? 9 : 30);
                window.strides[axis] = window.dilations[axis] = 1;
                window.pads_begin[axis] = window.pads_end[axis] = c.w[2 + axis] / 2;
            }
            cases.push_back(c);
        }
    auto ran = check_all(cases, rng_);
    for (std::string form : {"f2", "f4", "f6", "line"}) {
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx2"), cpu_features().isa >= Isa::Avx2);
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx512"), cpu_features().isa >= Isa::Avx512);
    }
}

TEST_F(ConvTest, StrideOfTwo) {
    std::vector<Case> cases;
    for (int i = 0; i < 10; ++i) {
        auto const rank = i % 5 == 4 ? size_t{3} : size_t{2};
        auto const groups = i % 4 == 3 ? 2 : 1;
        auto channels = [&] { return groups > 1 ? 16 * pick(rng_, 1, 2) : pick(rng_, 1, 70); };
        auto c = random_case(rng_, rank, groups, channels(), channels());
        auto& window = c.info.window;
        c.constant_weights = true;
        for (size_t axis = 0; axis < rank; ++axis) {
            c.w[2 + axis] = 3, c.x[2 + axis] = pick(rng_, 3, rank == 3 ? 9 : i % 2 ? 12 : 45);
            window.strides[axis] = 2, window.dilations[axis] = 1;
            window.pads_begin[axis] = pick(rng_, 0, 2), window.pads_end[axis] = pick(rng_, 0, 2);
        }
        cases.push_back(c);
    }
    auto ran = check_all(cases, rng_);
    for (std::string form : {"f2s2", "f4s2"}) {
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx2"), cpu_features().isa >= Isa::Avx2);
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx512"), cpu_features().isa >= Isa::Avx512);
    }
}

TEST_F(ConvTest, Depthwise) {
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i)
        cases.push_back(random_case(rng_, static_cast<size_t>(i % 3 + 1), pick(rng_, 2, 50), 1, 1));
    for (auto kernel : {3, 5, 7})
        for (auto stride : {1, 2}) cases.push_back(square_case(rng_, kernel, stride, pick(rng_, 2, 50), 1, 1));
    cases.push_back(random_case(rng_, 2, 5, 1, 3));
    check_all(cases, rng_);
}

TEST_F(ConvTest, DepthwiseWithDepth) {
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i) cases.push_back(random_case(rng_, 3, pick(rng_, 2, 40), i < 4 ? 1 : 2, i < 4 ? 1 : 2));
    // Windows of one element but for the depth, an input that is larger than a band, and one outside of it.
    auto flat = random_case(rng_, 3, 19, 1, 1), large = random_case(rng_, 3, 9, 1, 1), outside = large;
    for (size_t axis : {1, 2}) {
        flat.w[2 + axis] = 1, flat.info.window.strides[axis] = flat.info.window.dilations[axis] = 1;
        flat.info.window.pads_begin[axis] = flat.info.window.pads_end[axis] = 0;
        large.x[2 + axis] = 60;
    }
    outside.info.window.pads_begin[0] = outside.info.window.pads_end[0] = 12;
    for (auto const& c : {flat, large, outside}) cases.push_back(c);
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:depthwise:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:grouped:f32:avx2"), cpu_features().isa >= Isa::Avx2);
}

TEST_F(ConvTest, CommonShapes) {
    std::vector<Case> cases;
    for (auto stride : {1, 2}) {
        cases.push_back(square_case(rng_, 1, stride, 1, pick(rng_, 16, 80), pick(rng_, 16, 80)));
        cases.push_back(square_case(rng_, 3, stride, 1, pick(rng_, 16, 80), pick(rng_, 16, 80)));
        cases.push_back(square_case(rng_, 3, stride, 1, 3, pick(rng_, 16, 80)));
        cases.push_back(square_case(rng_, 7, stride, 1, 3, pick(rng_, 16, 80)));
    }
    cases.push_back(square_case(rng_, 3, 1, 1, 64, 64));
    check_all(cases, rng_);
}

TEST_F(ConvTest, FirstLayersWithStrides) {
    std::vector<Case> cases;
    for (int64_t stride : {2, 3, 4, 5, 8, 16})
        for (int64_t kernel : {stride, stride + 1, 2 * stride + 3}) {
            cases.push_back(square_case(rng_, kernel, stride, 1, pick(rng_, 1, 4), pick(rng_, 8, 40)));
            cases.back().x[2] = pick(rng_, 1, 70), cases.back().x[3] = pick(rng_, 1, 70);
        }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:first_layer:f32:avx2"), cpu_features().isa >= Isa::Avx2);
}

TEST_F(ConvTest, FewOutputs) {
    std::vector<Case> cases;
    for (int64_t outputs = 1; outputs <= 9; ++outputs) {
        for (size_t rank : {1, 2, 3}) cases.push_back(random_case(rng_, rank, 1, pick(rng_, 1, 53), outputs));
        cases.push_back(square_case(rng_, 3, 1, 1, pick(rng_, 16, 40), outputs));
        cases.push_back(square_case(rng_, 1, 1, 1, pick(rng_, 16, 40), outputs));
    }
    // Longer rows than a part of them.
    cases.push_back(square_case(rng_, 1, 1, 1, 17, 3));
    cases.back().x[2] = 47, cases.back().x[3] = 45;
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:few_outputs:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:few_outputs:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, KernelsAlongOneAxis) {
    std::vector<Case> cases;
    for (int64_t taps : {3, 5, 7})
        for (size_t rank : {1, 2, 2}) {
            auto c = random_case(rng_, rank, 1, pick(rng_, 1, 70), pick(rng_, 1, 70));
            size_t axis = cases.size() % 3 == 2 ? 0 : rank - 1;
            for (size_t i = 0; i < rank; ++i) {
                auto& window = c.info.window;
                c.w[2 + i] = i == axis ? taps : 1, window.strides[i] = window.dilations[i] = 1;
                if (i != axis) window.pads_begin[i] = window.pads_end[i] = 0;
                c.x[2 + i] = pick(rng_, i == axis ? taps : 1, 40);
            }
            cases.push_back(c);
        }
    check_all(cases, rng_);
}

TEST_F(ConvTest, RowsOfDilatedWindows) {
    // Fewer rows than the dilation, as many, more; channels that leave out no taps, and groups.
    std::vector<Case> cases;
    for (int64_t dilation : {3, 11, 40}) {
        for (size_t rank : {2, 3}) {
            auto c = random_case(rng_, rank, rank == 2 ? 1 : 2, pick(rng_, 1, 13), pick(rng_, 1, 30));
            auto rows = rank - 2;
            auto& window = c.info.window;
            c.x[2 + rows] = pick(rng_, dilation - 2, 50), c.w[2 + rows] = 3;
            window.strides[rows] = 1, window.dilations[rows] = dilation;
            window.pads_begin[rows] = dilation, window.pads_end[rows] = pick(rng_, dilation, dilation + 2);
            cases.push_back(c);
        }
    }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx2"), cpu_features().isa >= Isa::Avx2);
}

TEST_F(ConvTest, AxesOfOneElement) {
    std::vector<Case> cases;
    for (size_t unit : {0, 1, 2})
        for (size_t rank : {2, 3}) {
            if (unit >= rank) continue;
            auto c = random_case(rng_, rank, 1, pick(rng_, 1, 37), pick(rng_, 1, 53));
            c.x[2 + unit] = c.w[2 + unit] = 1;
            c.info.window.pads_begin[unit] = c.info.window.pads_end[unit] = 0;
            cases.push_back(c);
        }
    check_all(cases, rng_);
}

TEST_F(ConvTest, KernelsWithDepth) {
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i) {
        // Height and width 3 for Winograd, or 1 for rows of whole planes.
        auto c = random_case(rng_, 3, 1, pick(rng_, 1, 3) * (i % 2 ? 16 : 9), pick(rng_, 1, 53));
        auto extent = i < 3 ? 3 : 1;
        auto& window = c.info.window;
        c.constant_weights = true;
        for (size_t axis : {1, 2}) {
            c.w[2 + axis] = extent, c.x[2 + axis] = pick(rng_, extent, 14);
            window.strides[axis] = window.dilations[axis] = 1;
            window.pads_begin[axis] = window.pads_end[axis] = extent / 2;
        }
        c.w[2] = 3, window.pads_begin[0] = window.dilations[0], window.pads_end[0] = pick(rng_, 0, 2);
        c.x[2] = pick(rng_, 2 * window.dilations[0], 5);
        cases.push_back(c);
    }
    check_all(cases, rng_);
}

TEST_F(ConvTest, DilationsAboutTheSizeOfTheInput) {
    std::vector<Case> cases;
    for (int i = 0; i < 8; ++i) {
        auto rank = static_cast<size_t>(i % 3 + 1);
        auto c = random_case(rng_, rank, 1, pick(rng_, 1, 2) * (i % 2 ? 16 : 5), pick(rng_, 1, 53));
        auto& window = c.info.window;
        for (size_t axis = 0; axis < rank; ++axis) {
            c.w[2 + axis] = pick(rng_, 1, 4), c.x[2 + axis] = pick(rng_, 1, 9);
            window.dilations[axis] = pick(rng_, 1, 12);
            auto reach = window.dilations[axis] * (c.w[2 + axis] - 1);
            window.pads_begin[axis] = pick(rng_, 0, reach);
            window.pads_end[axis] = std::max<int64_t>(reach + pick(rng_, -3, 3) - window.pads_begin[axis], 0);
            auto padded = c.x[2 + axis] + window.pads_begin[axis] + window.pads_end[axis];
            if (padded <= reach) window.pads_end[axis] += reach + 1 - padded;
        }
        cases.push_back(c);
    }
    check_all(cases, rng_);
}

TEST_F(ConvTest, DilatedTiles) {
    std::vector<Case> cases;
    for (int i = 0; i < 5; ++i) {
        auto c = random_case(rng_, 2, 1, pick(rng_, 1, 37), pick(rng_, 1, 53));
        auto& window = c.info.window;
        c.constant_weights = true, window.strides = {1, 1};
        for (size_t axis : {0, 1}) {
            auto d = window.dilations[axis] = pick(rng_, 1, 5);
            c.w[2 + axis] = 3, c.x[2 + axis] = pick(rng_, 2 * d + 1, 30);
            window.pads_begin[axis] = pick(rng_, 0, 2 * d), window.pads_end[axis] = pick(rng_, 0, 2 * d);
        }
        cases.push_back(c);
    }
    check_all(cases, rng_);
}

TEST_F(ConvTest, RowsLargerThanTheCache) {
    auto c = random_case(rng_, 2, 1, 320, pick(rng_, 1, 20));
    auto& window = c.info.window;
    c.x[0] = 1, c.x[2] = 5, c.x[3] = pick(rng_, 580, 620), c.w[2] = c.w[3] = 3;
    window.strides = {2, 2}, window.dilations = {1, 1}, window.pads_begin = {1, 1}, window.pads_end = {0, 1};
    check_all({c}, rng_);
}

TEST_F(ConvTest, TensorsBeyondTheCaches) {
    // More than 8 MB, for which kernels of AVX-512 ask ahead where L3 has 32.
    for (auto taps : {1, 3}) {
        auto c = square_case(rng_, taps, 1, 1, taps == 1 ? 36 : 16, taps == 1 ? 33 : 16);
        c.x[0] = 1, c.x[2] = pick(rng_, 270, 280), c.x[3] = pick(rng_, 270, 280);
        c.info.epilogue.residual = true, c.constant_weights = true;
        Expected expected(c, rng_);
        std::set<std::string> ran;
        auto isa = cpu_features().isa;
        auto layout = isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
        for (int threads : {1, 2}) check(c, layout, layout, isa, threads, expected, ran);
    }
}

TEST_F(ConvTest, WideStrides) {
    std::vector<Case> cases;
    for (auto channels : {1, 16, 20}) {
        auto c = random_case(rng_, 1, 1, channels, pick(rng_, 1, 40));
        c.info.window.strides[0] = pick(rng_, 33, 200), c.w[2] = pick(rng_, 1, 300);
        c.x[2] = pick(rng_, 900, 1200);
        cases.push_back(c);
    }
    check_all(cases, rng_);
}

TEST_F(ConvTest, EmptyBatch) {
    auto c = square_case(rng_, 3, 1, 1, 16, 16);
    c.x[0] = 0;
    check_all({c}, rng_);
}

TEST_F(ConvTest, RoundedOperands) {
    std::vector<Case> cases;
    for (int i = 0; i < 24; ++i)
        cases.push_back(random_case(rng_, static_cast<size_t>(i % 3 + 1), 1, pick(rng_, 1, 70), pick(rng_, 1, 70)));
    for (int64_t kernel : {1, 3, 5})
        for (int64_t stride : {1, 2})
            cases.push_back(square_case(rng_, kernel, stride, 1, pick(rng_, 30, 100), pick(rng_, 30, 100)));
    for (int64_t in_group : {2, 6, 16, 32, 34})
        cases.push_back(square_case(rng_, 3, 1, pick(rng_, 2, 5), in_group, pick(rng_, 1, 40)));
    for (auto& c : cases) c.info.may_round = c.constant_weights = true;
    auto ran = check_all(cases, rng_);
    // The first layer by tiles has one id, emulated or not.
    for (auto const* id : {"conv:cpu:direct:bf16:avx512bf16", "conv:cpu:first_layer:bf16:avx512bf16", kDirectTiles,
                           "conv:cpu:first_layer:bf16:avx512amx"})
        EXPECT_EQ(ran.contains(id), cpu_features().isa >= Isa::Avx512Bf16) << id;
    EXPECT_EQ(ran.contains("conv:cpu:direct:bf16:avx512amx"), cpu_features().isa >= Isa::Avx512Amx);
}

TEST_F(ConvTest, FirstLayersByTiles) {
    std::vector<Case> cases;
    // Channels of one and two pairs; windows of up to 16 pairs; strides that leave columns out; more than two tiles.
    for (int64_t channels : {1, 2, 3, 4})
        for (int64_t kernel : {1, 3, 7})
            for (int64_t stride : {1, 2, 3}) {
                auto c = square_case(rng_, kernel, stride, 1, channels, pick(rng_, 1, 70));
                c.info.may_round = c.constant_weights = true;
                cases.push_back(c);
            }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:first_layer:bf16:avx512amx"), cpu_features().isa >= Isa::Avx512Bf16);
}

TEST_F(ConvTest, RefusalsNameTheReason) {
    Operand x, w, y;
    x.dtype = w.dtype = y.dtype = DataType::I32;
    x.dims = {1, 3, 5, 5}, w.dims = {4, 3, 1, 1}, y.dims = {1, 4, 5, 5};
    Operand const inputs[] = {x, w};
    auto found = candidates(ConvInfo{}, {inputs, {&y, 1}});
    EXPECT_TRUE(found.kernels.empty());
    ASSERT_FALSE(found.rejections.empty());
    EXPECT_NE(found.rejections.back().reason.find("i32"), std::string::npos) << found.rejections.back().reason;
}

/// The ids of Winograd kernels for [1, channels, 60, 60] and 3 × 3 taps.
std::set<std::string> forms_of_winograd(int64_t channels, Precision precision) {
    auto blocked = cpu_features().isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    Tensor weights({8, channels, 3, 3});
    Operand x, w = operand_of(argument(weights, Layout::Plain, true)), y;
    x.dtype = y.dtype = DataType::F32, x.layout = y.layout = blocked;
    x.dims = {1, channels, 60, 60}, y.dims = {1, 8, 60, 60};
    ConvInfo info;
    info.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    Operand const inputs[] = {x, w};
    Request request{inputs, {&y, 1}};
    request.isa = cpu_features().isa, request.precision = precision;
    std::set<std::string> ids;
    for (auto const& kernel : candidates(info, request).kernels)
        if (auto found = kernel->id().find("winograd_"); found != std::string::npos)
            ids.insert(kernel->id().substr(found, 11));
    return ids;
}

TEST_F(ConvTest, LargeTilesAreForFewChannels) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs AVX2";
    using Ids = std::set<std::string>;
    EXPECT_EQ(forms_of_winograd(128, Precision::Default), (Ids{"winograd_f2", "winograd_f4", "winograd_f6"}));
    EXPECT_EQ(forms_of_winograd(129, Precision::Default), (Ids{"winograd_f2", "winograd_f4"}));
    EXPECT_EQ(forms_of_winograd(16, Precision::Exact), Ids{});
}

TEST(PlaneShares, EveryBandOfEveryPlaneIsOneTask) {
    constexpr int64_t kImages = 2, kBlocks = 3, kBands = 4;
    for (bool by_rows : {false, true}) {
        PlaneShares shares{kBlocks, kBands, by_rows};
        std::set<std::pair<int64_t, int64_t>> tasks;
        for (int64_t i = 0; i < kImages * kBlocks * kBands; ++i) {
            auto [plane, band] = shares.at(i);
            EXPECT_TRUE(plane >= 0 && plane < kImages * kBlocks && band >= 0 && band < kBands);
            tasks.insert({plane, band});
        }
        EXPECT_EQ(tasks.size(), static_cast<size_t>(kImages * kBlocks * kBands));
        auto [plane, band] = shares.at(kBlocks);
        EXPECT_EQ(by_rows ? plane : band, by_rows ? 0 : 3) << "neighbours share a band, or a plane";
    }
}

}  // namespace
}  // namespace refactor::kernel
