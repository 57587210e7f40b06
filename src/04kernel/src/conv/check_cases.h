#pragma once
// All kernels that take a convolution, beside the reference.
#include "common/cpu_features.h"
#include "conv/direct.h"
#include "conv/first_tiles.h"
#include "conv/random_cases.h"
#include "conv/test_harness.h"
#include "kernel/ops/conv.h"

#include <algorithm>
#include <cfloat>
#include <set>

namespace refactor::kernel {

#if RG_X86
void run_rows_on_emulated_tiles(RowJob const&);
void run_split_rows_on_emulated_tiles(RowJob const&);
FirstTiles const& emulated_first_tiles();
#endif

namespace {

using namespace test;

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
        if (epilogue.residual && c.info.may_round) inputs.back().round_to_bf16();
        want = reference(c, inputs, c.info);
        auto linear = c.info;
        linear.epilogue.activation = {};
        std::vector<Tensor> magnitudes;
        for (auto const& t : inputs) magnitudes.push_back(t.absolute());
        bound = reference(c, magnitudes, linear);
    }
};

constexpr char kDirectTiles[] = "conv:cpu:direct:bf16:emulated", kSplitTiles[] = "conv:cpu:direct:f32:emulated";

/// Kernels of tiles (AMX), which this processor need not have, on emulated ones.
void add_emulated([[maybe_unused]] std::vector<std::unique_ptr<Kernel>>& kernels, [[maybe_unused]] ConvInfo const& info,
                  [[maybe_unused]] Request const& request) {
#if RG_X86
    auto add = [&](KernelResult found) {
        if (found) kernels.push_back(std::move(found).value());
    };
    static TileIsa const kTiles = with_tiles(run_rows_on_emulated_tiles),
                         kSplit = with_split_tiles(run_split_rows_on_emulated_tiles);
    if (request.isa == Isa::Avx512)
        return add(make_split_direct(info, request,
                                     {kSplitTiles, Isa::Avx512, []() -> TileIsa const& { return kSplit; }, false}));
    add(make_rounded_direct(info, request,
                            {kDirectTiles, Isa::Avx512Bf16, []() -> TileIsa const& { return kTiles; }, false}));
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
    static_cast<TensorDesc&>(y) = desc_of(want, out);
    Request const request{operands, {&y, 1}, "cpu", isa, threads};
    auto found = candidates(c.info, request);
    bool narrow = in == Layout::Blocked32 || out == Layout::Blocked32;
    ASSERT_FALSE(found.kernels.empty() && !narrow);
    if (isa == Isa::Avx512Bf16 || (isa == Isa::Avx512 && c.emulates_tiles))
        add_emulated(found.kernels, c.info, request);
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
            auto stored = out == Layout::Blocked32 ? 1. / 256 : 4 * FLT_EPSILON;
            auto tolerance = 1.1 * FLT_EPSILON * (static_cast<double>(terms) * 0.5 + 8) * bound.values[i] +
                             stored * std::abs(want.values[i]) + mixed * FLT_EPSILON * largest;
            ASSERT_NEAR(got.values[i], want.values[i], tolerance) << "at " << i << " of " << dims_text(y.dims);
        }
    }
}

/// X, or Y and the residual, or all of them as bf16, in turns; convolutions that cannot are left out.
void check_blocks_of_bf16(Case const& c, Isa isa, int turn, Expected const& expected, std::set<std::string>& ran) {
    constexpr auto kWide = Layout::Blocked16, kNarrow = Layout::Blocked32;
    constexpr Layout kPairs[][2] = {{kNarrow, kNarrow}, {kNarrow, kWide}, {kWide, kNarrow}};
    auto in = kPairs[turn % 3][0], out = kPairs[turn % 3][1];
    std::set<std::string> own;
    if (c.x[1] <= 4) in = Layout::Plain;
    if (c.w[0] <= 8) out = Layout::Plain;
    check(c, in, out, isa, turn % 2 + 1, expected, own);
    for (auto const& id : own) ran.insert(id + (in == kNarrow ? " of bf16" : "") + (out == kNarrow ? " to bf16" : ""));
}

/// Returns the ids of the kernels that ran.
std::set<std::string> check_all(std::vector<Case> const& cases, std::mt19937& rng) {
    std::set<std::string> ran;
    struct Setup {
        Isa isa;
        Layout layout;
    };
    int turn = 0;
    for (auto const& c : cases) {
        Expected expected(c, rng);
        ++turn;
        for (auto setup : {Setup{Isa::Scalar, Layout::Blocked16}, Setup{Isa::Avx2, Layout::Blocked8},
                           Setup{Isa::Avx512, Layout::Blocked16}, Setup{Isa::Avx512Bf16, Layout::Blocked16},
                           Setup{Isa::Avx512Amx, Layout::Blocked16}}) {
            bool rounds = setup.isa == Isa::Avx512Bf16;
            if (setup.isa > cpu_features().isa || (rounds && !c.info.may_round)) continue;
            check(c, setup.layout, setup.layout, setup.isa, 2, expected, ran);
            check(c, Layout::Plain, Layout::Plain, setup.isa, 1, expected, ran);
            check(c, Layout::Plain, setup.layout, setup.isa, 2, expected, ran);
            check(c, setup.layout, Layout::Plain, setup.isa, 1, expected, ran);
            if (c.info.may_round && setup.isa >= Isa::Avx512Bf16)
                check_blocks_of_bf16(c, setup.isa, turn, expected, ran);
            if (::testing::Test::HasFatalFailure()) return ran;
        }
    }
    return ran;
}

using ConvTest = RandomTest;

}  // namespace
}  // namespace refactor::kernel
