#include "common/cpu_features.h"
#include "integer_conv/integer_conv.h"
#include "integer_matmul/integer_matmul.h"
#include "integer_matmul/integer_product.h"
#include "integer_matmul/integer_test.h"

#if RG_X86

namespace refactor::kernel {

/// `multiply_integers_avx512amx` on emulated tiles.
void multiply_on_emulated_tiles(IntegerBlock const&);

namespace test {
namespace {

IntegerFunctions const& emulated() {
    static TileFunctions const kTiles(multiply_on_emulated_tiles);
    return kTiles.all;
}

class IntegerTiles : public testing::Test {
protected:
    void SetUp() override {
        if (cpu_features().isa < Isa::Avx512Vnni) GTEST_SKIP() << "what tiles leave to vectors needs avx512vnni";
    }
};

/// The kernel with emulated tiles against the reference, with 1 to 3 threads.
template <class Info>
void check(Info const& info, std::vector<Tensor> inputs, Tensor const& output,
           MaybeKernel (*make)(Info const&, Request const&, Isa, IntegerFunctions const& (*)()),
           std::string const& what) {
    std::vector<Tensor> expected{output}, actual{output};
    auto in = operands_of(inputs), results = operands_of(expected);
    auto reference = candidates(info, request_of(in, results, Isa::Scalar, 1));
    ASSERT_FALSE(reference.kernels.empty());
    PackCache packs;
    ThreadPool one(1);
    run(*reference.kernels.back(), inputs, expected, packs, one);
    auto kernel = make(info, request_of(in, results, Isa::Avx512Vnni, 1), Isa::Avx512Vnni, emulated);
    ASSERT_TRUE(kernel.ok()) << kernel.error().reason;
    for (int threads = 1; threads <= 3; ++threads) {
        ThreadPool pool(threads);
        run(**kernel, inputs, actual, packs, pool);
        expect_close(actual[0], expected[0], kFused, what + ", " + std::to_string(threads) + " threads");
        if (testing::Test::HasFailure()) return;
    }
}

TEST_F(IntegerTiles, MultiplyMatrices) {
    std::mt19937 random(seed_of(331));
    struct Sizes {
        int64_t m, n, k;
    };
    // Rows of no, one, and several tiles; columns of any number of vectors; k of one step, of several, and of none.
    for (auto [m, n, k] : {Sizes{5, 70, 256},
                           {8, 16, 64},
                           {16, 64, 128},
                           {33, 33, 96},
                           {49, 130, 64},
                           {97, 50, 192},
                           {64, 200, 44},
                           {31, 48, 68},
                           {70, 65, 63},
                           {300, 80, 144}}) {
        int variant = 0;
        for (auto c : integer_cases()) {
            ++variant;
            Dims a_zeros, b_zeros;
            if (variant % 4 == 0) a_zeros = {m, 1};
            if (variant % 3 == 0) b_zeros = {n};
            auto inputs = with_operands(c, random_bytes(c.a, {m, k}, random), random_bytes(c.b, {k, n}, random),
                                        a_zeros, b_zeros, n, k, variant % 2 == 0, {m, n}, random);
            check(IntegerMatMulInfo{c.result()}, inputs, Tensor(c.y, {m, n}), make_integer_matmul,
                  std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " variant " +
                      std::to_string(variant));
            if (HasFailure()) return;
        }
    }
}

TEST_F(IntegerTiles, Convolve) {
    std::mt19937 random(seed_of(332));
    struct Sizes {
        int64_t height, width, channels, out, taps, stride, groups = 1;
    };
    // Rows of a window of few bytes; lines of less than a tile, of several, and longer than a part; windows and strides
    // whose rows jump between lines; groups that are multiplied together, as zero points allow, and by themselves.
    for (auto p : {Sizes{7, 7, 64, 64, 3, 1},
                   {14, 14, 32, 80, 3, 2},
                   {9, 28, 64, 33, 1, 1},
                   {12, 13, 64, 64, 1, 2},
                   {3, 120, 48, 64, 3, 1},
                   {5, 1, 64, 64, 1, 1},
                   {6, 40, 24, 40, 3, 1},
                   {20, 21, 3, 40, 7, 2},
                   {10, 33, 7, 33, 3, 1},
                   {9, 20, 96, 96, 3, 1, 6},
                   {14, 15, 144, 144, 3, 2, 6},
                   {7, 7, 96, 48, 3, 1, 8},
                   {5, 30, 100, 60, 1, 1, 5},
                   {6, 7, 128, 64, 3, 1, 2}}) {
        auto pad = p.taps / 2, y_height = (p.height + 2 * pad - p.taps) / p.stride + 1,
             y_width = (p.width + 2 * pad - p.taps) / p.stride + 1;
        int variant = 0;
        for (auto c : integer_cases()) {
            ++variant;
            Dims x{2, p.height, p.width, p.channels}, w{p.out, p.channels / p.groups, p.taps, p.taps},
                y{2, y_height, y_width, p.out}, w_zeros;
            if (variant % 3 == 0) w_zeros = {p.out};
            auto inputs = with_operands(c, random_bytes(c.a, x, random), random_bytes(c.b, w, random), {}, w_zeros,
                                        p.out, element_count(w) / p.out, variant % 2 == 0, y, random);
            // What products of u8 and i8 read as zero.
            if (p.groups > 1 && variant % 3) {
                auto& zero = inputs[3];
                zero = c.b == DataType::I8 ? Tensor() : zero;
                if (c.b == DataType::U8) zero.bytes[0] = std::byte{128}, zero.constant = true;
            }
            IntegerConvInfo info{{{p.stride, p.stride}, {1, 1}, {pad, pad}, {pad, pad}}, p.groups, c.result(), true};
            check(info, inputs, Tensor(c.y, y), make_integer_conv,
                  std::to_string(p.height) + "x" + std::to_string(p.width) + "x" + std::to_string(p.channels) +
                      " variant " + std::to_string(variant));
            if (HasFailure()) return;
        }
    }
}

TEST_F(IntegerTiles, OthersThanTheRightSumsAreSeen) {
    EXPECT_TRUE(multiplies_right(multiply_on_emulated_tiles));
    EXPECT_FALSE(multiplies_right([](IntegerBlock const& t) {
        multiply_on_emulated_tiles(t);
        ++static_cast<int32_t*>(t.y)[t.rows * t.y_row - 1];
    }));
}

TEST_F(IntegerTiles, NeedSuchAProcessor) {
    std::vector<Tensor> inputs{Tensor(DataType::U8, {16, 64}), Tensor(DataType::I8, {64, 16})};
    inputs.resize(IntegerMatMulInfo::kInputs);
    auto in = operands_of(inputs), results = operands_of({Tensor(DataType::I32, {16, 16})});
    auto answer = candidates(IntegerMatMulInfo{}, request_of(in, results, Isa::Avx512Vnni, 1));
    std::string why;
    for (auto const& r : answer.rejections)
        if (r.reason.starts_with("integer_matmul:cpu:packed:avx512amx")) why = r.reason;
    EXPECT_NE(why.find("needs avx512amx"), std::string::npos) << why;
}

}  // namespace
}  // namespace test
}  // namespace refactor::kernel

#endif
