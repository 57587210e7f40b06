#pragma once
#include "cumsum/strip.h"

// Included by ISA files, whose `Sums` are running sums of one vector of neighbours.

namespace refactor::kernel {
namespace {

/// Sums of `vectors` vectors, which stay in registers, and of no others.
template <class Sums, int vectors, bool exclusive>
void carry(CumSumStrip<typename Sums::Element> const& s, int64_t column) {
    Sums sums[vectors];
    auto const* x = s.x + column;
    auto* y = s.y + column;
    for (int64_t k = 0; k < s.size; ++k, x += s.step, y += s.step)
#pragma GCC unroll 16
        for (int v = 0; v < vectors; ++v) {
            Sums before = sums[v];
            sums[v].add(x + v * Sums::kLanes);
            (exclusive ? before : sums[v]).store(y + v * Sums::kLanes);
        }
}

template <class Sums, bool exclusive>
void carry_all(CumSumStrip<typename Sums::Element> const& s) {
    using Element = typename Sums::Element;
    constexpr int kVectors = Sums::kTogether;
    int64_t i = 0;
    for (; i + kVectors * Sums::kLanes <= s.count; i += kVectors * Sums::kLanes) carry<Sums, kVectors, exclusive>(s, i);
    for (; i + Sums::kLanes <= s.count; i += Sums::kLanes) carry<Sums, 1, exclusive>(s, i);
    for (; i < s.count; ++i) {
        typename Sums::Scalar total = 0;
        for (int64_t k = 0; k < s.size; ++k) {
            auto next = total + static_cast<typename Sums::Scalar>(s.x[k * s.step + i]);
            s.y[k * s.step + i] = static_cast<Element>(exclusive ? total : next);
            total = next;
        }
    }
}
template <class Sums>
void carry_all(CumSumStrip<typename Sums::Element> const& s) {
    s.exclusive ? carry_all<Sums, true>(s) : carry_all<Sums, false>(s);
}

}  // namespace
}  // namespace refactor::kernel
