#include "integer_matmul/integer_matmul.h"
#include "integer_matmul/integer_product.h"

#include <cstring>
#include <vector>

namespace refactor::kernel {
namespace {

#if RG_X86

/// Sums of small numbers, of more rows and columns than tiles have. Of signed A, less 128 each.
std::vector<int32_t> sums_of(void (*multiply)(IntegerBlock const&), bool a_signed) {
    constexpr int64_t kRows = 45, kColumns = 64, kDwords = 48, kNoOffset = 0;
    std::vector<uint8_t> a(kRows * kDwords * 4);
    std::vector<int32_t> b(kDwords * kColumns), add(kColumns, 7), y(kRows * kColumns);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 37 % 251);
    auto* bytes = reinterpret_cast<uint8_t*>(b.data());
    for (size_t i = 0; i < b.size() * 4; ++i) bytes[i] = static_cast<uint8_t>(i * 53 % 241);
    if (a_signed) {
        // The sums of columns bring back what is taken from A.
        for (auto& x : a) x ^= 0x80;
        for (int64_t k = 0; k < kDwords; ++k)
            for (int64_t j = 0; j < 4 * kColumns; ++j)
                add[static_cast<size_t>(j / 4)] += 128 * static_cast<int8_t>(bytes[k * 4 * kColumns + j]);
    }
    std::vector<float> scale(kColumns, 1);
    IntegerBlock block{};
    block.rows = kRows, block.columns = kColumns, block.a = a.data(), block.a_row = kDwords * 4;
    block.a_signed = a_signed;
    block.taps = 1, block.tap_offsets = &kNoOffset, block.depth = kDwords, block.tile_dwords = 16, block.b = b.data();
    block.column_add = add.data(), block.scale = scale.data();
    block.tail.store = IntegerStore::I32, block.y = y.data(), block.y_row = kColumns;
    multiply(block);
    return y;
}

void copy(uint8_t const* source, bool, int64_t n, uint8_t* target) {
    if (source != target) std::memcpy(target, source, static_cast<size_t>(n));
}
int32_t sum_signed(uint8_t const* row, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<int8_t>(row[i]);
    return sum;
}

#endif

}  // namespace

#if RG_X86

bool multiplies_right(void (*multiply)(IntegerBlock const&)) {
    auto right = sums_of(integer_functions_avx512vnni().multiply, false);
    return sums_of(multiply, false) == right && sums_of(multiply, true) == right;
}

TileFunctions::TileFunctions(void (*multiply)(IntegerBlock const&)) : all(integer_functions_avx512vnni()) {
    // Eight times as many products in a cycle, of which loads of tiles and what follows the sums leave less.
    all.multiply = multiply, all.rows = 32, all.tile_rows = 16, all.speed = 6;
    of_signed = all;
    of_signed.a_signed = true, of_signed.widen = copy, of_signed.sum = sum_signed, of_signed.few_columns = nullptr;
    all.of_signed = &of_signed;
}

IntegerFunctions const& integer_functions_avx512amx() {
    static TileFunctions const kTiles(multiply_integers_avx512amx);
    return kTiles.all;
}

#endif

std::string why_not_tiles(Request const& request) {
    if (auto why = why_not_isa(request, Isa::Avx512Amx); !why.empty()) return why;
#if RG_X86
    static bool const kRight = multiplies_right(multiply_integers_avx512amx);
    if (!kRight) return "tiles of this processor (AMX) do not give the sums that vectors give";
#endif
    return {};
}

}  // namespace refactor::kernel
