#include "movement/block_shuffle.h"

#include "kernel/kernel.h"

#include <algorithm>
#include <vector>

namespace refactor::kernel::movement {

namespace {

using Bytes = std::vector<int>;

/// For each byte of a block of the target its place in the source.
Bytes places_of(std::span<int64_t const> sizes, std::span<int64_t const> steps, int64_t element) {
    Bytes places;
    for (int i = 0; i < element; ++i) places.push_back(i);
    for (auto axis = sizes.size(); axis-- > 0;) {
        auto inner = places.size();
        for (int64_t k = 1; k < sizes[axis]; ++k)
            for (size_t i = 0; i < inner; ++i) places.push_back(places[i] + static_cast<int>(k * steps[axis]));
    }
    return places;
}

/// The pieces of unit `unit`, which is made of the bytes at `places`.
void fill_unit(ShuffleTable& table, int unit, std::span<int const> places) {
    constexpr auto kUnit = ShuffleTable::kUnit;
    for (auto& piece : table.order[unit]) std::fill_n(piece, kUnit, static_cast<signed char>(-128));
    bool done[kUnit] = {};
    for (int piece = 0;; ++piece) {
        int first = table.in;
        for (int i = 0; i < kUnit; ++i)
            if (!done[i]) first = std::min(first, places[static_cast<size_t>(i)]);
        if (first == table.in) return;
        first = std::min(first, table.in - kUnit);
        table.pieces = std::max(table.pieces, piece + 1);
        table.from[unit][piece] = static_cast<uint8_t>(first);
        for (int i = 0; i < kUnit; ++i) {
            auto place = places[static_cast<size_t>(i)] - first;
            if (done[i] || place >= kUnit) continue;
            table.order[unit][piece][i] = static_cast<signed char>(place), done[i] = true;
        }
    }
}

void fill_units(ShuffleTable& table, Bytes const& places) {
    constexpr auto kUnit = ShuffleTable::kUnit;
    table.units = (table.out + kUnit - 1) / kUnit;
    for (int unit = 0; unit < table.units; ++unit) {
        auto to = std::min(unit * kUnit, table.out - kUnit);
        table.to[unit] = static_cast<uint16_t>(to);
        for (int half = 0; half < 2; ++half)
            table.halves[unit][half] = static_cast<uint8_t>(places[static_cast<size_t>(to + half * kUnit / 2)]);
        fill_unit(table, unit, std::span(places).subspan(static_cast<size_t>(to), kUnit));
    }
}

void fill_words(ShuffleTable& table, Bytes const& places) {
    constexpr auto kVector = ShuffleTable::kVector;
    for (int vector = 0; vector * kVector < table.out; ++vector) {
        auto to = std::max(0, std::min(vector * kVector, table.out - kVector));
        for (int i = 0; i < kVector / 2 && to + 2 * i < table.out; ++i)
            table.words[vector][i] = static_cast<uint16_t>(places[static_cast<size_t>(to + 2 * i)] / 2);
    }
}

}  // namespace

BlockShuffle::BlockShuffle(std::span<int64_t const> sizes, std::span<int64_t const> steps, int64_t element,
                           [[maybe_unused]] Isa isa) {
    auto places = places_of(sizes, steps, element);
    auto lowest = *std::min_element(places.begin(), places.end());
    for (auto& place : places) place -= lowest;
    auto table = std::make_shared<ShuffleTable>();
    table->in = 1 + *std::max_element(places.begin(), places.end()), table->out = static_cast<int>(places.size());
    if (table->in > ShuffleTable::kMostIn || table->out > ShuffleTable::kMostOut) return;
    begin_ = lowest;
#if RG_X86
    // Elements of a vector and more are as soon copied by themselves.
    bool words = element % 2 == 0, small = element < ShuffleTable::kUnit;
    for (auto step : steps) words = words && step % 2 == 0;
    if (isa >= Isa::Avx512 && words) {
        fill_words(*table, places);
        function_ = shuffle_blocks_avx512;
    } else if (isa >= Isa::Avx2 && small && table->in >= ShuffleTable::kUnit && table->out >= ShuffleTable::kUnit) {
        fill_units(*table, places);
        table->by_halves = element % 8 == 0;
        function_ = shuffle_blocks_avx2;
    }
#endif
    table_ = std::move(table);
}

}  // namespace refactor::kernel::movement
