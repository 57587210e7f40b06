#include "common/cpu_features.h"
#include "kernel/ops/matmul.h"
#include "matmul/pack_weights.h"
#include "matmul/product_task.h"
#include "matmul/rounded_product.h"
#include "reduce/rounded_test.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#if RG_X86

namespace refactor::kernel {

TileFunctions emulated_split_tiles();
TileFunctions emulated_rounded_tiles();

namespace test {
namespace {

/// Products by tiles (AMX), which this processor need not have, on emulated ones.
ProductFunctions const& split() {
    static auto const kAll = with_tiles(product_functions_avx512(), emulated_split_tiles());
    return kAll;
}
ProductFunctions const& rounded() {
    static auto const kAll = with_tiles(rounded_functions_avx512bf16().product, emulated_rounded_tiles());
    return kAll;
}

struct Product {
    MatMulInfo info;
    std::vector<Tensor> inputs;
    int64_t m, n, k;

    Dims y() const { return {m, n}; }
    /// By these functions; B is packed, or read in the run.
    std::vector<float> run(ProductFunctions const& functions, WeightType type, bool packed, int threads,
                           NarrowOperands narrow = {}) {
        std::vector<Tensor> outputs{Tensor(narrow.y ? DataType::BF16 : DataType::F32, y())};
        auto operands = inputs;
        if (narrow.a) operands[0] = narrowed(operands[0]);
        Descriptions of(operands, outputs);
        PackCache packs;
        MatMulShape shape;
        EXPECT_EQ(shape.init(info, {of.in, of.out, {}, packs, threads}), "");
        EXPECT_TRUE(!functions.tiles.multiply || takes_tiles(functions, info, shape, type));
        std::shared_ptr<mem_manager::Blob const> b;
        if (packed && !takes_flat(functions, shape, type)) {
            auto width = int64_t{functions.width}, rows = type == WeightType::Pairs ? pairs_of(k) : k;
            auto blob = mem_manager::Blob::make(mem_manager::cpu_device(),
                                                static_cast<size_t>((n + width - 1) / width * width * rows * 4));
            functions.pack(static_cast<float*>(blob->data()), inputs[1].as<float>(), info.trans_b ? k : n, info.trans_b,
                           n, k);
            b = blob;
        }
        auto task = make_product_task(functions, info, shape, type, b, threads, narrow);
        ThreadPool pool(threads);
        runtime::TaskMemory memory(*task, threads);
        std::vector<void*> arguments;
        for (auto& t : operands) arguments.push_back(t.bytes.data());
        arguments.push_back(outputs[0].bytes.data());
        task->run(arguments.data(), memory.context(pool));
        EXPECT_TRUE(memory.is_intact()) << "writes behind its scratch memory";
        if (narrow.y) {
            std::vector<float> wide(static_cast<size_t>(m * n));
            convert(DataType::BF16, outputs[0].as<uint16_t>(), DataType::F32, wide.data(), m * n);
            return wide;
        }
        return {outputs[0].as<float>(), outputs[0].as<float>() + m * n};
    }
};

Tensor any_f32(Dims dims, std::mt19937& random) { return random_f32(std::move(dims), random); }

/// Operands as `bits` says: B transposed, an epilogue, an activation.
Product product_of(int64_t m, int64_t n, int64_t k, unsigned bits, std::mt19937& random,
                   Tensor (*operand)(Dims, std::mt19937&)) {
    Product p;
    p.m = m, p.n = n, p.k = k;
    p.info.trans_b = bits & 1, p.info.alpha = bits & 4 ? 0.5f : 1;
    p.info.epilogue.bias = bits & 2, p.info.epilogue.residual = bits & 4, p.info.epilogue.residual_last = bits & 8;
    if (bits & 8) p.info.epilogue.activation.kind = ActivationKind::GeluTanh;
    p.inputs = {operand({m, k}, random), operand(p.info.trans_b ? Dims{n, k} : Dims{k, n}, random)};
    if (p.info.epilogue.bias) p.inputs.push_back(random_f32({n}, random));
    if (p.info.epilogue.residual) p.inputs.push_back(random_f32({m, n}, random));
    return p;
}

/// Rows of one tile and of several; columns of any number of vectors, of several panels; k of a part of a tile, of
/// whole ones and of several blocks.
constexpr int64_t kSizes[][3]{{24, 16, 32},   {25, 65, 1},   {33, 9, 100},   {48, 130, 64}, {61, 37, 333},
                              {100, 80, 192}, {97, 200, 33}, {40, 70, 2600}, {300, 64, 63}};

/// Sums of k products of size about 1, each rounded to f32, in two orders.
double tolerance_of(int64_t k) { return 4e-7 * (8 + static_cast<double>(k)); }

TEST(SplitTiles, MultiplyAsVectorsDo) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    std::mt19937 random(seed_of(341));
    unsigned bits = 0;
    for (auto [m, n, k] : kSizes)
        for (bool packed : {false, true})
            for (int threads = 1; threads <= 3; ++threads, bits += 5) {
                auto p = product_of(m, n, k, bits, random, any_f32);
                auto want = p.run(product_functions_avx512(), WeightType::F32, packed, 1);
                auto got = p.run(split(), WeightType::F32, packed, threads);
                for (size_t i = 0; i < got.size(); ++i)
                    ASSERT_NEAR(got[i], want[i], tolerance_of(k))
                        << m << " " << n << " " << k << " bits " << bits << " packed " << packed << " at " << i;
            }
}

TEST(SplitTiles, AreAsExactAsF32) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    std::mt19937 random(seed_of(342));
    // Of one sign and of many sizes, where sums do not hide what products lose.
    auto operand = [](Dims dims, std::mt19937& r) {
        auto t = random_f32(std::move(dims), r);
        std::uniform_real_distribution<float> exponent(-12, 12);
        for (int64_t i = 0; i < t.desc.count(); ++i)
            t.as<float>()[i] = std::exp2(exponent(r)) * (1 + std::abs(t.as<float>()[i]));
        return t;
    };
    auto p = product_of(64, 64, 300, 0, random, operand);
    auto errors_of = [&](std::vector<float> const& y) {
        double squares = 0;
        for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; ++j) {
                double exact = 0;
                for (int64_t c = 0; c < p.k; ++c)
                    exact +=
                        double{p.inputs[0].as<float>()[i * p.k + c]} * double{p.inputs[1].as<float>()[c * p.n + j]};
                auto error = (y[static_cast<size_t>(i * p.n + j)] - exact) / exact;
                squares += error * error;
            }
        return std::sqrt(squares);
    };
    EXPECT_LE(errors_of(p.run(split(), WeightType::F32, true, 1)),
              errors_of(p.run(product_functions_avx512(), WeightType::F32, true, 1)));
}

TEST(SplitTiles, NumbersThatAreNoThreeParts) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    std::mt19937 random(seed_of(343));
    for (bool packed : {false, true})
        for (unsigned bits : {0u, 3u}) {
            auto p = product_of(70, 150, 96, bits, random, any_f32);
            auto *a = p.inputs[0].as<float>(), *b = p.inputs[1].as<float>();
            a[3 * 96 + 5] = INFINITY, a[40 * 96 + 95] = NAN, a[50 * 96 + 7] = 3.4e38f, a[50 * 96 + 6] = 0,
                       a[60 * 96] = -INFINITY;
            b[9] = -INFINITY, b[1000] = FLT_MAX;
            auto want = p.run(product_functions_avx512(), WeightType::F32, packed, 1);
            auto got = p.run(split(), WeightType::F32, packed, 2);
            for (size_t i = 0; i < got.size(); ++i) {
                ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << "at " << i;
                if (std::isinf(want[i]) || std::isinf(got[i])) {
                    ASSERT_EQ(got[i], want[i]) << "at " << i;
                } else if (!std::isnan(want[i])) {
                    ASSERT_NEAR(got[i], want[i], 1e-4 + 1e-6 * std::abs(want[i])) << "at " << i;
                }
            }
        }
}

TEST(SplitTiles, NumbersWhosePartsAreDenormal) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "what is around tiles needs avx512";
    std::mt19937 random(seed_of(345));
    // Half of the numbers are so small, which must not touch the others that share their pairs.
    auto operand = [](Dims dims, std::mt19937& r) {
        auto t = random_f32(std::move(dims), r);
        std::uniform_int_distribution<int> exponent(-149, -100);
        for (int64_t i = 0; i < t.desc.count(); ++i)
            if (r() & 1) t.as<float>()[i] = std::ldexp(t.as<float>()[i], exponent(r));
        return t;
    };
    for (bool packed : {false, true}) {
        auto p = product_of(40, 70, 128, 0, random, operand);
        auto want = p.run(product_functions_avx512(), WeightType::F32, packed, 1);
        auto got = p.run(split(), WeightType::F32, packed, 1);
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance_of(p.k)) << "at " << i;
    }
}

TEST(RoundedTiles, MultiplyPairsExactly) {
    if (!has_rounded()) GTEST_SKIP() << "what is around tiles needs avx512bf16";
    std::mt19937 random(seed_of(344));
    unsigned bits = 0;
    for (auto [m, n, k] : kSizes)
        for (bool packed : {false, true})
            for (int threads = 1; threads <= 3; ++threads, bits += 5) {
                auto p = product_of(m, n, k, bits, random, random_bf16);
                auto want = p.run(product_functions_avx512(), WeightType::F32, packed, 1);
                auto got = p.run(rounded(), WeightType::Pairs, packed, threads);
                for (size_t i = 0; i < got.size(); ++i)
                    ASSERT_NEAR(got[i], want[i], tolerance_of(k))
                        << m << " " << n << " " << k << " bits " << bits << " packed " << packed << " at " << i;
            }
}

TEST(RoundedTiles, NarrowOperands) {
    if (!has_rounded()) GTEST_SKIP() << "what is around tiles needs avx512bf16";
    std::mt19937 random(seed_of(347));
    unsigned bits = 0;
    for (auto [m, n, k] : kSizes)
        for (int threads = 1; threads <= 3 && k < 2000; ++threads, bits += 3)  // in one block of k: the same sums
            for (NarrowOperands narrow : {NarrowOperands{true, false}, {false, true}, {true, true}}) {
                auto even = k + k % 2;
                auto p = product_of(m, n, even, narrow.y ? bits & ~4u : bits, random, random_bf16);
                auto want = p.run(rounded(), WeightType::Pairs, true, threads);
                auto got = p.run(rounded(), WeightType::Pairs, true, threads, narrow);
                for (size_t i = 0; i < got.size(); ++i)
                    ASSERT_EQ(got[i], narrow.y ? f32_from_bf16(bf16_from_f32(want[i])) : want[i])
                        << m << " " << n << " " << even << " narrow " << narrow.a << narrow.y << " at " << i;
            }
}

constexpr int64_t whole(int64_t n) { return (n + 15) / 16 * 16; }
constexpr float kBehind = 7;

/// A product of rows with room for whole tiles, NaN behind the last one, that makes sums in Y.
struct ProductOfRows {
    int64_t m, n, k, a_row = whole(pairs_of(k)), y_row = whole(n) + 16;
    std::vector<float> a, b, y, maxima;

    explicit ProductOfRows(Product const& p)
        : m(p.m),
          n(p.n),
          k(p.k),
          a(static_cast<size_t>(whole(m) * a_row), NAN),
          b(static_cast<size_t>(pairs_of(k) * whole(n))),
          y(static_cast<size_t>(whole(m) * y_row), kBehind),
          maxima(static_cast<size_t>(16 * m), -INFINITY) {
        std::fill_n(a.begin(), m * a_row, 0.f);
        rounded_functions_avx512bf16().round_rows(p.inputs[0].as<float>(), k, m, k, a.data(), a_row);
        rounded().pack(b.data(), p.inputs[1].as<float>(), n, false, n, k);
    }
    void multiply(bool adds, bool has_room) {
        ProductBlock t{};
        t.m = m, t.n = n, t.k = pairs_of(k), t.a = a.data(), t.a_row = a_row, t.a_k = 1, t.b = b.data();
        t.source = ProductSource::Packed, t.y = y.data(), t.y_row = y_row, t.alpha = 1;
        t.residual = adds ? y.data() : nullptr, t.block_m = 64, t.block_k = adds ? t.k : 512;
        t.in_rows = true, t.room_in_y = has_room, t.maxima = has_room ? maxima.data() : nullptr;
        rounded().tiles.multiply(t);
    }
    float* row(int64_t i) { return y.data() + i * y_row; }
    float largest_of(int64_t i) const { return *std::max_element(&maxima[16 * i], &maxima[16 * i] + 16); }
};

TEST(RoundedTiles, LoadRowsAndMakeSumsInPlace) {
    if (!has_rounded()) GTEST_SKIP() << "what is around tiles needs avx512bf16";
    std::mt19937 random(seed_of(346));
    for (auto [m, n, k] : kSizes)
        for (int bits = 0; bits < 4; ++bits) {
            bool adds = bits & 1, has_room = bits & 2;
            auto p = product_of(m, n, k, 0, random, random_bf16);
            auto want = p.run(product_functions_avx512(), WeightType::F32, true, 1);
            auto before = random_f32({m, n}, random);
            ProductOfRows got(p);
            for (int64_t i = 0; i < m; ++i) std::copy_n(before.as<float>() + i * n, n, got.row(i));
            got.multiply(adds, has_room);
            for (int64_t i = 0; i < m; ++i) {
                for (int64_t j = 0; j < n; ++j)
                    ASSERT_NEAR(got.row(i)[j], want[i * n + j] + (adds ? before.as<float>()[i * n + j] : 0),
                                tolerance_of(k))
                        << m << " " << n << " " << k << " bits " << bits << " at " << i << " " << j;
                if (has_room) {
                    ASSERT_EQ(got.largest_of(i), *std::max_element(got.row(i), got.row(i) + n));
                } else {
                    ASSERT_EQ(got.row(i)[n], kBehind) << m << " " << n << " " << k << " bits " << bits << " at " << i;
                }
            }
        }
}

TEST(SplitTiles, Refuse) {
    Tensor a(DataType::F32, {64, 64}), b(DataType::F32, {64, 64});
    b.as_constant();
    struct {
        Isa isa;
        bool trans_a;
        Precision precision;
        char const* why;
    } const cases[]{{Isa::Avx512Bf16, false, Precision::Default, "needs avx512amx"},
                    {Isa::Avx512Amx, true, Precision::Default, "A is transposed"},
                    {Isa::Avx512Amx, false, Precision::Exact, "exact precision allows no sums of parts of bf16"}};
    for (auto const& c : cases) {
        MatMulInfo info;
        info.trans_a = c.trans_a;
        std::vector<Tensor> inputs{a, b};
        auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {64, 64})});
        auto request = request_of(in, results, c.isa, 1);
        request.precision = c.precision;
        std::string why;
        for (auto const& r : candidates(info, request).rejections)
            if (r.reason.starts_with("matmul:cpu:packed:f32:avx512amx")) why = r.reason;
        EXPECT_NE(why.find(c.why), std::string::npos) << why;
    }
}

}  // namespace
}  // namespace test
}  // namespace refactor::kernel

#endif
