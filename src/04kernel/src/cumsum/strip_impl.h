#pragma once
#include "cumsum/strip.h"

// Included by ISA files, whose `Sums` are running sums of one vector of neighbours: of all lanes, or of the first ones.

namespace refactor::kernel {
namespace {

/// Elements of rows that several groups of vectors go down one after the other: 8 KiB of X and as many of Y stay in L1.
constexpr int64_t kBlock = 2048;
/// Fewest rows that sums are taken from memory for.
constexpr int64_t kFewestRows = 4;

/// `vectors` vectors, the last of which has `tail` lanes if that is not 0.
template <class Sums, int vectors, bool exclusive, bool has_tail>
void carry(typename Sums::Element const* x, typename Sums::Element* y, int64_t rows, int64_t step,
           typename Sums::Scalar* totals, int tail) {
    Sums sums[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[v].load_totals(totals + v * Sums::kLanes);
    for (int64_t k = 0; k < rows; ++k, x += step, y += step)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            Sums before = sums[v];
            if (has_tail && v + 1 == vectors) {
                sums[v].add_first(x + v * Sums::kLanes, tail);
                (exclusive ? before : sums[v]).store_first(y + v * Sums::kLanes, tail);
            } else {
                sums[v].add(x + v * Sums::kLanes);
                (exclusive ? before : sums[v]).store(y + v * Sums::kLanes);
            }
        }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[v].store_totals(totals + v * Sums::kLanes);
}

/// Up to four vectors, of which the last may be partial.
template <class Sums, bool exclusive, bool has_tail>
void carry_few(int64_t vectors, typename Sums::Element const* x, typename Sums::Element* y, int64_t rows, int64_t step,
               typename Sums::Scalar* totals, int tail) {
    switch (vectors) {
        case 1:
            return carry<Sums, 1, exclusive, has_tail>(x, y, rows, step, totals, tail);
        case 2:
            return carry<Sums, 2, exclusive, has_tail>(x, y, rows, step, totals, tail);
        case 3:
            return carry<Sums, 3, exclusive, has_tail>(x, y, rows, step, totals, tail);
        default:
            return carry<Sums, 4, exclusive, has_tail>(x, y, rows, step, totals, tail);
    }
}

template <class Sums, bool exclusive>
void carry_all(CumSumStrip<typename Sums::Element> const& s) {
    constexpr int64_t kLanes = Sums::kLanes;
    constexpr int kMany = Sums::kMany, kFew = 4;
    alignas(64) typename Sums::Scalar totals[kCumSumStrip + kLanes];
    for (int64_t i = 0; i < s.count + kLanes; ++i) totals[i] = 0;
    auto const vectors = (s.count + kLanes - 1) / kLanes;
    int const tail = static_cast<int>(s.count % kLanes);
    // One group of vectors goes down all rows.
    int64_t rows = vectors > kMany || (vectors > kFew && tail) ? kBlock / s.count : s.size;
    if (rows < kFewestRows) rows = kFewestRows;
    for (int64_t first = 0; first < s.size; first += rows) {
        auto const count = s.size - first < rows ? s.size - first : rows;
        auto const* x = s.x + first * s.step;
        auto* y = s.y + first * s.step;
        int64_t v = 0;
        for (; v + kMany <= vectors - (tail ? 1 : 0); v += kMany)
            carry<Sums, kMany, exclusive, false>(x + v * kLanes, y + v * kLanes, count, s.step, totals + v * kLanes, 0);
        for (; v < vectors; v += kFew) {
            auto const few = vectors - v < kFew ? vectors - v : kFew;
            auto const at = v * kLanes;
            if (tail && v + few == vectors)
                carry_few<Sums, exclusive, true>(few, x + at, y + at, count, s.step, totals + at, tail);
            else
                carry_few<Sums, exclusive, false>(few, x + at, y + at, count, s.step, totals + at, 0);
        }
    }
}
template <class Sums>
void carry_all(CumSumStrip<typename Sums::Element> const& s) {
    s.exclusive ? carry_all<Sums, true>(s) : carry_all<Sums, false>(s);
}

}  // namespace
}  // namespace refactor::kernel
