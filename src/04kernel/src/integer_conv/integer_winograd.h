#pragma once
#include "integer_conv/integer_conv_packed.h"

namespace refactor::kernel {

/// Winograd F(4×4, 3×3) in integers, exact. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
/// (2015), with weights scaled so that everything is an integer.
///
/// V = Bᵀ x B and U = G' w G'ᵀ fit i16: rows of Bᵀ have absolute sums of 10 at most, so |V| ≤ 100 · 255. G' is G times
/// (24, 24, 24, 24, 24, 6), rows (6 0 0), (-4 -4 -4), (-4 4 -4), (1 2 4), (1 -2 4), (0 0 6). Sums of V · U and what the
/// output transform makes of them, 576 times the result, are taken modulo 2^32. 576 = 64 · 9, and 9 has an inverse
/// modulo 2^32: times that, they are 64 times the result, which is therefore known if it has 26 bits with its sign.
/// `WinogradWeights::exact` tells whether weights promise that.
struct WinogradWeights {
    static constexpr int64_t kProducts = 36;
    int64_t in_channels, out_channels, panel;

    int64_t depth() const { return (in_channels + 1) / 2; }
    int64_t panels() const { return (out_channels + panel - 1) / panel; }
    int64_t columns() const { return panels() * panel; }
    int64_t panel_dwords() const { return kProducts * depth() * panel; }
    size_t bytes() const { return static_cast<size_t>(panels() * panel_dwords()) * sizeof(int32_t); }

    /// Whether U and the sums fit. `w`: [out, in, 3, 3] of u8 or i8; zero points (null: 0) of their type, one or one
    /// for each output channel.
    bool exact(void const* w, bool is_signed, void const* zeros, bool many_zeros) const;
    /// U: [panels][36][depth][panel] dwords of two channels.
    void pack(IntegerFunctions const&, void const* w, bool is_signed, void const* zeros, bool many_zeros,
              void* target) const;
};

}  // namespace refactor::kernel
