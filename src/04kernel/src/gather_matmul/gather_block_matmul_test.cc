#include "common/error.h"
#include "kernel/ops/integer.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

using I = GatherBlockMatMulInfo;

Tensor random_bytes(Dims dims, std::mt19937& random) {
    Tensor t(DataType::U8, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    return t;
}

struct Case {
    I info;
    int64_t rows, share = 1;
    int zeros = 0;  ///< 1: packed, 2: f32
    bool bias = true;
};

/// Operands of a product; `x` replaces random rows.
std::vector<Tensor> inputs_of(Case const& c, std::mt19937& random) {
    auto const& [n, k, bits, block, may_round] = c.info.product;
    auto blocks = c.info.product.blocks(), scales = c.info.matrices * n * blocks;
    std::vector<int64_t> indices(static_cast<size_t>(c.rows));
    for (auto& index : indices)
        index = std::uniform_int_distribution<int64_t>(-c.info.matrices, c.info.matrices - 1)(random);
    std::vector<Tensor> inputs{random_f32({c.rows / c.share, k}, random),
                               random_bytes({c.info.matrices, n, blocks, block * bits / 8}, random).as_constant(),
                               random_f32({scales}, random).as_constant(),
                               {},
                               Tensor::of(DataType::I64, {c.rows / c.share, c.share}, indices),
                               {}};
    if (c.zeros == 1) inputs[3] = random_bytes({c.info.matrices, n, (blocks * bits + 7) / 8}, random).as_constant();
    if (c.zeros == 2) inputs[3] = random_f32({scales}, random, 4);
    if (c.bias) inputs[5] = random_f32({c.info.matrices, n}, random);
    return inputs;
}

TEST(GatherBlockMatMul, CandidatesAgree) {
    std::mt19937 random(seed_of(331));
    for (int32_t bits : {2, 4, 8})
        for (int64_t block : {16, 64})
            for (int zeros : {0, 1, 2})
                for (auto [rows, share, matrices] :
                     {std::tuple<int64_t, int64_t, int64_t>{1, 1, 4}, {6, 3, 40}, {20, 2, 9}, {40, 1, 1}}) {
                    // Parts of columns; then several depths of a panel, and some columns.
                    auto [n, k] = rows == 6    ? std::pair<int64_t, int64_t>{1050, 130}
                                  : rows == 40 ? std::pair<int64_t, int64_t>{71, 1100}
                                               : std::pair<int64_t, int64_t>{7, 257};
                    Case c{{{n, k, bits, block}, matrices}, rows, share, zeros, rows > 1};
                    auto const& p = c.info.product;
                    auto error = 6e-8 * static_cast<double>(p.k) * ((2 << bits) + (zeros == 2 ? 8 : 0));
                    auto others = check_candidates(c.info, inputs_of(c, random), {Tensor(DataType::F32, {rows, p.n})},
                                                   {error, 2e-6});
                    EXPECT_GE(others, cpu_features().isa >= Isa::Avx2 ? 1 : 0);
                    if (HasFailure()) return;
                }
}

/// Rows whose blocks are whole multiples, from -127 to 127, of a power of 2 each: they round to themselves.
void make_steps(Tensor& x, BlockMatMulInfo const& info, std::mt19937& random) {
    for (int64_t i = 0; i < x.desc.dims[0]; ++i)
        for (int64_t first = 0; first < info.k; first += info.block) {
            auto step = std::ldexp(1.f, static_cast<int>(random() % 5) - 8);
            auto* block = x.as<float>() + i * info.k + first;
            for (int64_t p = 0; p < std::min(info.block, info.k - first); ++p)
                block[p] = static_cast<float>(static_cast<int>(random() % 255) - 127) * step;
            block[0] = 127 * step;
        }
}

TEST(GatherBlockMatMul, RoundsRowsToBytes) {
    std::mt19937 random(seed_of(332));
    for (int32_t bits : {2, 4, 8})
        for (bool zeros : {false, true})
            for (auto [rows, share, matrices] :
                 {std::tuple<int64_t, int64_t, int64_t>{1, 1, 4}, {6, 3, 40}, {150, 2, 2}}) {
                Case c{{{64, 600, bits, 32, true}, matrices}, rows, share, zeros, rows > 1};
                auto inputs = inputs_of(c, random);
                make_steps(inputs[0], c.info.product, random);
                auto error = 6e-8 * 600 * (2 << bits) * 127;
                auto others = check_candidates(c.info, inputs, {Tensor(DataType::F32, {rows, 64})}, {error, 0});
                EXPECT_GE(others, cpu_features().isa > Isa::Avx2 ? 2 : cpu_features().isa == Isa::Avx2 ? 1 : 0);
                if (HasFailure()) return;
            }
}

TEST(GatherBlockMatMul, IndicesOutOfRangeThrow) {
    std::mt19937 random(seed_of(333));
    PackCache packs;
    ThreadPool pool(1);
    Case c{{{32, 64, 4, 32, true}, 3}, 3};
    auto inputs = inputs_of(c, random);
    std::vector<Tensor> outputs{Tensor(DataType::F32, {3, 32})};
    for (int64_t bad : {3, -4}) {
        inputs[I::kIndices].as<int64_t>()[1] = bad;
        auto in = operands_of(inputs), results = operands_of(outputs);
        for (auto const& kernel : candidates(c.info, request_of(in, results, cpu_features().isa, 1)).kernels) {
            try {
                run(*kernel, inputs, outputs, packs, pool);
                ADD_FAILURE() << kernel->id() << " took index " << bad;
            } catch (InvalidInput const& e) {
                EXPECT_NE(std::string(e.what()).find("index " + std::to_string(bad)), std::string::npos) << e.what();
            }
        }
    }
}

TEST(GatherBlockMatMul, RefusalsNameTheReason) {
    std::mt19937 random(seed_of(334));
    auto why = [&](auto&& change) {
        Case c{{{32, 64, 4, 32}, 3}, 2};
        auto inputs = inputs_of(c, random);
        change(c, inputs);
        auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, c.info.product.n})});
        auto found = candidates(c.info, request_of(in, results, cpu_features().isa, 1));
        if (found.kernels.empty())
            return found.rejections.back().reason.substr(
                std::string_view("gather_block_matmul:cpu:reference: ").size());
        std::vector<Tensor> outputs{Tensor(DataType::F32, {2, c.info.product.n})};
        PackCache packs;
        Descriptions of(inputs, outputs);
        auto task = found.kernels.back()->bind({of.in, of.out, {}, packs, 1});
        return task.ok() ? std::string("bound") : task.error().reason;
    };
    EXPECT_EQ(why([](auto&, auto&) {}), "bound");
    EXPECT_EQ(why([](auto&, auto& x) { x[4] = Tensor(DataType::U8, {2}); }), "indices are u8, expected i32 or i64");
    EXPECT_EQ(why([](auto&, auto& x) { x[1] = Tensor(DataType::F32, {3}); }), "input 1 of f32, expected u8");
    EXPECT_EQ(why([](auto& c, auto&) { c.info.product.bits = 3; }), "3 bits, expected 2, 4 or 8");
    EXPECT_EQ(why([](auto& c, auto&) { c.info.matrices = 4; }), "input 1 has 3072 elements, expected 4096");
    EXPECT_EQ(why([](auto&, auto& x) { x[5] = Tensor(DataType::F32, {3}); }), "input 5 has 3 elements, expected 96");
    EXPECT_EQ(why([&](auto&, auto& x) { x[0] = random_f32({3, 64}, random); }),
              "X of 192, Y of 64 elements and 2 indices do not fit 3 matrices of 64 times 32");
}

}  // namespace
}  // namespace refactor::kernel::test
