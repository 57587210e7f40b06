// First layers' images as vectors of channels, on the emulated GPU.
#include "cuda/device_test.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "kernel/ops/movement.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;
using enum DataType;

constexpr unsigned kSeed = 20261127;

size_t at(int64_t i) { return static_cast<size_t>(i); }

void check(DataType from, DataType to, Dims const& dims) {
    std::mt19937 random(kSeed);
    std::vector<Tensor> inputs{numbers(from, dims, random)};
    auto vector = 128 / static_cast<int64_t>(bits_of(to)), plane = element_count(dims) / dims[0] / dims[1];
    Dims out{dims[0]};
    for (size_t axis = 2; axis < dims.size(); ++axis) out.push_back(dims[axis]);
    out.push_back(vector);
    auto y = run_on_device(ChannelVectorsInfo{}, inputs, {Tensor(to, out)}, {}, emulated(), false);
    ASSERT_EQ(y.size(), 1u);
    auto x = reals(inputs[0]), actual = reals(y[0]);
    auto step = to == F32 ? 0 : to == F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < y[0].count(); ++i) {
        auto channel = i % vector, place = i / vector;
        auto wanted = channel < dims[1] ? x[at((place / plane * dims[1] + channel) * plane + place % plane)] : 0;
        ASSERT_LE(std::abs(actual[at(i)] - wanted), step * std::abs(wanted)) << "element " << i;
    }
}

std::string refusal(Tensor const& x, Tensor const& y, std::string const& device) {
    std::vector<Operand> in{{x, nullptr}}, out{{y, nullptr}};
    auto* place = device == "cpu" ? nullptr : &emulated();
    auto found = candidates(ChannelVectorsInfo{}, Request{in, out, device, Isa::Scalar, 1, Precision::Default, place});
    if (found.kernels.empty()) return found.rejections.back().reason;
    std::vector<TensorDesc const*> inputs{&x}, outputs{&y};
    PackCache packs;
    auto task = found.kernels[0]->bind({inputs, outputs, {}, packs, 1});
    return task.ok() ? "" : task.error().reason;
}

TEST(CudaChannelVectors, HaveZerosBehindTheChannels) {
    check(F32, F16, {2, 3, 7, 9});
    check(F32, BF16, {1, 7, 300});
    check(F16, F16, {3, 4, 2, 3, 5});
    check(BF16, BF16, {1, 8, 5, 5});
    check(F32, F32, {2, 3, 5, 4});
    check(F32, F16, {0, 3, 5, 4});
}

TEST(CudaChannelVectors, DeclineOtherOperands) {
    EXPECT_NE(refusal({F32, {1, 3, 4, 5}}, {F16, {1, 4, 5, 8}}, "cpu").find("only a GPU"), std::string::npos);
    EXPECT_NE(refusal({F64, {1, 3, 4, 5}}, {F64, {1, 4, 5, 2}}, "nvidia").find("f64"), std::string::npos);
    EXPECT_NE(refusal({F32, {3, 4}}, {F16, {3, 8}}, "nvidia").find("images"), std::string::npos);
    EXPECT_NE(refusal({F32, {1, 9, 4, 5}}, {F16, {1, 4, 5, 8}}, "nvidia").find("9 channels"), std::string::npos);
    EXPECT_NE(refusal({F32, {1, 3, 4, 5}}, {F16, {1, 5, 4, 8}}, "nvidia").find("positions of X"), std::string::npos);
    EXPECT_EQ(refusal({F32, {1, 3, 4, 5}}, {F16, {1, 4, 5, 8}}, "nvidia"), "");
}

TEST(CudaPlugin, CompilesChannelVectors) {
    SourceCollector collector;
    for (auto from : {F32, F16, BF16})
        for (auto to : {F32, F16, BF16}) {
            auto vector = 128 / static_cast<int64_t>(bits_of(to));
            collector(ChannelVectorsInfo{}, {{from, {2, 3, 7, 9}}}, {{to, {2, 7, 9, vector}}});
        }
    EXPECT_EQ(collector.sources.size(), 9u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
