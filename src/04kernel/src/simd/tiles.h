#pragma once
// Tiles of AMX, registers of up to 16 rows of 64 bytes. Include what emulates them first, where they are, and a
// wrapper, which defines RG_SIMD.
#include <cstdint>

#include <immintrin.h>

namespace refactor::kernel {
namespace {

constexpr int kTileRows = 16, kTileColumns = 16;
/// What LDTILECFG reads.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

/// Tiles 0 to 3 are sums (of rows 0 and columns 0, rows 0 and columns 1, …), 4 and 5 of A, 6 and 7 of B. Tiles are
/// configured as long as this lives.
class TileRegisters {
    int64_t dwords_;
    int rows_[2] = {-1, -1};

public:
    /// Of k.
    explicit TileRegisters(int64_t dwords) : dwords_(dwords) {}
    TileRegisters(TileRegisters const&) = delete;
    TileRegisters& operator=(TileRegisters const&) = delete;
    ~TileRegisters() {
        if (rows_[0] >= 0) _tile_release();
    }
    /// Of A `first` and `second` rows (0: no such tile).
    RG_SIMD void shape(int first, int second) {
        if (rows_[0] == first && rows_[1] == second) return;
        rows_[0] = first, rows_[1] = second;
        TileShapes s;
        int const rows[2] = {first, second};
        for (int i = 0; i < 2; ++i) {
            auto count = static_cast<uint8_t>(rows[i]);
            if (!count) continue;
            s.rows[2 * i] = s.rows[2 * i + 1] = s.rows[4 + i] = count;
            s.row_bytes[2 * i] = s.row_bytes[2 * i + 1] = 4 * kTileColumns;
            s.row_bytes[4 + i] = static_cast<uint16_t>(4 * dwords_);
        }
        for (int j = 6; j < 8; ++j) s.rows[j] = static_cast<uint8_t>(dwords_), s.row_bytes[j] = 4 * kTileColumns;
        // The intrinsic says of its first eight bytes alone that they are read.
        __asm__ volatile("" : : "r"(&s) : "memory");
        _tile_loadconfig(&s);
    }
};

/// Stores a tile of B now and then, for nothing but the time: a TILESTORED that comes more than 700 ns behind the one
/// before takes 240 ns longer (a loop of its own, not kept; ADR 28). 64 products take 1,024 cycles.
class StoresNowAndThen {
    static constexpr int kMostProducts = 64;
    alignas(64) float nowhere_[kTileRows * kTileColumns];
    int products_ = 0;

public:
    RG_SIMD void after(int products) {
        if ((products_ += products) < kMostProducts) return;
        products_ = 0;
        _tile_stored(6, nowhere_, 4 * kTileColumns);
    }
};

/// Of two tiles of rows (`kBoth`) and of columns (`kWide`), or one.
template <bool kBoth, bool kWide>
RG_SIMD void clear_sums() {
    _tile_zero(0);
    if constexpr (kWide) _tile_zero(1);
    if constexpr (kBoth) _tile_zero(2);
    if constexpr (kBoth && kWide) _tile_zero(3);
}
/// What `store_sums` has stored.
template <bool kBoth, bool kWide, class T>
RG_SIMD void load_sums(T const* first, T const* second, int64_t row) {
    _tile_loadd(0, first, row);
    if constexpr (kWide) _tile_loadd(1, first + kTileColumns, row);
    if constexpr (kBoth) _tile_loadd(2, second, row);
    if constexpr (kBoth && kWide) _tile_loadd(3, second + kTileColumns, row);
}
/// The first and the second tile of rows, `row` bytes between rows; tiles of columns lie side by side.
template <bool kBoth, bool kWide, class T>
RG_SIMD void store_sums(T* first, T* second, int64_t row) {
    _tile_stored(0, first, row);
    if constexpr (kWide) _tile_stored(1, first + kTileColumns, row);
    if constexpr (kBoth) _tile_stored(2, second, row);
    if constexpr (kBoth && kWide) _tile_stored(3, second + kTileColumns, row);
}
/// Adds products of pairs of bf16: of tiles of rows, `a_row` bytes between rows, with those of columns, which lie side
/// by side.
template <bool kBoth, bool kWide>
RG_SIMD void add_pairs(void const* first, void const* second, int64_t a_row, float const* b, int64_t b_row) {
    _tile_loadd(6, b, b_row);
    _tile_loadd(4, first, a_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWide) {
        _tile_loadd(7, b + kTileColumns, b_row);
        _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kBoth) {
        _tile_loadd(5, second, a_row);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (kWide) _tile_dpbf16ps(3, 5, 7);
    }
}

/// Products of the tiles that are loaded; calls `between` twice while they are made.
template <bool kBoth, bool kWide>
RG_SIMD void multiply_loaded(auto&& between) {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWide) _tile_dpbf16ps(1, 4, 7);
    between();
    if constexpr (kBoth) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kBoth && kWide) _tile_dpbf16ps(3, 5, 7);
    between();
}

/// Two tiles of rows and what they are multiplied with, in three parts each.
struct TilesInParts {
    float const *first, *second;  ///< of rows
    int64_t a_row, a_part;        ///< bytes between rows; floats between parts
    float const* b;
    int64_t b_row, b_part;
};

constexpr int kProductsOfParts = 6;
/// Adds the six largest of their nine products, smaller ones first where that takes no load more.
template <bool kBoth, bool kWide>
RG_SIMD void add_parts(TilesInParts const& t, auto&& between) {
    auto load_rows = [&](int part) __attribute__((always_inline)) {
        _tile_loadd(4, t.first + part * t.a_part, t.a_row);
        if constexpr (kBoth) _tile_loadd(5, t.second + part * t.a_part, t.a_row);
    };
    auto load_columns = [&](int part) __attribute__((always_inline)) {
        _tile_loadd(6, t.b + part * t.b_part, t.b_row);
        if constexpr (kWide) _tile_loadd(7, t.b + part * t.b_part + kTileColumns, t.b_row);
    };
    auto multiply = [&]() __attribute__((always_inline)) { multiply_loaded<kBoth, kWide>(between); };
    load_columns(0);
#pragma GCC unroll 3
    for (int part = 2; part >= 0; --part) load_rows(part), multiply();
    load_columns(2), multiply();
    load_columns(1), multiply();
    load_rows(1), multiply();
}

}  // namespace
}  // namespace refactor::kernel
