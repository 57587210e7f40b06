#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"

#include <algorithm>
#include <numeric>

namespace refactor::kernel::test {
namespace {

TEST(TopK, CandidatesFollowTheDefinition) {
    std::mt19937 random(seed_of(71));
    struct Case {
        Dims dims;
        int64_t axis, k;
    };
    Case const cases[]{{{5, 131}, 1, 7}, {{131, 5}, 0, 131}, {{3, 17, 35}, 1, 1}, {{2, 9}, 1, 0}};
    for (auto const& c : cases)
        for (bool largest : {true, false}) {
            TopKInfo info{c.axis, largest, true};
            auto x = random_f32(c.dims, random);
            for (int64_t i = 0; i < x.desc.count(); ++i) x.as<float>()[i] = std::round(x.as<float>()[i] * 4);
            auto out = c.dims;
            out[c.axis] = c.k;
            Tensor values(DataType::F32, out), indices(DataType::I64, out);
            int64_t inner = 1;
            for (auto i = static_cast<size_t>(c.axis) + 1; i < out.size(); ++i) inner *= out[i];
            auto size = c.dims[c.axis];
            for (int64_t row = 0; row < x.desc.count() / size; ++row) {
                auto const* p = x.as<float>() + row / inner * size * inner + row % inner;
                std::vector<int64_t> order(size);
                std::iota(order.begin(), order.end(), 0);
                std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                    return largest ? p[a * inner] > p[b * inner] : p[a * inner] < p[b * inner];
                });
                for (int64_t j = 0; j < c.k; ++j) {
                    auto at = (row / inner * c.k + j) * inner + row % inner;
                    values.as<float>()[at] = p[order[j] * inner], indices.as<int64_t>()[at] = order[j];
                }
            }
            std::vector<Tensor> inputs{x}, outputs{values, indices};
            auto in = operands_of(inputs), results = operands_of(outputs);
            PackCache packs;
            ThreadPool pool(2);
            for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 2)).kernels) {
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[0], values, {}, kernel->id() + info.attributes());
                expect_close(outputs[1], indices, {}, kernel->id() + info.attributes());
            }
        }
}

TEST(TopK, RefusesMoreThanThereAre) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {3})},
        outputs{Tensor(DataType::F32, {4}), Tensor(DataType::I64, {4})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(TopKInfo{0, true, true}, request_of(in, results, Isa::Scalar, 1));
    ASSERT_FALSE(found.kernels.empty());
    PackCache packs;
    TensorDesc const *x = &inputs[0].desc, *y[]{&outputs[0].desc, &outputs[1].desc};
    auto task = found.kernels.back()->bind({{&x, 1}, y, {}, packs, 1});
    ASSERT_FALSE(task.ok());
    EXPECT_NE(task.error().reason.find("k is 4"), std::string::npos);
}

}  // namespace
}  // namespace refactor::kernel::test
