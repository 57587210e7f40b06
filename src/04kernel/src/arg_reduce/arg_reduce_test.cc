#include "arg_reduce/arg_reduce.h"

#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"
#include "reduce/scalar_type.h"

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
    Case const cases[]{{{5, 131}, {5}, 1},        {{131, 5}, {5}, 0},
                       {{3, 17, 35}, {3, 35}, 1}, {{3, 50257}, {3}, 1},
                       {{4, 1}, {4}, 1},          {{2, 1, 600}, {2, 600}, 1},
                       {{70, 2}, {70}, 1},        {{33, 8}, {33}, 1},
                       {{31, 3}, {31}, 1},        {{1, 21, 33, 47}, {1, 33, 47}, 1},
                       {{90, 2, 3}, {90, 3}, 1},  {{17, 31, 7}, {17, 7}, 1},
                       {{1200, 5}, {1200}, 1}};
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
            auto wide = Tensor(DataType::F64, c.dims);
            std::copy_n(x.as<float>(), x.desc.count(), wide.as<double>());
            auto others = check_candidates(info, {wide}, outputs, {});
            bool last = c.axis + 1 == static_cast<int64_t>(c.dims.size());
            EXPECT_EQ(others, last && wide_levels(cpu_features().isa) ? 1 : 0);
        }
}

/// More rows than a block of narrow positions, more columns than a tile, extremes of the type, many ties.
TEST(ArgReduce, IntegersFollowTheDefinition) {
    std::mt19937 random(seed_of(22));
    struct Case {
        Dims dims, out;
        int64_t axis;
    };
    Case const cases[]{{{5, 131}, {5}, 1},         {{400, 5}, {5}, 0},        {{129, 300}, {300}, 0},
                       {{3, 257, 35}, {3, 35}, 1}, {{2, 5000}, {2}, 1},       {{4, 1}, {4}, 1},
                       {{1, 7}, {7}, 0},           {{70, 63}, {70}, 1},       {{2, 3, 256, 1}, {2, 3, 1}, 2},
                       {{90, 2, 3}, {90, 3}, 1},   {{17, 64, 2}, {17, 2}, 1}, {{1200, 5}, {1200}, 1}};
    for (auto type : {DataType::I8, DataType::U8, DataType::I16, DataType::U16, DataType::I32, DataType::U32,
                      DataType::I64, DataType::U64})
        for (auto const& c : cases)
            for (int bits = 0; bits < 8; ++bits) {
                ArgReduceInfo info{(bits & 1) != 0, (bits & 2) != 0, c.axis};
                std::vector<Tensor> inputs{Tensor(type, c.dims)}, outputs{Tensor(DataType::I64, c.out)};
                visit_numeric(type, [&](auto tag) {
                    using T = typename decltype(tag)::type;
                    if constexpr (std::is_integral_v<T>) {
                        using Limits = std::numeric_limits<T>;
                        T const few[]{T(3), T(4), T(5), Limits::min(), Limits::max()};
                        auto count = bits & 4 ? 5u : 3u;
                        for (int64_t i = 0; i < inputs[0].desc.count(); ++i)
                            inputs[0].as<T>()[i] = few[random() % count];
                    }
                });
                auto compared = check_candidates(info, inputs, outputs, {});
                EXPECT_EQ(compared, wide_levels(cpu_features().isa) ? 1 : 0) << name_of(type);
            }
}

TEST(ArgReduce, FirstNanWins) {
    auto check = [](Tensor const& x, bool last, std::vector<int64_t> const& indices) {
        auto columns = static_cast<int64_t>(indices.size());
        Tensor expected(DataType::I64, {columns});
        std::copy(indices.begin(), indices.end(), expected.as<int64_t>());
        std::vector<Tensor> inputs{x}, outputs{Tensor(DataType::I64, {columns})};
        auto in = operands_of(inputs), results = operands_of(outputs);
        PackCache packs;
        ThreadPool pool(1);
        for (bool min : {false, true}) {
            auto found = candidates(ArgReduceInfo{min, last, 0}, request_of(in, results, cpu_features().isa, 1));
            for (auto const& kernel : found.kernels) {
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[0], expected, {}, kernel->id());
            }
        }
    };
    auto column = Tensor::of<float>(DataType::F32, {4, 1}, {1, NAN, 9, NAN});
    check(column, false, {1});
    check(column, true, {3});
    auto columns = Tensor::of<float>(DataType::F32, {3, 3}, {1, NAN, 2, NAN, 9, 2, NAN, NAN, NAN});
    check(columns, false, {1, 0, 2});
    check(columns, true, {2, 2, 2});
}

#if RG_X86
TEST(ArgReduce, IntegersRefuse) {
    auto reason = [&](DataType dtype, Isa isa) {
        std::vector<Tensor> inputs{Tensor(dtype, {3, 5})}, outputs{Tensor(DataType::I64, {5})};
        auto in = operands_of(inputs), results = operands_of(outputs);
        auto found = make_arg_reduce_integers({false, false, 0}, request_of(in, results, isa, 1));
        return found.ok() ? std::string() : found.error().reason;
    };
    EXPECT_EQ(reason(DataType::U8, Isa::Avx2), "");
    EXPECT_EQ(reason(DataType::F32, Isa::Avx2), "x is f32, expected integers of whole bytes");
    EXPECT_EQ(reason(DataType::I64, Isa::Scalar), "needs avx2, allowed is scalar");
}

TEST(ArgReduce, ColumnsRefuse) {
    std::vector<Tensor> outputs{Tensor(DataType::I64, {5})};
    auto results = operands_of(outputs);
    auto reason = [&](ArgReduceInfo const& info, Dims dims, DataType dtype, Isa isa) {
        std::vector<Tensor> inputs{Tensor(dtype, std::move(dims))};
        auto in = operands_of(inputs);
        auto found = make_arg_reduce_columns(info, request_of(in, results, isa, 1));
        return found.ok() ? std::string() : found.error().reason;
    };
    EXPECT_EQ(reason({false, false, 0}, {3, 5}, DataType::F32, Isa::Avx2), "");
    EXPECT_EQ(reason({false, false, 1}, {5, 3, -1, -1}, DataType::F32, Isa::Avx2), "");
    EXPECT_EQ(reason({false, false, 1}, {5, 3}, DataType::F32, Isa::Avx2), "axis 1 is the last");
    EXPECT_EQ(reason({false, false, 0}, {3, 5}, DataType::I32, Isa::Avx2), "x is i32, expected f32");
    EXPECT_EQ(reason({false, false, 0}, {3, 5}, DataType::F32, Isa::Scalar), "needs avx2, allowed is scalar");
}
#endif

}  // namespace
}  // namespace refactor::kernel::test
