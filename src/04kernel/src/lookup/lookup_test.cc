#include "kernel/ops/lookup.h"

#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

/// Runs the only candidate.
template <class Info>
void run_only(Info const& info, std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, int threads) {
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, Isa::Scalar, threads));
    ASSERT_EQ(found.kernels.size(), 1U) << (found.rejections.empty() ? "" : found.rejections[0].reason);
    PackCache packs;
    ThreadPool pool(threads);
    run(*found.kernels[0], inputs, outputs, packs, pool);
}

TEST(Lookup, FindsEveryType) {
    auto codes = [](auto... keys) {
        std::vector<uint64_t> list{lookup_code(keys)...};
        return Tensor::of(DataType::U64, {static_cast<int64_t>(list.size())}, list);
    };
    auto look = [](Tensor x, Tensor keys, std::vector<int16_t> const& wanted) {
        auto count = x.desc.count();
        std::vector<Tensor> inputs{std::move(x), std::move(keys), Tensor::of<int16_t>(DataType::I16, {3}, {10, 20, 30}),
                                   Tensor::of<int16_t>(DataType::I16, {1}, {-1})};
        std::vector<Tensor> outputs{Tensor(DataType::I16, {count})};
        run_only(LookupInfo{}, inputs, outputs, 2);
        for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(outputs[0].as<int16_t>()[i], wanted[i]) << i;
    };
    auto const nan = std::nanf("");
    look(Tensor::of<float>(DataType::F32, {4}, {0.f, -0.f, nan, 2.f}), codes(-1.f, 0.f, nan), {20, 20, 30, -1});
    look(Tensor::of<double>(DataType::F64, {3}, {-1., 0.1, 5.}), codes(-1., 0.1, 3.), {10, 20, -1});
    // Codes of integers are ordered as numbers without sign.
    look(Tensor::of<int64_t>(DataType::I64, {4}, {-7, 0, 5, 6}), codes(int64_t{0}, int64_t{5}, int64_t{-7}),
         {30, 10, 20, -1});
    look(Tensor::of<int16_t>(DataType::I16, {2}, {-7, 1}), codes(int16_t{0}, int16_t{5}, int16_t{-7}), {30, -1});
    look(Tensor::of<int32_t>(DataType::I32, {2}, {5, 1}), codes(0, 5, -7), {20, -1});
}

}  // namespace
}  // namespace refactor::kernel::test
