#include "movement/indices.h"

namespace refactor::kernel::movement {

namespace {

/// Negative numbers are large unsigned ones: those that are in range need one comparison.
bool counts_from_front(int64_t index, int64_t size) {
    return static_cast<uint64_t>(index) < static_cast<uint64_t>(size);
}

/// Adds what the numbers of the axes [axis, axis + kAxes) of each tuple contribute.
template <class I, size_t kAxes>
void add_axes(IndexedAxes const& axes, size_t axis, I const* indices, int64_t first, int64_t count, int64_t* to) {
    int64_t sizes[kAxes], strides[kAxes], depth = static_cast<int64_t>(axes.sizes.size());
    for (size_t k = 0; k < kAxes; ++k) sizes[k] = axes.sizes[axis + k], strides[k] = axes.strides[axis + k];
    auto position = first * depth + static_cast<int64_t>(axis);
    for (int64_t i = 0; i < count; ++i, position += depth) {
        int64_t offset = 0;
#pragma GCC unroll 4
        for (size_t k = 0; k < kAxes; ++k) {
            auto at = position + static_cast<int64_t>(k);
            int64_t index = indices[at];
            if (!counts_from_front(index, sizes[k])) [[unlikely]]
                index = checked_index(axes.op, index, at, axes.first + static_cast<int64_t>(axis + k), sizes[k]);
            offset += index * strides[k];
        }
        to[i] += offset;
    }
}

template <class I>
void add_all_axes(IndexedAxes const& axes, I const* indices, int64_t first, int64_t count, int64_t* to) {
    size_t axis = 0, depth = axes.sizes.size();
    for (; axis + 4 <= depth; axis += 4) add_axes<I, 4>(axes, axis, indices, first, count, to);
    for (; axis + 2 <= depth; axis += 2) add_axes<I, 2>(axes, axis, indices, first, count, to);
    for (; axis < depth; ++axis) add_axes<I, 1>(axes, axis, indices, first, count, to);
}

template <class T, class I>
void look_up_words(IndexedAxes const& axes, std::byte const* x, int64_t along, void const* indices, int64_t first,
                   int64_t count, std::byte* y) {
    auto size = axes.sizes[0], stride = axes.strides[0];
    auto const* at = static_cast<I const*>(indices) + first;
    for (int64_t i = 0; i < count; ++i, x += along) {
        int64_t index = at[i];
        if (!counts_from_front(index, size)) [[unlikely]]
            index = checked_index(axes.op, index, first + i, axes.first, size);
        store(y + i * static_cast<int64_t>(sizeof(T)), load<T>(x + index * stride));
    }
}

template <class T>
void copy_words(std::byte const* x, int64_t const* from, int64_t count, int64_t, std::byte* y) {
    for (int64_t i = 0; i < count; ++i) store(y + i * static_cast<int64_t>(sizeof(T)), load<T>(x + from[i]));
}

void copy_bytes(std::byte const* x, int64_t const* from, int64_t count, int64_t bytes, std::byte* y) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(y + i * bytes, x + from[i], static_cast<size_t>(bytes));
}

}  // namespace

void throw_index(char const* op, int64_t index, int64_t position, int64_t axis, int64_t size) {
    throw InvalidInput(std::string(op) + ": index " + std::to_string(index) + " (at position " +
                       std::to_string(position) + ") is outside axis " + std::to_string(axis) + " of size " +
                       std::to_string(size));
}

void add_offsets(IndexedAxes const& axes, void const* indices, int64_t first, int64_t count, int64_t* to) {
    if (axes.type == DataType::I32)
        add_all_axes(axes, static_cast<int32_t const*>(indices), first, count, to);
    else
        add_all_axes(axes, static_cast<int64_t const*>(indices), first, count, to);
}

CopyRows copy_rows_of(int64_t bytes) {
    if (!is_word(bytes)) return copy_bytes;
    return with_word(bytes, [](auto word) -> CopyRows { return copy_words<decltype(word)>; });
}

LookUp look_up_of(int64_t bytes, DataType type) {
    return with_word(bytes, [&](auto word) -> LookUp {
        return type == DataType::I32 ? look_up_words<decltype(word), int32_t> : look_up_words<decltype(word), int64_t>;
    });
}

}  // namespace refactor::kernel::movement
