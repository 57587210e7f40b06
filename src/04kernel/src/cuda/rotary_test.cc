// Rotary position embedding on the emulated GPU, against sums in f64.
#include "kernel/ops/rotary.h"

#include "cuda/device_test.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;
using enum DataType;

constexpr unsigned kSeed = 20261128;

size_t at(int64_t i) { return static_cast<size_t>(i); }

void check(DataType type, RotaryInfo const& info, Dims const& x, Dims angles) {
    std::mt19937 random(kSeed);
    angles.push_back((info.both ? 2 : 1) * info.half);
    std::vector<Tensor> inputs{numbers(type, x, random), numbers(type, angles, random), numbers(type, angles, random)};
    auto y = run_on_device(info, inputs, {Tensor(type, x)}, {}, emulated(), false);
    ASSERT_EQ(y.size(), 1u);
    std::vector<double> const in[]{reals(inputs[0]), reals(inputs[1]), reals(inputs[2])};
    auto actual = reals(y[0]);
    auto depth = x.back(), rows = y[0].count() / depth;
    for (int64_t row = 0; row < rows; ++row) {
        int64_t angle = 0, left = row, step = angles.back();
        for (auto axis = x.size() - 1; axis-- > 0; left /= x[axis], step *= angles[axis])
            angle += angles[axis] == 1 ? 0 : left % x[axis] * step;
        for (int64_t i = 0; i < depth; ++i) {
            auto wanted = in[0][at(row * depth + i)];
            if (i < 2 * info.half) {
                bool second = info.interleaved ? i % 2 : i >= info.half;
                auto pair = info.interleaved ? i / 2 : i % info.half;
                auto other = info.interleaved ? i ^ 1 : second ? i - info.half : i + info.half;
                auto place = at(angle + (info.both ? i : pair));
                wanted = wanted * in[1][place] + (second ? 1 : -1) * in[0][at(row * depth + other)] * in[2][place];
            }
            ASSERT_NEAR(actual[at(row * depth + i)], wanted, 4 * unit_of(type) * (std::abs(wanted) + 16))
                << info.attributes() << " row " << row << ", " << i;
        }
    }
}

TEST(CudaRotary, TurnsPairs) {
    for (auto type : {F32, F64, F16, BF16})
        for (bool interleaved : {false, true})
            for (bool both : {false, true}) {
                check(type, {16, interleaved, both}, {2, 3, 5, 32}, {2, 3, 1});
                check(type, {8, interleaved, both}, {2, 3, 5, 24}, {1, 3, 1});
                check(type, {3, interleaved, both}, {4, 7}, {4});
                check(type, {4, interleaved, both}, {8}, {});
                check(type, {4, interleaved, both}, {0, 8}, {1});
            }
}

TEST(CudaRotary, DeclinesWhatDoesNotFit) {
    auto reason = [](Dims const& x, Dims const& angles, DataType type, int64_t half, std::string const& device) {
        std::vector<Operand> in{{{F32, Layout::Plain, x}, nullptr},
                                {{type, Layout::Plain, angles}, nullptr},
                                {{type, Layout::Plain, angles}, nullptr}},
            out{in[0]};
        auto* place = device == "cpu" ? nullptr : &emulated();
        auto found = candidates(RotaryInfo{half}, Request{in, out, device, Isa::Scalar, 1, Precision::Default, place});
        if (found.kernels.empty()) return found.rejections.back().reason;
        std::vector<TensorDesc const*> inputs{&in[0], &in[1], &in[2]}, outputs{&out[0]};
        PackCache packs;
        auto task = found.kernels[0]->bind({inputs, outputs, {}, packs, 1});
        return task.ok() ? std::string() : task.error().reason;
    };
    EXPECT_EQ(reason({2, 8}, {1, 4}, F32, 4, "nvidia"), "");
    EXPECT_EQ(reason({2, 8}, {3, 4}, F32, 4, "nvidia"), "angles [3, 4] for X [2, 8]");
    EXPECT_EQ(reason({2, 8}, {1, 8}, F32, 4, "nvidia"), "angles [1, 8] for X [2, 8]");
    EXPECT_EQ(reason({2, 8}, {1, 5}, F32, 5, "nvidia"), "half of 5 for X [2, 8]");
    EXPECT_NE(reason({2, 8}, {1, 4}, F16, 4, "nvidia").find("floats of one type"), std::string::npos);
    EXPECT_NE(reason({2, 8}, {1, 4}, F32, 4, "cpu").find("elementwise steps"), std::string::npos);
}

TEST(CudaPlugin, CompilesRotary) {
    SourceCollector collector;
    for (auto type : {F32, F64, F16, BF16})
        for (bool interleaved : {false, true})
            for (bool both : {false, true}) {
                Dims const angles{1, 3, 1, both ? 32 : 16};
                collector(RotaryInfo{16, interleaved, both}, {{type, {2, 3, 5, 40}}, {type, angles}, {type, angles}},
                          {{type, {2, 3, 5, 40}}});
            }
    EXPECT_EQ(collector.sources.size(), 16u);
    compile_all(collector.sources);
}

}  // namespace

}  // namespace refactor::kernel::cuda
