#pragma once
#include "common/half.h"
#include "grid_sample/grid_sample.h"

#include <cmath>

namespace refactor::kernel {

/// The elements that make up a sample, and their weights. `F` is the type of coordinates and weights.
template <class F>
class GridTaps {
    GridSampleInfo info_;
    int axes_;
    int64_t sizes_[3]{}, strides_[3]{};

    /// Reflects at the borders until x lies within; the distance between borders that coincide is no period.
    static F reflected(F x, F low, F high) {
        auto range = high - low;
        if (!(range > 0)) return low;
        auto distance = x < low ? low - x : x - high;
        if (x >= low && x <= high) return x;
        auto periods = std::floor(distance / range), rest = distance - periods * range;
        bool near_low = (x < low) == (std::fmod(periods, F(2)) == 0);
        return near_low ? low + rest : high - rest;
    }
    F low() const { return info_.align_corners ? F(0) : F(-0.5); }
    F high(int64_t size) const { return static_cast<F>(size) - (info_.align_corners ? F(1) : F(0.5)); }

    /// Element that position `i` shows, -1 for zero.
    int64_t element(int64_t i, int64_t size) const {
        if (i >= 0 && i < size) return i;
        if (info_.padding == GridPadding::Zeros) return -1;
        if (info_.padding == GridPadding::Reflection)
            i = static_cast<int64_t>(reflected(static_cast<F>(i), low(), high(size)));
        return std::clamp<int64_t>(i, 0, size - 1);
    }
    /// Indices and weights along one axis; returns their number.
    int along(F n, int64_t size, int64_t* index, F* weight) const {
        auto x = source(n, size), base = std::floor(x), t = x - base;
        auto first = static_cast<int64_t>(base);
        int count = per_axis();
        if (info_.mode == GridMode::Nearest) {
            weight[0] = 1;
        } else if (info_.mode == GridMode::Linear) {
            weight[0] = 1 - t, weight[1] = t;
        } else {
            constexpr F a = F(-0.75);  // Keys' kernel as PyTorch has it
            auto outer = [](F d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
            auto inner = [](F d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
            weight[0] = outer(t + 1), weight[1] = inner(t), weight[2] = inner(1 - t), weight[3] = outer(2 - t);
            --first;
        }
        for (int k = 0; k < count; ++k) index[k] = element(first + k, size);
        return count;
    }

public:
    static constexpr int kMostTaps = 64;

    GridTaps(GridSampleInfo const& info, std::span<int64_t const> x)
        : info_(info), axes_(static_cast<int>(x.size()) - 2) {
        int64_t stride = 1;
        for (int i = axes_; i-- > 0; stride *= sizes_[i]) sizes_[i] = x[i + 2], strides_[i] = stride;
    }
    int axes() const { return axes_; }
    int per_axis() const { return info_.mode == GridMode::Nearest ? 1 : info_.mode == GridMode::Linear ? 2 : 4; }
    int count() const {
        int n = 1;
        for (int i = 0; i < axes_; ++i) n *= per_axis();
        return n;
    }
    /// Coordinate in elements. Far outside, any coordinate that touches nothing will do.
    F source(F n, int64_t size) const {
        auto length = static_cast<F>(size);
        if (n != n) n = -1;
        auto x = info_.align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
        if (info_.mode == GridMode::Nearest) x = std::nearbyint(x);
        if (!(std::abs(x) < F(1e30))) x = x > 0 ? F(1e30) : F(-1e30);
        if (x < low() || x > high(size)) {
            if (info_.padding == GridPadding::Border && info_.mode != GridMode::Cubic)
                x = std::min(std::max(x, F(0)), length - 1);
            if (info_.padding == GridPadding::Reflection) x = reflected(x, low(), high(size));
        }
        return std::min(std::max(x, F(-4)), length + 4);
    }
    int64_t plane() const { return strides_[0] * sizes_[0]; }

    /// Taps of the sample at `place` (last axis first): offset in the plane, -1 for zero, and weight, each `step`
    /// apart.
    void at(F const* place, int64_t* offset, F* weight, int step) const {
        offset[0] = 0, weight[0] = 1;
        int filled = 1;
        for (int axis = 0; axis < axes_; ++axis) {
            int64_t index[4];
            F share[4];
            int n = along(place[axes_ - 1 - axis], sizes_[axis], index, share);
            // From the back, since tap `i` spreads over the places n * i and after.
            for (int i = filled; i-- > 0;) {
                auto o = offset[i * step];
                auto w = weight[i * step];
                for (int k = n; k-- > 0;) {
                    offset[(i * n + k) * step] = o < 0 || index[k] < 0 ? -1 : o + index[k] * strides_[axis];
                    weight[(i * n + k) * step] = w * share[k];
                }
            }
            filled *= n;
        }
    }
};

/// Why the sizes do not fit together, or nothing.
std::optional<Rejection> refuse_grid_shapes(BindArgs const& args);
/// Reads `count` numbers of a float type.
template <class F>
void read_floats(DataType type, void const* data, int64_t first, int count, F* to) {
    for (int i = 0; i < count; ++i) {
        if (type == DataType::F32)
            to[i] = static_cast<F>(static_cast<float const*>(data)[first + i]);
        else if (type == DataType::F64)
            to[i] = static_cast<F>(static_cast<double const*>(data)[first + i]);
        else if (type == DataType::F16)
            to[i] = static_cast<F>(f32_from_f16(static_cast<uint16_t const*>(data)[first + i]));
        else
            to[i] = static_cast<F>(f32_from_bf16(static_cast<uint16_t const*>(data)[first + i]));
    }
}

}  // namespace refactor::kernel
