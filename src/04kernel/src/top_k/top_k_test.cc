#include "top_k/top_k.h"

#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace refactor::kernel::test {
namespace {

TEST(TopK, CandidatesFollowTheDefinition) {
    std::mt19937 random(seed_of(71));
    struct Case {
        Dims dims;
        int64_t axis, k;
    };
    Case const cases[]{{{5, 131}, 1, 7},   {{131, 5}, 0, 131}, {{3, 17, 35}, 1, 1},  {{2, 9}, 1, 0},
                       {{3, 1003}, 1, 32}, {{2, 1003}, 1, 33}, {{4, 95}, 1, 1},      {{1, 5000, 2}, 1, 40},
                       {{7, 7}, 1, 7},     {{700, 18}, 1, 8},  {{19, 15, 3}, 1, 15}, {{2, 90, 21}, 1, 30},
                       {{9, 2, 1}, 1, 2}};
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
                Descriptions of(inputs, outputs);
                if (!kernel->estimate({of.in, of.out, {}, packs, 2}).ok()) continue;
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[0], values, {}, kernel->id() + info.attributes());
                expect_close(outputs[1], indices, {}, kernel->id() + info.attributes());
            }
        }
}

/// Extremes of the type, many ties, rows that fill the candidates again and again because they ascend.
TEST(TopK, IntegersFollowTheReference) {
    std::mt19937 random(seed_of(73));
    struct Case {
        Dims dims;
        int64_t axis, k;
    };
    Case const cases[]{{{5, 131}, 1, 7},  {{131, 5}, 0, 131}, {{3, 700, 3}, 1, 40}, {{2, 9}, 1, 0},
                       {{2, 2000}, 1, 1}, {{7, 7}, 1, 7},     {{2, 1, 5}, 1, 1}};
    for (auto type : {DataType::I8, DataType::U8, DataType::I16, DataType::U16, DataType::I32, DataType::U32,
                      DataType::I64, DataType::U64})
        for (auto const& c : cases)
            for (int bits = 0; bits < 4; ++bits) {
                TopKInfo info{c.axis, (bits & 1) != 0, true};
                auto out = c.dims;
                out[c.axis] = c.k;
                std::vector<Tensor> inputs{Tensor(type, c.dims)};
                visit_numeric(type, [&](auto tag) {
                    using T = typename decltype(tag)::type;
                    if constexpr (std::is_integral_v<T>) {
                        auto* x = inputs[0].as<T>();
                        auto count = inputs[0].desc.count();
                        using Limits = std::numeric_limits<T>;
                        for (int64_t i = 0; i < count; ++i) {
                            auto any = static_cast<T>(static_cast<uint64_t>(random()) << 32 | random());
                            x[i] = i % 50 == 3 ? Limits::min() : i % 50 == 9 ? Limits::max() : any;
                        }
                        if (bits & 2) std::sort(x, x + count);
                    }
                });
                auto compared = check_candidates(info, inputs, {Tensor(type, out), Tensor(DataType::I64, out)}, {});
                EXPECT_EQ(compared, 1) << name_of(type);
            }
}

/// NaN is above every number, the zeros are equal; the greatest elements come last, so that most pass every filter.
TEST(TopK, OrdersSpecialNumbers) {
    constexpr int64_t kSize = 300;
    auto const nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    for (int64_t k : {1, 5, 40, 300})
        for (int bits = 0; bits < 4; ++bits) {
            bool largest = bits & 1, columns = bits & 2;
            auto dims = [&](int64_t size) { return columns ? Dims{size, 2} : Dims{2, size}; };
            auto at = [&](int64_t row, int64_t i, int64_t size) { return columns ? i * 2 + row : row * size + i; };
            Tensor x(DataType::F32, dims(kSize));
            auto* p = x.as<float>();
            float const special[]{-infinity, 0.f, -0.f, nan, infinity, -nan};
            for (int64_t i = 0; i < kSize; ++i) {
                p[at(0, i, kSize)] =
                    i % 7 == 3 ? special[i / 7 % 6] : static_cast<float>(i / 2) * (largest ? 1.f : -1.f);
                p[at(1, i, kSize)] = -infinity;
            }
            Tensor values(DataType::F32, dims(k)), indices(DataType::I64, dims(k));
            for (int64_t row = 0; row < 2; ++row) {
                auto r = [&](int64_t i) { return p[at(row, i, kSize)]; };
                std::vector<int64_t> order(kSize);
                std::iota(order.begin(), order.end(), 0);
                std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                    auto u = r(a), v = r(b);
                    if (u != u || v != v) return largest ? u != u && v == v : u == u && v != v;
                    return largest ? u > v : u < v;
                });
                for (int64_t j = 0; j < k; ++j)
                    values.as<float>()[at(row, j, k)] = r(order[j]), indices.as<int64_t>()[at(row, j, k)] = order[j];
            }
            std::vector<Tensor> inputs{x}, outputs{values, indices};
            auto in = operands_of(inputs), results = operands_of(outputs);
            PackCache packs;
            ThreadPool pool(1);
            TopKInfo info{columns ? 0 : 1, largest, true};
            for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
                Descriptions of(inputs, outputs);
                if (!kernel->estimate({of.in, of.out, {}, packs, 1}).ok()) continue;
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[1], indices, {}, kernel->id() + info.attributes());
                for (int64_t j = 0; j < 2 * k; ++j)
                    EXPECT_EQ(std::bit_cast<uint32_t>(outputs[0].as<float>()[j]),
                              std::bit_cast<uint32_t>(values.as<float>()[j]))
                        << kernel->id() << " " << j;
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

#if RG_X86
TEST(TopK, IntegersRefuse) {
    std::vector<Tensor> outputs{Tensor(DataType::F32, {1}), Tensor(DataType::I64, {1})};
    auto results = operands_of(outputs);
    std::vector<Tensor> floats{Tensor(DataType::F32, {3})}, integers{Tensor(DataType::I8, {3})};
    TopKInfo info{0, true, true};
    EXPECT_EQ(make_top_k_integers(info, request_of(operands_of(floats), results, Isa::Scalar, 1)).error().reason,
              "x is f32, expected integers of whole bytes");
    auto kernel = make_top_k_integers(info, request_of(operands_of(integers), results, Isa::Scalar, 1));
    ASSERT_TRUE(kernel.ok());
    PackCache packs;
    TensorDesc x{DataType::I8, Layout::Plain, {3}}, values{DataType::I8, Layout::Plain, {4}},
        indices{DataType::I64, Layout::Plain, {4}};
    TensorDesc const *input = &x, *both[]{&values, &indices};
    EXPECT_EQ((*kernel)->bind({{&input, 1}, both, {}, packs, 1}).error().reason,
              "k is 4, expected 0 to 3 (the size of axis 0)");
}

TEST(TopK, LanesRefuse) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {3})},
        outputs{Tensor(DataType::F32, {1}), Tensor(DataType::I64, {1})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    EXPECT_EQ(make_top_k_lanes({0, true, true}, request_of(in, results, Isa::Scalar, 1)).error().reason,
              "needs avx2, allowed is scalar");
    std::vector<Tensor> integers{Tensor(DataType::I32, {3})};
    auto of_integers = operands_of(integers);
    EXPECT_EQ(make_top_k_lanes({0, true, true}, request_of(of_integers, results, Isa::Avx2, 1)).error().reason,
              "x is i32, expected f32");
    auto reason = [&](Dims dims, int64_t axis, int64_t k) {
        auto out = dims;
        out[axis] = k;
        TensorDesc x{DataType::F32, Layout::Plain, dims}, values{DataType::F32, Layout::Plain, out},
            indices{DataType::I64, Layout::Plain, out};
        TensorDesc const *input = &x, *both[]{&values, &indices};
        PackCache packs;
        auto kernel = make_top_k_lanes({axis, true, true}, request_of(in, results, Isa::Avx2, 1));
        auto task = (*kernel)->bind({{&input, 1}, both, {}, packs, 1});
        return task.ok() ? std::string() : task.error().reason;
    };
    EXPECT_EQ(reason({300, 2}, 0, 256), "");
    EXPECT_EQ(reason({300, 2}, 0, 257), "k is 257, expected 0 to 256");
    EXPECT_EQ(reason({8, 256}, 1, 3), "");
    EXPECT_EQ(reason({7, 256}, 1, 3), "there is one row, or long ones");
    EXPECT_EQ(reason({8, 257}, 1, 3), "there is one row, or long ones");
    EXPECT_EQ(reason({int64_t{1} << 31, 8}, 0, 1), "the axis has 2147483648 elements, expected 0 to 2147483647");
}

TEST(TopK, FilterRefuses) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {3})},
        outputs{Tensor(DataType::F32, {1}), Tensor(DataType::I64, {1})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    TopKInfo info{0, true, true};
    EXPECT_EQ(make_top_k_filter(info, request_of(in, results, Isa::Scalar, 1)).error().reason,
              "needs avx2, allowed is scalar");
    auto kernel = make_top_k_filter(info, request_of(in, results, Isa::Avx2, 1));
    ASSERT_TRUE(kernel.ok());
    PackCache packs;
    auto reason = [&](int64_t size, int64_t k) {
        TensorDesc x{DataType::F32, Layout::Plain, {size}}, values{DataType::F32, Layout::Plain, {k}},
            indices{DataType::I64, Layout::Plain, {k}};
        TensorDesc const *input = &x, *both[]{&values, &indices};
        return (*kernel)->bind({{&input, 1}, both, {}, packs, 1}).error().reason;
    };
    EXPECT_EQ(reason(3, 4), "k is 4, expected 0 to 3");
    EXPECT_EQ(reason(int64_t{1} << 31, 1), "the axis has 2147483648 elements, expected 0 to 2147483647");
    std::vector<Tensor> integers{Tensor(DataType::I32, {3})};
    auto of_integers = operands_of(integers);
    EXPECT_EQ(make_top_k_filter(info, request_of(of_integers, results, Isa::Avx2, 1)).error().reason,
              "x is i32, expected f32");
}
#endif

}  // namespace
}  // namespace refactor::kernel::test
