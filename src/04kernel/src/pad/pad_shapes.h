#pragma once
#include "pad/pad.h"

#include <vector>

namespace refactor::kernel::padding {

using movement::is_word, movement::strides_of;

/// Coordinate of the input that output coordinate `i - begin` of an axis of `size` shows; -1: the constant.
inline int64_t source_of(PadMode mode, int64_t i, int64_t size) {
    if (i >= 0 && i < size) return i;
    switch (mode) {
        case PadMode::Constant:
            return -1;
        case PadMode::Edge:
            return i < 0 ? 0 : size - 1;
        case PadMode::Wrap:
            return ((i % size) + size) % size;
        case PadMode::Reflect:
            break;
    }
    if (size == 1) return 0;
    auto period = 2 * (size - 1), j = ((i % period) + period) % period;
    return j < size ? j : period - j;
}

/// What rows are made of.
struct Shapes {
    PadMode mode;
    Dims in, out, begins, strides;
    int64_t bytes;
    bool has_value;
    /// Of the last axis: outputs [first, last) are a run of the input; what the ones in front and behind show (but
    /// for the constant).
    int64_t first = 0, last = 0;
    std::vector<int64_t> front = {}, behind = {};
    std::vector<int64_t> rows = {};  ///< offset of the row that each output of the axis before it shows; -1: none

    bool keeps(size_t axis) const { return in[axis] == out[axis] && begins[axis] == 0; }

    /// Makes rows of axes that nothing is added to and of those before them, as long as a row stays short: a task has
    /// one at least.
    void merge_axes() {
        constexpr int64_t kLongest = 4096;
        for (auto axis = in.size(); axis-- > 1;) {
            bool nothing = keeps(axis - 1) && in[axis - 1] == 1, one = in[axis] == 1;
            bool merged = keeps(axis) && (mode == PadMode::Constant || keeps(axis - 1) || one);
            if (!nothing && (!merged || out[axis - 1] * out[axis] > kLongest)) continue;
            in[axis - 1] *= in[axis], out[axis - 1] *= out[axis];
            begins[axis - 1] = nothing ? begins[axis] : begins[axis - 1] * in[axis];
            for (auto* list : {&in, &out, &begins}) list->erase(list->begin() + static_cast<std::ptrdiff_t>(axis));
        }
        strides = strides_of(in);
    }

    /// Makes elements of a last axis that nothing is added to; the constant is one of the others.
    void widen_elements() {
        auto wide = bytes * in.back();
        if (mode == PadMode::Constant || in.size() < 2 || !keeps(in.size() - 1) || !is_word(wide)) return;
        bytes = wide;
        for (auto* list : {&in, &out, &begins}) list->pop_back();
        strides = strides_of(in);
    }

    /// How many rows from `at` on, and before `end`, show rows that follow each other.
    int64_t rows_together(int64_t at, int64_t end) const {
        int64_t count = 1;
        while (at + count < end && rows[at + count] == rows[at] + count * in.back()) ++count;
        return count;
    }

    void find_sources() {
        auto size = in.back(), n = out.back(), begin = begins.back();
        first = std::clamp<int64_t>(begin, 0, n), last = std::clamp<int64_t>(begin + size, first, n);
        bool shows = mode != PadMode::Constant;
        for (int64_t i = 0; shows && i < first; ++i) front.push_back(source_of(mode, i - begin, size));
        for (auto i = last; shows && i < n; ++i) behind.push_back(source_of(mode, i - begin, size));
        auto rank = in.size();
        for (int64_t i = 0; rank > 1 && i < out[rank - 2]; ++i) {
            auto source = source_of(mode, i - begins[rank - 2], in[rank - 2]);
            rows.push_back(source < 0 ? -1 : source * strides[rank - 2]);
        }
    }
};

}  // namespace refactor::kernel::padding
