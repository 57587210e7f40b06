#include "integer_matmul/integer_matmul.h"
#include "integer_matmul/integer_product.h"

#include <vector>

namespace refactor::kernel {
namespace {

#if RG_X86

/// Sums of small numbers, of more rows and columns than tiles have.
std::vector<int32_t> sums_of(void (*multiply)(IntegerBlock const&)) {
    constexpr int64_t kRows = 45, kColumns = 64, kDwords = 48, kNoOffset = 0;
    std::vector<uint8_t> a(kRows * kDwords * 4);
    std::vector<int32_t> b(kDwords * kColumns), add(kColumns, 7), y(kRows * kColumns);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 37 % 251);
    auto* bytes = reinterpret_cast<uint8_t*>(b.data());
    for (size_t i = 0; i < b.size() * 4; ++i) bytes[i] = static_cast<uint8_t>(i * 53 % 241);
    std::vector<float> scale(kColumns, 1);
    IntegerBlock block{};
    block.rows = kRows, block.columns = kColumns, block.a = a.data(), block.a_row = kDwords * 4;
    block.taps = 1, block.tap_offsets = &kNoOffset, block.depth = kDwords, block.tile_dwords = 16, block.b = b.data();
    block.column_add = add.data(), block.scale = scale.data();
    block.tail.store = IntegerStore::I32, block.y = y.data(), block.y_row = kColumns;
    multiply(block);
    return y;
}

#endif

}  // namespace

#if RG_X86

bool multiplies_right(void (*multiply)(IntegerBlock const&)) {
    return sums_of(multiply) == sums_of(integer_functions_avx512vnni().multiply);
}

IntegerFunctions with_tiles(void (*multiply)(IntegerBlock const&)) {
    auto f = integer_functions_avx512vnni();
    // Eight times as many products in a cycle, of which loads of tiles and what follows the sums leave less.
    f.multiply = multiply, f.rows = 32, f.tile_rows = 16, f.speed = 6;
    return f;
}

IntegerFunctions const& integer_functions_avx512amx() {
    static IntegerFunctions const kAll = with_tiles(multiply_integers_avx512amx);
    return kAll;
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
