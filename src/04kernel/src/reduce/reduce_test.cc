#include "kernel/ops/reduce.h"

#include "reduce/kernel_test.h"
#include "reduce/reduce.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

constexpr ReduceKind kKinds[]{ReduceKind::Sum,    ReduceKind::Mean,     ReduceKind::Max, ReduceKind::Min,
                              ReduceKind::Prod,   ReduceKind::L1,       ReduceKind::L2,  ReduceKind::SumSquare,
                              ReduceKind::LogSum, ReduceKind::LogSumExp};

Tensor reduce_by_reference(ReduceInfo const& info, Tensor input, Dims out) {
    std::vector<Tensor> inputs{std::move(input)}, outputs{Tensor(inputs[0].desc.dtype, out)};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    return outputs[0];
}

TEST(Reduce, ReferenceKnowsEveryKind) {
    auto x = Tensor::of<float>(DataType::F32, {2, 2, 2}, {1, 2, 3, -4, 0.5f, 2, 4, 8});
    // Over axes 0 and 2: {1, 2, 0.5, 2} and {3, -4, 4, 8}.
    double const expected[][2]{{5.5, 11},
                               {1.375, 2.75},
                               {2, 8},
                               {0.5, -4},
                               {2, -384},
                               {5.5, 19},
                               {3.0413812651, 10.2469507660},
                               {9.25, 105},
                               {std::log(5.5), std::log(11.)},
                               {std::log(std::exp(1) + 2 * std::exp(2) + std::exp(.5)),
                                std::log(std::exp(3) + std::exp(-4) + std::exp(4) + std::exp(8))}};
    for (int kind = 0; kind < 10; ++kind) {
        auto y = reduce_by_reference({kKinds[kind], {0, 2}}, x, {2});
        for (int i = 0; i < 2; ++i)
            EXPECT_NEAR(y.as<float>()[i], expected[kind][i], 1e-5 * std::fabs(expected[kind][i]));
    }
}

TEST(Reduce, EmptySetsGiveTheIdentity) {
    float const inf = INFINITY;
    float const expected[]{0, NAN, -inf, inf, 1, 0, 0, 0, -inf, -inf};
    for (int kind = 0; kind < 10; ++kind) {
        auto y = reduce_by_reference({kKinds[kind], {1}}, Tensor(DataType::F32, {3, 0}), {3});
        for (int i = 0; i < 3; ++i) {
            auto value = y.as<float>()[i];
            EXPECT_TRUE(value == expected[kind] || (std::isnan(value) && std::isnan(expected[kind]))) << kind;
        }
    }
    auto y = reduce_by_reference({ReduceKind::Max, {0}}, Tensor(DataType::I32, {0, 2}), {2});
    EXPECT_EQ(y.as<int32_t>()[1], INT32_MIN);
}

TEST(Reduce, IntegersWrapAndTruncate) {
    auto x = Tensor::of<int64_t>(DataType::I64, {2, 3}, {INT64_MAX, 1, 0, -7, 2, 1});
    EXPECT_EQ(reduce_by_reference({ReduceKind::Sum, {1}}, x, {2}).as<int64_t>()[0], INT64_MIN);
    EXPECT_EQ(reduce_by_reference({ReduceKind::Mean, {1}}, x, {2}).as<int64_t>()[1], -1);
    auto b = Tensor::of<uint8_t>(DataType::Bool, {2, 2}, {0, 1, 1, 1});
    EXPECT_EQ(reduce_by_reference({ReduceKind::Min, {1}}, b, {2}).as<uint8_t>()[0], 0);
    EXPECT_EQ(reduce_by_reference({ReduceKind::Min, {1}}, b, {2}).as<uint8_t>()[1], 1);
}

TEST(Reduce, CandidatesAgree) {
    std::mt19937 random(seed_of(11));
    struct Case {
        Dims dims, axes, out;
    };
    Case const cases[]{{{7, 129}, {1}, {7}},
                       {{129, 37}, {0}, {37}},
                       {{3, 65, 19}, {1}, {3, 19}},
                       {{5, 3, 7, 11}, {1, 3}, {5, 7}},
                       {{5, 3, 7, 11}, {0, 2}, {3, 11}},
                       {{2, 3, 5}, {0, 1, 2}, {}},
                       {{100003}, {0}, {}},
                       {{2, 50001}, {1}, {2}},
                       {{4, 1}, {1}, {4}},
                       {{2, 33, 7, 7}, {2, 3}, {2, 33, 1, 1}},
                       {{4, 9}, {}, {4, 9}},
                       {{1, 3, 40, 50}, {1}, {1, 1, 40, 50}},
                       {{64, 3, 1000}, {0}, {3, 1000}},
                       {{1003, 3}, {0}, {3}},
                       {{3, 211, 4}, {1}, {3, 4}},
                       {{5, 2, 131, 8}, {0, 2}, {2, 8}},
                       // Sets of few columns, turned or not; runs of axes one after the other; nothing to combine.
                       {{83, 5, 3}, {1}, {83, 3}},
                       {{600, 2, 2}, {1}, {600, 2}},
                       {{37, 31, 8}, {1}, {37, 8}},
                       {{19, 31, 14}, {1}, {19, 14}},
                       {{9, 3, 29}, {1}, {9, 29}},
                       {{3, 1100, 9}, {1}, {3, 9}},
                       {{10, 131, 2}, {0, 2}, {131}},
                       {{3, 7, 40, 5, 2}, {1, 3}, {3, 40, 2}},
                       {{2, 33, 3, 4, 5, 2}, {0, 2, 4}, {33, 4, 2}},
                       {{9, 1, 1003}, {1}, {9, 1003}},
                       {{0, 3, 5}, {1}, {0, 5}}};
    for (auto const& c : cases) {
        auto x = random_f32(c.dims, random);
        for (auto kind : kKinds) {
            auto input = x;
            if (kind == ReduceKind::Prod || kind == ReduceKind::LogSum)
                for (int64_t i = 0; i < x.desc.count(); ++i)
                    input.as<float>()[i] = 1 + 0.01f * std::fabs(x.as<float>()[i]);
            // n rounded additions of terms of size about 1 in at least 8 lanes.
            auto n = static_cast<double>(element_count(c.dims)) /
                     static_cast<double>(std::max<int64_t>(1, element_count(c.out)));
            Tolerance tolerance{6e-8 * (8 + n / 8) * 4, 6e-8 * (8 + n / 8)};
            check_floats(ReduceInfo{kind, c.axes}, {input}, {Tensor(DataType::F32, c.out)}, tolerance);
        }
    }
}

TEST(Reduce, ShortRowsOfEveryLength) {
    std::mt19937 random(seed_of(13));
    for (int64_t size = 1; size < 70; ++size)
        for (auto kind : kKinds) {
            auto x = random_f32({83, size}, random);
            if (kind == ReduceKind::Prod || kind == ReduceKind::LogSum)
                for (int64_t i = 0; i < x.desc.count(); ++i) x.as<float>()[i] = 1 + 0.01f * std::fabs(x.as<float>()[i]);
            // As above, of `size` terms.
            auto n = static_cast<double>(size);
            check_floats(ReduceInfo{kind, {1}}, {x}, {Tensor(DataType::F32, {83})},
                         {6e-8 * (8 + n / 8) * 4, 6e-8 * (8 + n / 8)});
            if (HasFatalFailure()) return;
        }
}

TEST(Reduce, NanAndInfinityArriveInMaxAndMin) {
    std::mt19937 random(seed_of(12));
    for (auto kind : {ReduceKind::Max, ReduceKind::Min})
        for (int where : {0, 5, 17, 66}) {
            auto x = random_f32({3, 67}, random);
            x.as<float>()[67 + where] = NAN;
            x.as<float>()[where] = -INFINITY;
            check_floats(ReduceInfo{kind, {1}}, {x}, {Tensor(DataType::F32, {3})}, {});
            auto short_rows = random_f32({67, 9}, random);
            short_rows.as<float>()[where * 9 + where % 9] = NAN;
            check_floats(ReduceInfo{kind, {1}}, {short_rows}, {Tensor(DataType::F32, {67})}, {});
            check_floats(ReduceInfo{kind, {0}}, {x}, {Tensor(DataType::F32, {67})}, {});
            check_floats(ReduceInfo{kind, {0}}, {short_rows}, {Tensor(DataType::F32, {9})}, {});
            auto narrow = random_f32({67, 3}, random);
            narrow.as<float>()[where * 3] = NAN;
            check_floats(ReduceInfo{kind, {0}}, {narrow}, {Tensor(DataType::F32, {3})}, {});
        }
}

template <class T>
void check_integers(DataType dtype, std::initializer_list<ReduceKind> kinds, std::mt19937& random) {
    struct Case {
        Dims dims, axes, out;
    };
    Case const cases[]{{{7, 1029}, {1}, {7}},
                       {{129, 37}, {0}, {37}},
                       {{3, 65, 600}, {1}, {3, 600}},
                       {{2, 3, 5}, {0, 1, 2}, {}},
                       {{5, 3}, {1}, {5}},
                       {{1, 133}, {0}, {133}},
                       {{2, 33, 7, 7}, {2, 3}, {2, 33}},
                       {{5, 3, 7}, {0, 2}, {3}},
                       {{600, 2}, {1}, {600}},
                       {{75, 5, 3}, {1}, {75, 3}},
                       {{4, 211, 5}, {1}, {4, 5}},
                       {{7, 90, 11}, {0, 2}, {90}},
                       {{9, 5, 40, 6}, {0, 2}, {5, 6}},
                       {{40, 3, 2, 5, 3}, {1, 3}, {40, 2, 3}},
                       {{3, 9, 83}, {1}, {3, 83}},
                       {{5, 1, 70}, {1}, {5, 70}},
                       {{0, 3, 5}, {1}, {0, 5}}};
    for (auto const& c : cases)
        for (auto kind : kinds) {
            Tensor x(dtype, c.dims);
            for (int64_t i = 0; i < x.desc.count(); ++i) x.as<T>()[i] = static_cast<T>(random());
            auto put = [&](T value) {
                if (auto count = static_cast<size_t>(x.desc.count())) x.as<T>()[random() % count] = value;
            };
            put(std::numeric_limits<T>::lowest()), put(std::numeric_limits<T>::max());
            check_candidates(ReduceInfo{kind, c.axes}, {x}, {Tensor(dtype, c.out)}, {});
        }
}

TEST(Reduce, IntegersEqualReference) {
    std::mt19937 random(seed_of(14));
    auto const extremes = {ReduceKind::Max, ReduceKind::Min}, sums = {ReduceKind::Sum, ReduceKind::Prod};
    auto const all = {ReduceKind::Max, ReduceKind::Min, ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Mean};
    check_integers<int8_t>(DataType::I8, extremes, random);
    check_integers<uint8_t>(DataType::U8, extremes, random);
    check_integers<int32_t>(DataType::I32, all, random);
    check_integers<int64_t>(DataType::I64, all, random);
    check_integers<uint32_t>(DataType::U32, sums, random);
    check_integers<uint64_t>(DataType::U64, sums, random);
}

TEST(Reduce, AnyAndAllOfConditions) {
    std::mt19937 random(seed_of(15));
    for (auto kind : {ReduceKind::Max, ReduceKind::Min})
        for (int64_t axis : {0, 1}) {
            Tensor x(DataType::Bool, {65, 67});
            for (int64_t i = 0; i < x.desc.count(); ++i)
                x.as<uint8_t>()[i] = random() % 64 ? kind == ReduceKind::Min : 1;
            check_candidates(ReduceInfo{kind, {axis}}, {x}, {Tensor(DataType::Bool, {axis ? 65 : 67})}, {});
        }
}

TEST(Reduce, IntegersDecline) {
    auto why = [](ReduceKind kind, DataType dtype, Dims axes, Dims dims, Isa isa) {
        std::vector<Tensor> in{Tensor(dtype, dims)}, out{Tensor(dtype, {})};
        auto operands = operands_of(in), results = operands_of(out);
        ReduceInfo info{kind, axes};
        auto kernel = make_reduce_integers(info, request_of(operands, results, isa, 1));
        if (!kernel) return kernel.error().reason;
        Descriptions of(in, out);
        PackCache packs;
        auto task = (*kernel)->bind({of.in, of.out, {}, packs, 1});
        return task ? std::string("none") : task.error().reason;
    };
    EXPECT_EQ(why(ReduceKind::L1, DataType::I32, {0}, {2}, Isa::Avx2),
              "finds extremes, sums, means and products, no L1");
    EXPECT_EQ(why(ReduceKind::Mean, DataType::U32, {0}, {2}, Isa::Avx2), "x is u32, expected i32 or i64");
    EXPECT_EQ(why(ReduceKind::Max, DataType::F32, {0}, {2}, Isa::Avx2), "x is f32, expected i8, u8, i32, i64 or bool");
    EXPECT_EQ(why(ReduceKind::Sum, DataType::I8, {0}, {2}, Isa::Avx2), "x is i8, expected i32, i64, u32 or u64");
    EXPECT_NE(why(ReduceKind::Max, DataType::I32, {0}, {2}, Isa::Scalar), "none");
    if (cpu_features().isa < Isa::Avx2) return;
    EXPECT_EQ(why(ReduceKind::Max, DataType::I32, {0}, {2}, Isa::Avx2), "none");
    EXPECT_EQ(why(ReduceKind::Max, DataType::I32, {1}, {2, 0}, Isa::Avx2), "the axes are empty");
}

TEST(Reduce, RefusesWithAReason) {
    std::vector<Tensor> in{Tensor(DataType::Complex64, {2})}, out{Tensor(DataType::Complex64, {})};
    auto operands = operands_of(in), results = operands_of(out);
    auto found = candidates(ReduceInfo{ReduceKind::Sum, {0}}, request_of(operands, results, Isa::Scalar, 1));
    EXPECT_TRUE(found.kernels.empty());
    for (auto const& r : found.rejections) EXPECT_NE(r.reason.find(": "), std::string::npos) << r.reason;
}

}  // namespace
}  // namespace refactor::kernel::test
