#include "conv/check_cases.h"

namespace refactor::kernel {
namespace {

class RoundedConv : public ConvTest {};

TEST_F(RoundedConv, Operands) {
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
    for (auto const* id : {"conv:cpu:direct:bf16:avx512bf16", "conv:cpu:first_layer:bf16:avx512bf16", kDirectTiles})
        EXPECT_EQ(ran.contains(id), cpu_features().isa >= Isa::Avx512Bf16) << id;
    for (auto const* id : {"conv:cpu:direct:bf16:avx512bf16", kDirectTiles})
        for (auto const* tensors : {" of bf16", " to bf16", " of bf16 to bf16"})
            EXPECT_EQ(ran.contains(id + std::string(tensors)), cpu_features().isa >= Isa::Avx512Bf16) << id << tensors;
    EXPECT_EQ(ran.contains("conv:cpu:direct:bf16:avx512amx"), cpu_features().isa >= Isa::Avx512Amx);
}

TEST_F(RoundedConv, FewOutputsOfBlocks) {
    std::vector<Case> cases;
    for (int64_t outputs = 1; outputs <= 8; ++outputs) {
        auto c = square_case(rng_, pick(rng_, 1, 3), pick(rng_, 1, 2), 1, pick(rng_, 17, 100), outputs);
        c.info.may_round = c.constant_weights = true, c.info.epilogue.residual = false;
        for (int i = 0; i < 3; ++i) cases.push_back(c);
    }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:few_outputs:bf16:avx512bf16 of bf16"), cpu_features().isa >= Isa::Avx512Bf16);
}

TEST_F(RoundedConv, GroupsOfPartsOfTiles) {
    for (int64_t in_group : {2, 4, 8, 16, 24, 40})
        for (int64_t groups : {3, 8}) {
            auto c = square_case(rng_, 3, pick(rng_, 1, 2), groups, in_group, pick(rng_, 0, 1) ? in_group : 7);
            c.info.may_round = c.constant_weights = true;
            auto ran = check_all({c}, rng_);
            EXPECT_EQ(ran.contains(kDirectTiles), cpu_features().isa >= Isa::Avx512Bf16) << in_group;
        }
    std::vector<Case> cases;
    // Groups of 24 outputs end within blocks of 32, which two chunks make a half of each.
    for (int i = 0; i < 3; ++i) {
        cases.push_back(square_case(rng_, 3, 1, 3, 24, 24));
        cases.back().info.may_round = cases.back().constant_weights = true;
    }
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains(std::string(kDirectTiles) + " to bf16"), cpu_features().isa >= Isa::Avx512Bf16);
}

/// All outputs are made by padding.
TEST_F(RoundedConv, OfNothing) {
    std::vector<Case> cases;
    for (int64_t groups : {1, 1, 1, 4, 32, 40}) {
        auto width = groups == 1 ? 40 : 32 / groups;
        auto c =
            square_case(rng_, 3, pick(rng_, 1, 2), groups, std::max<int64_t>(1, width), std::max<int64_t>(1, width));
        c.info.window.pads_begin = {2, 2}, c.info.window.pads_end = {2, 2};
        c.info.may_round = true, c.x[2] = 0;
        cases.insert(cases.end(), 3, c);
    }
    auto ran = check_all(cases, rng_);
    for (auto const* tensors : {" of bf16", " to bf16", " of bf16 to bf16"})
        EXPECT_EQ(ran.contains(std::string("conv:cpu:empty:bf16") + tensors), cpu_features().isa >= Isa::Avx512Bf16)
            << tensors;
}

TEST_F(RoundedConv, FirstLayersByTiles) {
    std::vector<Case> cases;
    auto add = [&](int64_t kernel, int64_t stride, int64_t channels) {
        cases.push_back(square_case(rng_, kernel, stride, 1, channels, pick(rng_, 1, 70)));
        cases.back().info.may_round = cases.back().constant_weights = true;
    };
    // Channels of one and two pairs; windows of up to 16 pairs; strides that leave columns out; more than two tiles.
    for (int64_t channels : {1, 2, 3, 4})
        for (int64_t kernel : {1, 3, 7})
            for (int64_t stride : {1, 2, 3}) add(kernel, stride, channels);
    // Rows of the window in two parts.
    add(11, 4, 3), add(16, 16, 2), add(16, 16, 3);
    auto ran = check_all(cases, rng_);
    // One id, emulated or not.
    EXPECT_EQ(ran.contains("conv:cpu:first_layer:bf16:avx512amx"), cpu_features().isa >= Isa::Avx512Bf16);
}

}  // namespace
}  // namespace refactor::kernel
