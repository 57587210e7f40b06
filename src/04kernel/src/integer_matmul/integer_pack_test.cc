#include "integer_matmul/integer_pack.h"

#include "common/cpu_features.h"
#include "integer_conv/integer_winograd.h"
#include "reduce/kernel_test.h"

#include <cstdlib>

namespace refactor::kernel::test {
namespace {

std::vector<uint8_t> random_bytes(size_t count, uint32_t range) {
    std::mt19937 random(seed_of(332));
    std::vector<uint8_t> bytes(count);
    for (auto& b : bytes) b = static_cast<uint8_t>(random() % range);
    return bytes;
}

#if RG_X86
/// Those that this processor runs.
std::vector<IntegerFunctions const*> functions() {
    std::vector<IntegerFunctions const*> all;
    auto isa = cpu_features().isa;
    if (isa >= Isa::Avx2)
        all = {&integer_functions_avx2(), &integer_functions_avx2_bytes(), &integer_functions_avx2_narrow()};
    if (cpu_features().avx2_vnni) all.push_back(&integer_functions_avx2vnni());
    if (isa >= Isa::Avx512) all.push_back(&integer_functions_avx512());
    if (isa >= Isa::Avx512Vnni) all.push_back(&integer_functions_avx512vnni());
    return all;
}

/// Element k of column j, as a number, or 0 where there is none.
int32_t element_of(IntegerFunctions const& f, IntegerMatrix const& b, int64_t k, int64_t j) {
    if (j >= b.n || k >= b.k) return 0;
    auto offset = b.k_offsets.empty() ? k * b.n + j : b.k_offsets[static_cast<size_t>(k)] + j * b.column_step;
    if (!b.k_offsets.empty() && b.k_offsets[static_cast<size_t>(k)] < 0) return 0;
    return byte_at(b.b, b.is_signed, offset) + b_shift(f, b.is_signed);
}

/// Panels and sums, and, with spills, that the dwords and what was taken out of them are the element.
void check(IntegerFunctions const& f, IntegerMatrix const& b) {
    auto depth = (b.k + f.group - 1) / f.group;
    auto spills = f.spills ? count_spills(f, b) : 0;
    ASSERT_TRUE(spills);
    PackedSize size(f, b.n, depth, *spills);
    std::vector<int32_t> packed(size.bytes() / sizeof(int32_t), 0x5a5a5a5a);
    pack_columns(f, b, size, depth, packed.data());
    for (int64_t j = 0; j < size.columns; ++j) {
        int32_t sum = 0;
        auto of_vector = size.spills_of(packed.data(), j / f.width * f.width);
        for (int64_t k = 0; k < depth * f.group; ++k) {
            int64_t d = k / f.group, bits = 8 * f.cell_bytes() / f.group;
            auto part = [&](int32_t dword) {
                auto up = static_cast<uint32_t>(dword) << (32 - bits * (k % f.group + 1));
                return static_cast<int32_t>(up) >> (32 - bits);
            };
            auto at = static_cast<size_t>((j / f.panel * depth + d) * f.panel + j % f.panel);
            auto value = part(f.narrow ? reinterpret_cast<int16_t const*>(packed.data())[at] : packed[at]);
            for (auto s = of_vector.first ? of_vector.first[0] : 0; of_vector.first && s < of_vector.first[1]; ++s)
                if (of_vector.places[2 * s + 1] == 4 * d) value += part(of_vector.weights[s * f.width + j % f.width]);
            ASSERT_EQ(value, element_of(f, b, k, j)) << "k " << k << ", column " << j << " of " << b.n;
            sum += value;
        }
        ASSERT_EQ(packed[static_cast<size_t>(size.dwords + j)], sum) << "column " << j;
    }
}

TEST(IntegerPack, HoldsElementsAndSums) {
    for (auto const* f : functions())
        for (bool is_signed : {true, false})
            for (int64_t n : {1, 16, 21, 70})
                for (int64_t k : {1, 6, 33}) {
                    auto bytes = random_bytes(static_cast<size_t>(n * k), f->spills ? 60 : 256);
                    if (f->spills && !is_signed)
                        for (auto& b : bytes) b = static_cast<uint8_t>(b + 100);
                    // Columns behind each other, read in another order and with gaps.
                    std::vector<int64_t> offsets;
                    for (int64_t i = 0; i < k; ++i) offsets.push_back((i * 5 + 2) % k);
                    offsets.insert(offsets.begin() + k / 2, -1);
                    while (offsets.size() % static_cast<size_t>(f->group)) offsets.push_back(-1);
                    check(*f, {bytes.data(), is_signed, static_cast<int64_t>(offsets.size()), n, offsets, k});
                    // Two weights whose products may not fit together.
                    if (k > 8) bytes[0] = bytes[static_cast<size_t>(n)] = is_signed ? 127 : 255;
                    check(*f, {bytes.data(), is_signed, k, n});
                }
}

TEST(IntegerPack, WinogradTransformsFilters) {
    constexpr int kG[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
    for (auto const* f : functions())
        for (bool is_signed : {true, false})
            for (auto [out, in] : {std::pair<int64_t, int64_t>{21, 7}, {64, 20}, {130, 33}}) {
                if (!f->winograd) continue;
                auto w = random_bytes(static_cast<size_t>(out * in * 9), 200);
                auto zeros = random_bytes(static_cast<size_t>(out), 100);
                WinogradWeights weights{in, out, f->panel};
                std::vector<int16_t> u(weights.bytes() / sizeof(int16_t), 0x5a5a);
                weights.pack(*f, w.data(), is_signed, zeros.data(), true, u.data());
                for (int64_t n = 0; n < weights.columns(); ++n)
                    for (int64_t c = 0; c < 2 * weights.depth(); ++c)
                        for (int64_t p = 0; p < 36; ++p) {
                            int64_t sum = 0;
                            for (int64_t k = 0; n < out && c < in && k < 9; ++k) {
                                auto element = byte_at(w.data(), is_signed, (n * in + c) * 9 + k);
                                element -= byte_at(zeros.data(), is_signed, n);
                                sum += kG[p / 6][k / 3] * kG[p % 6][k % 3] * element;
                            }
                            auto dword = (n / f->panel * 36 + p) * weights.depth() * f->panel + c / 2 * f->panel;
                            auto value = u[static_cast<size_t>((dword + n % f->panel) * 2 + c % 2)];
                            ASSERT_EQ(value, sum) << "product " << p << ", column " << n << ", channel " << c;
                        }
            }
}
#endif

TEST(IntegerPack, WinogradKnowsWhichFiltersFit) {
    auto is_exact = [](int64_t in, uint8_t element, uint8_t zero, bool is_signed) {
        std::vector<uint8_t> w(static_cast<size_t>(3 * in * 9), zero);
        std::fill(w.end() - in * 9, w.end(), element);
        return WinogradWeights{in, 3, 16}.exact(w.data(), is_signed, &zero, false);
    };
    // 255 Σ |w - zero| below 2^25: 131,585 of them.
    EXPECT_TRUE(is_exact(115, 127, 0, true));
    EXPECT_FALSE(is_exact(116, 127, 0, true));
    EXPECT_TRUE(is_exact(114, 0x80, 0, true));
    EXPECT_FALSE(is_exact(115, 0x80, 0, true));
    // 16 Σ of nine below 2^15.
    EXPECT_TRUE(is_exact(32, 227, 0, false));
    EXPECT_FALSE(is_exact(32, 228, 0, false));
    EXPECT_TRUE(is_exact(32, 255, 28, false));
}

}  // namespace
}  // namespace refactor::kernel::test
