#pragma once
// Spreading operands over tiles, in vectors of `width` bytes. Everything has internal linkage.
#include "elementwise/tile.h"

namespace refactor::kernel::elementwise {
namespace {

template <class T, int width>
using SpreadLanes [[gnu::vector_size(width), gnu::aligned(1), gnu::may_alias]] = T;

/// Rows of one element each, in whole vectors: the end of the last is overwritten by the next row.
template <class T, int width>
void spread_elements(std::byte* to, std::byte const* from, int64_t stride, int64_t rows, int64_t bytes) {
    using Lanes = SpreadLanes<T, width>;
    for (; rows > 0; --rows, to += bytes, from += stride) {
        T element;
        __builtin_memcpy(&element, from, sizeof(T));
        Lanes const lanes = Lanes{} + element;
        for (int64_t i = 0; i < bytes; i += width) *reinterpret_cast<Lanes*>(to + i) = lanes;
    }
}

/// Rows of at least one vector: the last vector of a row ends with it and overlaps the one before.
template <int width>
void spread_runs(std::byte* to, std::byte const* from, int64_t stride, int64_t rows, int64_t bytes) {
    using Lanes = SpreadLanes<uint8_t, width>;
    auto move = [&](int64_t i) { *reinterpret_cast<Lanes*>(to + i) = *reinterpret_cast<Lanes const*>(from + i); };
    for (; rows > 0; --rows, to += bytes, from += stride) {
        int64_t i = 0;
        for (; i + width <= bytes; i += width) move(i);
        if (i < bytes) move(bytes - width);
    }
}

template <int width>
SpreadFunction runs_of(int64_t bytes) {
    if constexpr (width > 1)
        if (bytes < width) return runs_of<width / 2>(bytes);
    return spread_runs<width>;
}

template <int width>
SpreadFunction find_spread_function(SpreadKey key) {
    if (!key.single) return runs_of<width>(key.row_bytes);
    switch (key.element_bytes) {
        case 1:
            return spread_elements<uint8_t, width>;
        case 2:
            return spread_elements<uint16_t, width>;
        case 4:
            return spread_elements<uint32_t, width>;
        default:
            return spread_elements<uint64_t, width>;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
