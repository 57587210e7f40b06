#include "conv_transpose/conv_transpose.h"

#include "common/cpu_features.h"
#include "conv/test_harness.h"

#include <algorithm>
#include <cfloat>
#include <set>

namespace refactor::kernel {

#if RG_X86
void run_split_rows_on_emulated_tiles(RowJob const&);
#endif

namespace {

using namespace test;

constexpr char kEmulated[] = "conv_transpose:cpu:phases:f32:emulated";

/// The kernel of tiles (AMX), which this processor need not have, on emulated ones.
void add_emulated([[maybe_unused]] std::vector<std::unique_ptr<Kernel>>& kernels,
                  [[maybe_unused]] ConvTransposeInfo const& info, [[maybe_unused]] Request const& request) {
#if RG_X86
    static TileIsa const kSplit = with_split_tiles(run_split_rows_on_emulated_tiles);
    auto found = make_split_phases(info, request, Isa::Avx512, kSplit, kEmulated);
    if (found) kernels.insert(kernels.begin(), std::move(found).value());
#endif
}

struct Case {
    Dims x, w, y;
    ConvTransposeInfo info;
    bool constant_weights = true;
};

Tensor reference(Case const& c, std::vector<Tensor> const& inputs, ConvTransposeInfo const& info) {
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (auto const& t : inputs) arguments.push_back(argument(t, Layout::Plain));
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    y.dtype = DataType::F32, y.dims = c.y;
    auto found = candidates(info, {operands, {&y, 1}});
    ThreadPool pool(1);
    Bench bench(*found.kernels.back(), arguments, y, pool);
    bench.run();
    return loaded(bench.output(), y.dims, Layout::Plain);
}

/// Tolerance as in conv_test.cc: K/2 eps Σ|x w| for a sum of K products, a few ulps for the activation, and 64 eps of
/// the largest Σ|x w| where Winograd's transforms mix outputs. Returns the ids of the kernels that ran.
std::set<std::string> check(Case const& c, std::mt19937& rng) {
    auto const& epilogue = c.info.epilogue;
    std::vector<Tensor> inputs{Tensor::random(c.x, rng), Tensor::random(c.w, rng)}, magnitudes;
    if (c.info.may_round)
        for (auto& t : inputs) t.round_to_bf16();
    if (epilogue.bias) inputs.push_back(Tensor::random({c.y[1]}, rng));
    if (epilogue.residual) inputs.push_back(Tensor::random(c.y, rng));
    if (epilogue.residual && c.info.may_round) inputs.back().round_to_bf16();
    for (auto const& t : inputs) magnitudes.push_back(t.absolute());
    auto want = reference(c, inputs, c.info);
    auto linear = c.info;
    linear.epilogue.activation = {};
    auto bound = reference(c, magnitudes, linear);
    auto terms = static_cast<double>(element_count(c.w) / c.w[1] / c.info.group);
    ThreadPool pool(2);
    std::set<std::string> ran;
    auto largest = static_cast<double>(*std::max_element(bound.values.begin(), bound.values.end()));
    for (auto isa : {Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Avx512Amx})
        for (auto layout : {Layout::Plain, Layout::Blocked8, Layout::Blocked16, Layout::Blocked32}) {
            if (isa > cpu_features().isa) continue;
            bool const narrow = layout == Layout::Blocked32;
            std::vector<Argument> arguments;
            std::vector<Operand> operands;
            for (size_t i = 0; i < inputs.size(); ++i) {
                bool image = i == 0 || i == 3 || (i == 2 && !epilogue.bias);
                arguments.push_back(argument(inputs[i], image ? layout : Layout::Plain, i == 1 && c.constant_weights));
            }
            for (auto const& a : arguments) operands.push_back(operand_of(a));
            Operand y;
            static_cast<TensorDesc&>(y) = desc_of(want, layout);
            auto found = candidates(c.info, {operands, {&y, 1}, "cpu", isa, 2});
            EXPECT_TRUE(narrow || !found.kernels.empty());
            add_emulated(found.kernels, c.info, {operands, {&y, 1}, "cpu", isa, 2});
            for (auto const& kernel : found.kernels) {
                if (isa != Isa::Scalar && kernel->id().find("reference") != std::string::npos) continue;
                SCOPED_TRACE(kernel->id() + " " + dims_text(c.x) + " * " + dims_text(c.w) + " -> " + dims_text(c.y) +
                             " " + c.info.attributes());
                Bench bench(*kernel, arguments, y, pool);
                if (!bench.task) continue;
                bench.run();
                ran.insert(kernel->id());
                auto mixed = kernel->id().find("winograd") == std::string::npos ? 0. : 64 * FLT_EPSILON * largest;
                auto got = loaded(bench.output(), c.y, layout);
                for (size_t i = 0; i < want.values.size(); ++i) {
                    EXPECT_NEAR(got.values[i], want.values[i],
                                mixed + 1.1 * FLT_EPSILON * (terms * 0.5 + 8) * bound.values[i] +
                                    (narrow ? 1. / 256 : 4 * FLT_EPSILON) * std::abs(want.values[i]));
                    if (testing::Test::HasFailure()) return ran;
                }
            }
        }
    return ran;
}

TEST(ConvTranspose, AllCandidatesMatchTheReference) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 rng(static_cast<uint32_t>(seed));
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    int by_tiles = 0;
    for (int round = 0; round < 40; ++round) {
        Case c;
        auto rank = static_cast<size_t>(round % 4 == 3 ? 3 : round % 2 + 1);
        c.info.group = round % 5 == 0 ? pick(2, 4) : 1;
        auto out_group = pick(1, 37);
        c.x = {pick(1, 2), c.info.group * (round % 3 ? pick(1, 30) : pick(33, 100))}, c.w = {c.x[1], out_group},
        c.y = {c.x[0], c.info.group * out_group};
        auto& window = c.info.window;
        for (size_t i = 0; i < rank; ++i) {
            // Every other case is the 2 × 2 with stride 2 of decoders.
            bool plain = round % 8 < 2;
            c.w.push_back(plain ? 2 : pick(1, 4)), c.x.push_back(pick(2, rank == 3 ? 5 : 15));
            window.strides.push_back(plain ? 2 : pick(1, 3)), window.dilations.push_back(plain ? 1 : pick(1, 2));
            auto full = (c.x.back() - 1) * window.strides[i] + window.dilations[i] * (c.w.back() - 1) + 1;
            auto spare = std::min<int64_t>(2, (full - 1) / 2);
            window.pads_begin.push_back(plain ? 0 : pick(0, spare)),
                window.pads_end.push_back(plain ? 0 : pick(0, spare));
            c.y.push_back(full - window.pads_begin[i] - window.pads_end[i] +
                          (plain ? 0 : pick(0, window.strides[i] - 1)));
        }
        auto bits = rng();
        c.info.epilogue.bias = bits & 1, c.info.epilogue.residual = (bits >> 1 & 3) == 0,
        c.info.epilogue.residual_last = bits >> 3 & 1;
        c.info.epilogue.activation.kind = bits >> 4 & 1   ? ActivationKind::Relu
                                          : bits >> 5 & 1 ? ActivationKind::Silu
                                                          : ActivationKind::None;
        c.constant_weights = bits >> 6 & 3, c.info.may_round = bits >> 8 & 1;
        by_tiles += check(c, rng).contains(kEmulated);
        if (HasFailure()) return;
    }
    if (cpu_features().isa >= Isa::Avx512) {
        EXPECT_GT(by_tiles, 0);
    }
}

/// Phases of 2 × 2 to 4 × 4 taps, and of more along one axis, some of which have fewer.
TEST(ConvTranspose, PhasesOfSeveralTaps) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 rng(static_cast<uint32_t>(seed));
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    std::set<std::string> ran;
    for (auto const& [kernel, stride] :
         {std::pair<int64_t, int64_t>{4, 2}, {3, 2}, {5, 2}, {6, 2}, {8, 2}, {5, 3}, {16, 8}, {11, 2}, {7, 1}})
        for (auto const& [rank, line] : {std::pair<size_t, bool>{1, true}, {2, false}, {2, true}}) {
            Case c;
            c.x = {pick(1, 2), pick(1, 40)}, c.w = {c.x[1], pick(1, 37)}, c.y = {c.x[0], c.w[1]};
            auto& window = c.info.window;
            for (size_t i = 0; i < rank; ++i) {
                bool const flat = line && i == 1;
                c.w.push_back(flat ? 1 : kernel), c.x.push_back(pick(1, 14));
                window.strides.push_back(flat ? 1 : stride), window.dilations.push_back(1);
                auto full = (c.x.back() - 1) * window.strides[i] + c.w.back();
                auto spare = std::min<int64_t>(flat ? 0 : kernel, (full - 1) / 2);
                window.pads_begin.push_back(pick(0, spare)), window.pads_end.push_back(pick(0, spare));
                c.y.push_back(full - window.pads_begin[i] - window.pads_end[i] + pick(0, window.strides[i] - 1));
            }
            c.info.epilogue.bias = pick(0, 1), c.info.epilogue.residual = pick(0, 2) == 0;
            c.info.epilogue.residual_last = pick(0, 1);
            constexpr ActivationKind kKinds[] = {ActivationKind::None, ActivationKind::Relu, ActivationKind::Silu};
            c.info.epilogue.activation.kind = kKinds[pick(0, 2)];
            ran.merge(check(c, rng));
            if (HasFailure()) return;
        }
    for (std::string form : {"f3", "f4", "f5", "line"})
        for (auto [isa, name] : {std::pair{Isa::Avx2, "avx2"}, {Isa::Avx512, "avx512"}})
            EXPECT_EQ(ran.contains("conv_transpose:cpu:winograd_" + form + ":f32:" + name), cpu_features().isa >= isa);
}

/// Of one tap and a stride of 2 along an axis every other output has no tap, and so no weights.
TEST(ConvTranspose, PhasesMayHaveNoTaps) {
    std::mt19937 rng(1);
    for (bool constant : {true, false}) {
        Case c{{1, 40, 9}, {40, 1, 1}, {1, 1, 17}, {}, constant};
        c.info.window = {{2}, {1}, {0}, {0}};
        c.info.epilogue.bias = true;
        check(c, rng);
    }
}

/// As a bilinear interpolation of scores is written; taps are apart where strides and dilations share divisors.
TEST(ConvTranspose, WideStrides) {
    std::mt19937 rng(3);
    Case wide{{1, 5, 3, 2}, {5, 3, 40, 40}, {1, 3, 80, 60}, {}};
    wide.info.window = {{20, 20}, {1, 1}, {10, 10}, {10, 10}};
    Case dilated{{1, 5, 9}, {5, 3, 7}, {1, 3, 73}, {}};
    dilated.info.window = {{6}, {4}, {0}, {0}};
    for (auto const& c : {wide, dilated}) check(c, rng);
}

/// A window of 3 × 3 makes two rows of nothing; tensors of bf16 have a kernel for it.
TEST(ConvTranspose, OfNothing) {
    std::mt19937 rng(1);
    Case c{{2, 40, 0, 5}, {40, 40, 3, 3}, {2, 40, 2, 7}, {}};
    c.info.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    c.info.epilogue.bias = c.info.may_round = true;
    check(c, rng);
    if (cpu_features().isa < Isa::Avx512Bf16) return;
    std::vector<Argument> arguments{argument(Tensor(c.x), Layout::Blocked32),
                                    argument(Tensor(c.w), Layout::Plain, true), argument(Tensor({40}), Layout::Plain)};
    std::vector<Operand> operands;
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    static_cast<TensorDesc&>(y) = desc_of(Tensor(c.y), Layout::Blocked32);
    auto found = candidates(c.info, {operands, {&y, 1}, "cpu", cpu_features().isa, 2});
    ASSERT_FALSE(found.kernels.empty());
    EXPECT_EQ(found.kernels.back()->id(), "conv_transpose:cpu:empty:bf16");
}

}  // namespace
}  // namespace refactor::kernel
