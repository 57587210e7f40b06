#include "integer_matmul/integer_test.h"

namespace refactor::kernel::test {
namespace {

struct Convolution {
    Dims x, w, strides, dilations, begin, end;
    int64_t group = 1;

    Dims y() const {
        Dims dims{x[0], w[0]};
        for (size_t i = 2; i < x.size(); ++i) {
            auto extent = (w[i] - 1) * dilations[i - 2] + 1;
            dims.push_back((x[i] + begin[i - 2] + end[i - 2] - extent) / strides[i - 2] + 1);
        }
        return dims;
    }
};

Dims channels_last(Dims dims) {
    auto channels = dims[1];
    dims.erase(dims.begin() + 1);
    dims.push_back(channels);
    return dims;
}

void check(Convolution const& p, std::mt19937& random, bool last = true) {
    auto x = last ? channels_last(p.x) : p.x, y = last ? channels_last(p.y()) : p.y();
    int variant = 0;
    for (auto c : integer_cases()) {
        ++variant;
        Dims w_zeros;
        if (variant % 3 == 0) w_zeros = {p.w[0]};
        if (!last) c.residual = DataType::Undefined;
        auto inputs = with_operands(c, random_bytes(c.a, x, random), random_bytes(c.b, p.w, random), {}, w_zeros,
                                    p.w[0], element_count(p.w) / p.w[0], variant % 2 == 0, y, random);
        if (variant % 4 == 0) inputs[3] = {};
        if (variant % 5 == 0) inputs[2] = {};
        inputs[3].constant = c.constant && variant % 7 != 0;
        IntegerConvInfo info{{p.strides, p.dilations, p.begin, p.end}, p.group, c.result(), last};
        auto others = check_candidates(info, inputs, {Tensor(c.y, y)}, kFused, c.constant ? "constant W" : "");
        if (testing::Test::HasFailure()) return;
        if (cpu_features().isa >= Isa::Avx2) {
            EXPECT_GE(others, 1);
        }
    }
    if (last) check(p, random, false);
}

TEST(IntegerConv, CandidatesAgree) {
    std::mt19937 random(seed_of(311));
    for (auto const& p : {Convolution{{2, 5, 9, 11}, {7, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                          Convolution{{1, 3, 17, 19}, {35, 3, 5, 7}, {2, 3}, {1, 1}, {2, 0}, {1, 3}},
                          Convolution{{1, 18, 7, 6}, {70, 18, 3, 3}, {1, 1}, {2, 2}, {2, 1}, {2, 2}},
                          Convolution{{1, 33, 13, 12}, {130, 33, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                          Convolution{{1, 20, 13, 12}, {9, 20, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}})
        check(p, random);
}

TEST(IntegerConv, CandidatesAgreeOnGroups) {
    std::mt19937 random(seed_of(312));
    for (auto const& p : {Convolution{{1, 6, 9, 11}, {4, 3, 3, 2}, {1, 1}, {1, 2}, {1, 1}, {1, 0}, 2},
                          Convolution{{2, 37, 15, 18}, {37, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 37},
                          Convolution{{1, 130, 9, 7}, {130, 1, 5, 5}, {2, 2}, {1, 2}, {2, 3}, {2, 1}, 130},
                          Convolution{{1, 4, 9, 7}, {12, 1, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 4},
                          Convolution{{1, 48, 7, 5}, {48, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}})
        check(p, random);
}

TEST(IntegerConv, CandidatesAgreeOnFewColumns) {
    std::mt19937 random(seed_of(320));
    for (auto const& p :
         {Convolution{{1, 32, 9, 13}, {32, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8},
          Convolution{{2, 48, 7, 6}, {48, 8, 3, 3}, {2, 1}, {1, 2}, {0, 2}, {1, 1}, 6},
          Convolution{{1, 320, 5, 7}, {320, 16, 1, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 2}, 20},
          Convolution{{1, 16, 6, 7}, {16, 4, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 4},
          Convolution{{1, 64, 5, 5}, {64, 16, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 4},
          Convolution{{1, 272, 40}, {272, 8, 5}, {1}, {1}, {2}, {2}, 34},
          Convolution{{1, 16, 3, 4, 15}, {16, 8, 2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 2},
          // Blocks of 16 channels that are not whole, and more outputs than inputs.
          Convolution{{1, 40, 5, 7}, {40, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 5},
          Convolution{{1, 16, 5, 7}, {32, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}})
        for (auto c : integer_cases()) {
            auto inputs =
                with_operands(c, random_bytes(c.a, channels_last(p.x), random), random_bytes(c.b, p.w, random), {}, {},
                              p.w[0], element_count(p.w) / p.w[0], true, channels_last(p.y()), random);
            // What products of u8 and i8 read as zero.
            auto& zero = inputs[3];
            if (c.b == DataType::I8)
                zero = {};
            else
                zero.bytes[0] = std::byte{128}, zero.constant = true;
            IntegerConvInfo info{{p.strides, p.dilations, p.begin, p.end}, p.group, c.result(), true};
            check_candidates(info, inputs, {Tensor(c.y, channels_last(p.y()))}, kFused, c.constant ? "constant W" : "");
            if (testing::Test::HasFailure()) return;
        }
}

TEST(IntegerConv, CandidatesAgreeOnFirstLayers) {
    std::mt19937 random(seed_of(317));
    for (auto const& p : {Convolution{{1, 3, 9, 11}, {32, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                          Convolution{{2, 3, 7, 13}, {19, 3, 3, 3}, {1, 2}, {1, 1}, {0, 1}, {1, 0}},
                          Convolution{{1, 4, 8, 9}, {70, 4, 3, 3}, {2, 1}, {1, 1}, {1, 0}, {0, 1}},
                          Convolution{{1, 1, 9, 17}, {8, 1, 2, 8}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}})
        check(p, random);
}

/// Depthwise, with channels last, from every type of bytes to those, with or without a shift, and to f32.
void check_depthwise(Convolution const& p, std::mt19937& random) {
    for (int i = 0; i < 16; ++i) {
        auto x = i & 1 ? DataType::I8 : DataType::U8, y = i & 2 ? DataType::I8 : DataType::U8;
        bool rounded = i >= 4 && i < 8, shifted = i >= 8 && i != 15, floats = i >= 12;
        if (floats) y = DataType::F32;
        IntegerCase c{x, DataType::I8, y, true, y == DataType::U8, true, rounded, floats && i < 14, shifted};
        auto inputs = with_operands(c, random_bytes(x, channels_last(p.x), random), random_bytes(c.b, p.w, random), {},
                                    {}, p.w[0], element_count(p.w) / p.w[0], true, {}, random);
        inputs[3] = {};
        IntegerConvInfo info{{p.strides, p.dilations, p.begin, p.end}, p.group, c.result(), true};
        auto tolerance = floats ? kFused : Tolerance{};
        EXPECT_GE(check_candidates(info, inputs, {Tensor(y, channels_last(p.y()))}, tolerance), 1);
    }
}

TEST(IntegerConv, CandidatesAgreeOnDepthwiseBytes) {
    std::mt19937 random(seed_of(315));
    for (auto const& p :
         {Convolution{{2, 37, 15, 18}, {37, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 37},
          Convolution{{1, 330, 9, 7}, {330, 1, 5, 5}, {2, 2}, {1, 2}, {2, 3}, {2, 1}, 330},
          Convolution{{1, 64, 9, 7}, {64, 1, 2, 3}, {1, 2}, {1, 1}, {0, 0}, {1, 0}, 64},
          Convolution{{1, 96, 7, 7}, {96, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 96},
          Convolution{{1, 96, 9, 12}, {96, 1, 3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}, 96},
          Convolution{{1, 16, 1, 3}, {16, 1, 3, 5}, {1, 1}, {1, 1}, {2, 3}, {1, 4}, 16},
          Convolution{{1, 70, 11, 23}, {70, 1, 7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, 70},
          Convolution{{1, 21, 12, 1}, {21, 1, 5, 4}, {2, 1}, {2, 1}, {1, 2}, {0, 1}, 21},
          // Windows of four rows of a strip, wider than what is interleaved at once.
          Convolution{{2, 80, 7, 75}, {80, 1, 5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 80},
          Convolution{{1, 32, 5, 131}, {32, 1, 5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 32},
          Convolution{{1, 120, 9, 40}, {120, 1, 5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}, 120},
          Convolution{{1, 64, 6, 50}, {64, 1, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 64},
          Convolution{{1, 24, 5, 9}, {24, 1, 3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 24},
          // Windows along one axis, and along three.
          Convolution{{1, 72, 6, 20}, {72, 1, 1, 9}, {1, 1}, {1, 1}, {0, 4}, {0, 4}, 72},
          Convolution{{1, 40, 20, 3}, {40, 1, 9, 1}, {2, 1}, {1, 1}, {4, 0}, {4, 0}, 40},
          Convolution{{2, 64, 150}, {64, 1, 31}, {1}, {1}, {15}, {15}, 64},
          Convolution{{1, 70, 4, 5, 6}, {70, 1, 3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 70},
          // Windows of one pixel, whose dilation means nothing.
          Convolution{{1, 96, 18, 20}, {96, 1, 1, 1}, {1, 1}, {2, 2}, {3, 1}, {1, 1}, 96},
          Convolution{{1, 40, 20}, {40, 1, 1}, {1}, {2}, {0}, {2}, 40},
          // Columns of windows that are multiplied in parts, of four, two and one rows.
          Convolution{{1, 16, 10, 24}, {16, 1, 9, 23}, {1, 1}, {1, 1}, {4, 11}, {4, 11}, 16},
          Convolution{{1, 70, 5, 19}, {70, 1, 17, 17}, {1, 1}, {1, 1}, {8, 8}, {8, 8}, 70},
          Convolution{{1, 64, 3, 5}, {64, 1, 31, 31}, {1, 1}, {1, 1}, {15, 15}, {15, 15}, 64},
          Convolution{{1, 40, 9, 21}, {40, 1, 13, 9}, {2, 2}, {1, 2}, {6, 8}, {6, 8}, 40},
          Convolution{{1, 34, 3, 40}, {34, 1, 51, 5}, {1, 1}, {1, 1}, {25, 2}, {25, 2}, 34},
          Convolution{{1, 33, 2, 3, 11}, {33, 1, 5, 7, 7}, {1, 1, 1}, {1, 1, 1}, {2, 3, 3}, {2, 3, 3}, 33},
          // Columns of a window that there is no room for.
          Convolution{{1, 16, 4, 84}, {16, 1, 2, 70}, {1, 1}, {1, 1}, {1, 11}, {0, 11}, 16}})
        check_depthwise(p, random);
}

TEST(IntegerConv, CandidatesAgreeOnAnyDepthwiseWindow) {
    std::mt19937 random(seed_of(319));
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
    for (int i = 0; i < 16; ++i) {
        auto channels = pick(2, 140);
        Convolution p{{pick(1, 2), channels}, {channels, 1}, {}, {}, {}, {}, channels};
        for (auto axes = pick(1, 3); axes > 0; --axes) {
            auto taps = pick(1, p.x.size() > 3 ? 3 : 7), dilation = pick(1, 2), before = pick(0, 3), after = pick(0, 3);
            auto extent = (taps - 1) * dilation + 1;
            p.x.push_back(std::max<int64_t>(1, extent - before - after) + pick(0, p.x.size() > 3 ? 4 : 20));
            p.w.push_back(taps), p.strides.push_back(pick(1, 3)), p.dilations.push_back(dilation);
            p.begin.push_back(before), p.end.push_back(after);
        }
        check_depthwise(p, random);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(IntegerConv, CandidatesAgreeOnWinograd) {
    std::mt19937 random(seed_of(316));
    for (auto const& p : {Convolution{{2, 33, 5, 6}, {70, 33, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                          Convolution{{1, 64, 7, 27}, {16, 64, 3, 3}, {1, 1}, {1, 1}, {0, 2}, {3, 0}},
                          Convolution{{1, 40, 3, 4}, {130, 40, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 1}}})
        check(p, random);
}

TEST(IntegerConv, CandidatesAgreeOnSumsThatWouldSaturate) {
    std::mt19937 random(seed_of(318));
    for (auto const& p : {Convolution{{2, 40, 9, 11}, {37, 40, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                          Convolution{{1, 18, 7, 6}, {70, 18, 3, 3}, {1, 1}, {2, 2}, {2, 1}, {2, 2}},
                          Convolution{{1, 64, 13, 12}, {130, 64, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                          Convolution{{1, 48, 7, 5}, {48, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
                          Convolution{{1, 3, 17, 19}, {35, 3, 5, 7}, {2, 3}, {1, 1}, {2, 0}, {1, 3}}})
        for (auto x : {DataType::U8, DataType::I8})
            for (bool last : {true, false}) {
                IntegerCase c{x, DataType::I8, DataType::U8, true, false, true};
                auto x_dims = last ? channels_last(p.x) : p.x, y_dims = last ? channels_last(p.y()) : p.y();
                auto inputs = with_operands(c, random_bytes(x, x_dims, random),
                                            random_small_bytes(p.w, element_count(p.w) / p.w[0] / p.w[1], random), {},
                                            {}, p.w[0], element_count(p.w) / p.w[0], true, y_dims, random);
                IntegerConvInfo info{{p.strides, p.dilations, p.begin, p.end}, p.group, c.result(), last};
                Tensor y(DataType::U8, y_dims);
                check_candidates(info, inputs, {y}, {});
                if (cpu_features().isa >= Isa::Avx2) {
                    EXPECT_EQ(saturating_candidates(info, inputs, y), 1);
                }
            }
}

TEST(IntegerConv, WinogradDeclinesSumsBeyondItsRange) {
    Tensor w(DataType::I8, {1, 150, 3, 3});
    std::fill(w.bytes.begin(), w.bytes.end(), std::byte{127});
    std::vector<Tensor> inputs{Tensor(DataType::U8, {1, 5, 5, 150}), w};
    inputs[1].constant = true;
    inputs.resize(IntegerMatMulInfo::kInputs);
    std::fill(inputs[0].bytes.begin(), inputs[0].bytes.end(), std::byte{255});
    IntegerConvInfo info{{{1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1, {}, true};
    std::vector<Tensor> outputs{Tensor(DataType::I32, {1, 3, 3, 1})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto answer = candidates(info, request_of(in, results, cpu_features().isa, 1));
    for (auto const& kernel : answer.kernels) EXPECT_EQ(kernel->id().find("winograd"), std::string::npos);
    auto is_why = [](Rejection const& r) { return r.reason.find("26 bits") != std::string::npos; };
    if (cpu_features().isa >= Isa::Avx2) {
        EXPECT_TRUE(std::any_of(answer.rejections.begin(), answer.rejections.end(), is_why));
    }
}

TEST(IntegerConv, CandidatesAgreeOnOtherRanks) {
    std::mt19937 random(seed_of(313));
    for (auto const& p : {Convolution{{2, 5, 33}, {7, 5, 4}, {2}, {3}, {3}, {2}},
                          Convolution{{1, 3, 6, 7, 9}, {5, 3, 2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 1, 0}, {0, 1, 2}}})
        check(p, random);
}

TEST(IntegerConv, RefusesSizesThatDoNotFit) {
    std::vector<Tensor> inputs{
        Tensor(DataType::U8, {1, 4, 5, 5}), Tensor(DataType::I8, {6, 3, 3, 3}), {}, {}, {}, {}, {}, {}, {}};
    auto in = operands_of(inputs), results = operands_of({Tensor(DataType::I32, {1, 6, 3, 3})});
    PackCache packs;
    std::vector<TensorDesc const*> x;
    for (auto const& t : inputs) x.push_back(t.desc.dtype == DataType::Undefined ? nullptr : &t.desc);
    TensorDesc y{DataType::I32, Layout::Plain, {1, 6, 3, 3}};
    TensorDesc const* outputs[]{&y};
    IntegerConvInfo info{{{1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1, {}};
    for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
        auto task = kernel->bind({x, outputs, {}, packs, 1});
        ASSERT_FALSE(task.ok()) << kernel->id();
        EXPECT_NE(task.error().reason.find("[6, 3, 3, 3]"), std::string::npos) << task.error().reason;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
