#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

/// By definition, for a [outer, size, inner] tensor.
Tensor expected_of(ArgReduceInfo const& info, Tensor const& x, Dims out) {
    Tensor y(DataType::I64, out);
    auto size = x.desc.dims[info.axis];
    int64_t inner = 1;
    for (auto i = static_cast<size_t>(info.axis) + 1; i < x.desc.dims.size(); ++i) inner *= x.desc.dims[i];
    for (int64_t o = 0; o < y.desc.count(); ++o) {
        auto const* p = x.as<float>() + o / inner * size * inner + o % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < size; ++k) {
            auto a = p[k * inner], b = p[best * inner];
            if ((info.min ? a < b : a > b) || (a == b && info.select_last_index)) best = k;
        }
        y.as<int64_t>()[o] = best;
    }
    return y;
}

TEST(ArgReduce, CandidatesFollowTheDefinition) {
    std::mt19937 random(seed_of(21));
    struct Case {
        Dims dims, out;
        int64_t axis;
    };
    Case const cases[]{
        {{5, 131}, {5}, 1}, {{131, 5}, {5}, 0}, {{3, 17, 35}, {3, 35}, 1}, {{3, 50257}, {3}, 1}, {{4, 1}, {4}, 1}};
    for (auto const& c : cases)
        for (int bits = 0; bits < 4; ++bits) {
            ArgReduceInfo info{(bits & 1) != 0, (bits & 2) != 0, c.axis};
            auto x = random_f32(c.dims, random);
            for (int64_t i = 0; i < x.desc.count(); ++i)  // ties
                x.as<float>()[i] = std::round(x.as<float>()[i] * 4);
            std::vector<Tensor> inputs{x}, outputs{Tensor(DataType::I64, c.out)};
            auto expected = expected_of(info, x, c.out);
            auto in = operands_of(inputs), results = operands_of(outputs);
            PackCache packs;
            ThreadPool pool(2);
            for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 2)).kernels) {
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[0], expected, {}, kernel->id() + info.attributes());
            }
        }
}

TEST(ArgReduce, FirstNanWins) {
    auto x = Tensor::of<float>(DataType::F32, {4}, {1, NAN, 9, NAN});
    auto check = [&](bool last, int64_t index) {
        auto expected = Tensor::of<int64_t>(DataType::I64, {}, {index});
        std::vector<Tensor> inputs{x}, outputs{Tensor(DataType::I64, {})};
        auto in = operands_of(inputs), results = operands_of(outputs);
        PackCache packs;
        ThreadPool pool(1);
        auto found = candidates(ArgReduceInfo{false, last, 0}, request_of(in, results, cpu_features().isa, 1));
        for (auto const& kernel : found.kernels) {
            run(*kernel, inputs, outputs, packs, pool);
            expect_close(outputs[0], expected, {}, kernel->id());
        }
    };
    check(false, 1);
    check(true, 3);
}

}  // namespace
}  // namespace refactor::kernel::test
