#include "conv/check_cases.h"
#include "conv/shares.h"

#include <array>

namespace refactor::kernel {
namespace {

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
    // Winograd takes as many groups together as share blocks: two, all, the last alone; few tiles, which threads share.
    for (auto const& [groups, in, out] : {std::array<int64_t, 3>{5, 24, 24}, {3, 40, 24}, {2, 7, 19}, {4, 8, 40}})
        for (int64_t stride : {1, 2}) {
            cases.push_back(square_case(rng_, 3, stride, groups, in, out));
            cases.push_back(square_case(rng_, 3, stride, groups, in, out));
            cases.back().x[2] = cases.back().x[3] = pick(rng_, 3, 7);
            cases.push_back(square_case(rng_, 5, 1, groups, in, out));
            cases.push_back(random_case(rng_, 1, groups, in, out));
            cases.back().w[2] = pick(rng_, 2, 4), cases.back().info.window.strides[0] = stride;
            for (auto i = cases.size() - 4; i < cases.size(); ++i) cases[i].constant_weights = true;
        }
    auto ran = check_all(cases, rng_);
    for (std::string form : {"f2", "f4", "f6", "f2s2", "f4s2", "line"}) {
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx2"), cpu_features().isa >= Isa::Avx2);
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx512"), cpu_features().isa >= Isa::Avx512);
    }
}

TEST_F(ConvTest, WinogradSaysWhichGroupsItIsFor) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "this processor lacks AVX2";
    auto why = [&](int64_t channels, int64_t taps, std::string const& form) {
        auto c = square_case(rng_, taps, 1, 3, channels, channels);
        c.info.epilogue = {}, c.constant_weights = true;
        Expected expected(c, rng_);
        std::vector<Argument> arguments{argument(expected.inputs[0], Layout::Blocked8, false),
                                        argument(expected.inputs[1], Layout::Plain, true)};
        std::vector<Operand> operands{operand_of(arguments[0]), operand_of(arguments[1])};
        Operand y;
        static_cast<TensorDesc&>(y) = desc_of(expected.want, Layout::Blocked8);
        auto found = candidates(c.info, {operands, {&y, 1}, "cpu", Isa::Avx2, 1});
        for (auto const& kernel : found.kernels)
            if (kernel->id().find(form) != std::string::npos) {
                ThreadPool pool(1);
                return Bench(*kernel, arguments, y, pool).rejection;
            }
        for (auto const& r : found.rejections)
            if (r.reason.find(form + ":avx2") != std::string::npos) return r.reason.substr(r.reason.find(": ") + 2);
        return std::string("not found");
    };
    EXPECT_EQ(why(12, 3, "winograd_f4"), "");
    EXPECT_EQ(why(1, 3, "winograd_f4"), "is for groups of 2 or more channels, got 1");
    EXPECT_EQ(why(12, 7, "winograd_f5"),
              "is for groups of whole blocks of 8 channels if kernels are cut or have depth");
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

TEST_F(ConvTest, LargeWindows) {
    std::vector<Case> cases;
    for (int64_t taps : {2, 4, 5, 6, 7, 9, 11})
        for (int i = 0; i < 5; ++i) {
            auto const rank = i == 2 ? size_t{3} : size_t{2};
            auto const groups = i == 3 ? 2 : 1;
            auto channels = [&] { return groups > 1 ? 16 * pick(rng_, 1, 2) : pick(rng_, 1, 50); };
            auto c = random_case(rng_, rank, groups, channels(), channels());
            auto& window = c.info.window;
            c.constant_weights = true;
            for (size_t axis = 0; axis < rank; ++axis) {
                bool const depth = axis + 2 < rank;
                c.w[2 + axis] = depth ? 3 : taps, c.x[2 + axis] = depth ? 4 : pick(rng_, taps, i == 1 ? taps + 3 : 33);
                window.strides[axis] = 1, window.dilations[axis] = i == 4 ? 2 : 1;
                auto reach = window.dilations[axis] * (c.w[2 + axis] - 1);
                window.pads_begin[axis] = pick(rng_, 0, reach), window.pads_end[axis] = pick(rng_, 0, reach);
                c.x[2 + axis] = std::max(c.x[2 + axis], reach + 1);
            }
            cases.push_back(c);
        }
    auto ran = check_all(cases, rng_);
    for (std::string form : {"f2", "f3", "f4", "f5"}) {
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

/// Of which every phase of the input is convolved by itself.
TEST_F(ConvTest, StridesOfLargeWindows) {
    std::vector<Case> cases;
    for (auto const& [taps, stride] :
         {std::pair<int64_t, int64_t>{4, 2}, {5, 2}, {6, 2}, {8, 2}, {5, 3}, {16, 4}, {3, 2}})
        for (int form = 0; form < 4; ++form) {
            auto const rank = form == 0 ? size_t{1} : form == 3 ? size_t{3} : size_t{2};
            auto c = random_case(rng_, rank, 1, pick(rng_, 1, 40), pick(rng_, 1, 40));
            auto& window = c.info.window;
            c.constant_weights = true;
            for (size_t axis = 0; axis < rank; ++axis) {
                bool const across = form == 2 && axis == 1, depth = axis + 2 < rank;
                c.w[2 + axis] = across ? 1 : depth ? 3 : taps;
                c.x[2 + axis] = depth ? 4 : pick(rng_, taps, 3 * taps + 30);
                window.strides[axis] = across || depth ? 1 : stride, window.dilations[axis] = 1;
                window.pads_begin[axis] = across ? 0 : pick(rng_, 0, c.w[2 + axis] - 1);
                window.pads_end[axis] = across ? 0 : pick(rng_, 0, c.w[2 + axis] - 1);
            }
            cases.push_back(c);
        }
    auto ran = check_all(cases, rng_);
    for (std::string form : {"f3", "f4", "f5", "f2s2", "line"}) {
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx2"), cpu_features().isa >= Isa::Avx2) << form;
        EXPECT_EQ(ran.contains("conv:cpu:winograd_" + form + ":f32:avx512"), cpu_features().isa >= Isa::Avx512) << form;
    }
}

TEST_F(ConvTest, Depthwise) {
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i)
        cases.push_back(random_case(rng_, static_cast<size_t>(i % 3 + 1), pick(rng_, 2, 50), 1, 1));
    for (auto kernel : {3, 5, 6, 7, 8, 11, 13})
        for (auto stride : {1, 2}) cases.push_back(square_case(rng_, kernel, stride, pick(rng_, 2, 50), 1, 1));
    for (auto outputs : {2, 3, 5, 16, 20})
        cases.push_back(random_case(rng_, static_cast<size_t>(outputs % 3 + 1), pick(rng_, 3, 40), 1, outputs));
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

TEST_F(ConvTest, ColumnsOfFewOutputs) {
    std::vector<Case> cases;
    for (int64_t outputs = 1; outputs <= 9; ++outputs) {
        for (size_t rank : {1, 2, 3}) cases.push_back(random_case(rng_, rank, 1, pick(rng_, 1, 15), outputs));
        cases.push_back(square_case(rng_, 5, pick(rng_, 1, 3), 1, pick(rng_, 1, 15), outputs));
    }
    // Rows of several parts; windows that reach beyond all of the input; rows of dilated windows.
    for (int64_t stride : {1, 2, 5}) {
        auto c = random_case(rng_, 1, 1, 2, 3);
        c.x[2] = 2500 * stride, c.w[2] = 37, c.info.window.strides[0] = stride;
        cases.push_back(c);
    }
    auto narrow = random_case(rng_, 2, 1, 3, 2), dilated = narrow;
    narrow.x[3] = 2, narrow.w[3] = 9;
    narrow.info.window.pads_begin[1] = narrow.info.window.pads_end[1] = 8, narrow.info.window.dilations[1] = 1;
    dilated.x[2] = 40, dilated.info.window.dilations[0] = 7;
    for (auto const& c : {narrow, dilated}) cases.push_back(c);
    // Phases that no tap reads; a row of windows that is too long for copies is refused.
    auto sparse = random_case(rng_, 2, 1, 2, 3), far = sparse;
    sparse.x[3] = 90, sparse.w[3] = 2, sparse.info.window.strides[1] = 8, sparse.info.window.dilations[1] = 3;
    far.x[2] = 1400, far.x[3] = 300, far.w[2] = 3, far.info.window.strides = {1, 3}, far.info.window.dilations[0] = 690;
    for (auto const& c : {sparse, far}) cases.push_back(c);
    for (int64_t group : {2, 3, 7})
        for (size_t rank : {1, 2, 3})
            cases.push_back(random_case(rng_, rank, group, pick(rng_, 1, 4), pick(rng_, 1, 5)));
    for (auto& c : cases) c.info.epilogue.residual = false;
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:columns:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:columns:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, ScatteredProductsOfFewOutputs) {
    std::vector<Case> cases;
    for (int64_t outputs = 1; outputs <= 9; ++outputs)
        for (size_t rank : {1, 2, 3}) cases.push_back(random_case(rng_, rank, 1, pick(rng_, 16, 90), outputs));
    cases.push_back(square_case(rng_, 5, 1, 1, 40, 2));
    // Rows and images of several parts; windows that reach beyond all of the input; a plane whose neighbours are
    // padding.
    auto longer = random_case(rng_, 1, 1, 17, 3), larger = square_case(rng_, 7, 1, 1, 16, 8);
    longer.x[2] = 20'000, longer.w[2] = 31, larger.x[2] = 93, larger.x[3] = 200;
    auto beyond = square_case(rng_, 3, 1, 1, 16, 2), deep = random_case(rng_, 3, 1, 20, 2);
    beyond.x[2] = 2, beyond.x[3] = 1, beyond.info.window.pads_begin = beyond.info.window.pads_end = {9, 6};
    deep.x[2] = 1, deep.w[2] = 3, deep.info.window.pads_begin[0] = deep.info.window.pads_end[0] = 2;
    for (auto const& c : {longer, larger, beyond, deep}) cases.push_back(c);
    for (auto& c : cases) std::ranges::fill(c.info.window.strides, 1), c.info.epilogue.residual = false;
    cases.push_back(square_case(rng_, 3, 2, 1, 40, 2));  // strides, too few inputs: refused
    cases.push_back(square_case(rng_, 3, 1, 1, 15, 2));
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:scattered:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:scattered:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, ManyTapsThatReadOnlyPadding) {
    std::vector<Case> cases;
    for (int64_t size : {3, 9, 21, 39})
        for (int64_t group : {1, 2})
            for (size_t rank : {1, 2}) {
                auto c = random_case(rng_, rank, group, 16, 16);
                auto& window = c.info.window;
                c.x[2] = size, c.w[2] = 40;
                window.strides[0] = window.dilations[0] = 1, window.pads_begin[0] = 20, window.pads_end[0] = 19;
                cases.push_back(c);
            }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx512"), cpu_features().isa >= Isa::Avx512);
}

TEST_F(ConvTest, KernelsAlongOneAxis) {
    std::vector<Case> cases;
    for (int64_t taps : {2, 3, 4, 5, 7, 9, 11, 33})
        for (size_t rank : {1, 2, 2})
            for (int64_t dilation : {1, 2, 5}) {
                auto c = random_case(rng_, rank, 1, pick(rng_, 1, 70), pick(rng_, 1, 70));
                size_t axis = cases.size() / 3 % 3 == 2 ? 0 : rank - 1;
                for (size_t i = 0; i < rank; ++i) {
                    auto& window = c.info.window;
                    c.w[2 + i] = i == axis ? taps : 1, window.strides[i] = 1, window.dilations[i] = dilation;
                    if (i != axis) window.pads_begin[i] = window.pads_end[i] = 0;
                    c.x[2 + i] = pick(rng_, i == axis ? (taps - 1) * dilation + 1 : 1, 50 + (taps - 1) * dilation);
                }
                cases.push_back(c);
            }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:winograd_line:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:winograd_line:f32:avx512"), cpu_features().isa >= Isa::Avx512);
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

TEST_F(ConvTest, ColumnsThatLeaveOutTaps) {
    std::vector<Case> cases;
    for (int64_t dilation : {5, 12})
        for (size_t rank : {1, 2, 3})
            for (int64_t stride : {1, 2}) {
                auto c = random_case(rng_, rank, 1, 32, pick(rng_, 1, 70));
                auto& window = c.info.window;
                for (auto axis = rank < 2 ? 0 : rank - 2; axis < rank; ++axis) {
                    auto taps = axis + 1 < rank ? 3 : 5;
                    c.w[2 + axis] = taps, c.x[2 + axis] = pick(rng_, dilation + 1, 2 * dilation + 9);
                    window.strides[axis] = axis + 1 < rank ? 1 : stride, window.dilations[axis] = dilation;
                    window.pads_begin[axis] = window.pads_end[axis] = dilation * (taps / 2);
                }
                cases.push_back(c);
            }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:direct:f32:avx512"), cpu_features().isa >= Isa::Avx512);
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
