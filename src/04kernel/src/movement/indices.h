#pragma once
#include "common/error.h"
#include "movement/movement.h"

namespace refactor::kernel::movement {

inline bool is_index(DataType type) { return type == DataType::I32 || type == DataType::I64; }

/// Element `i` of an i32 or i64 tensor.
inline int64_t index_at(void const* data, DataType type, int64_t i) {
    return type == DataType::I32 ? static_cast<int32_t const*>(data)[i] : static_cast<int64_t const*>(data)[i];
}

/// Throws `InvalidInput`: "Gather: index 7 (at position 3) is outside axis 0 of size 5".
[[noreturn]] void throw_index(char const* op, int64_t index, int64_t position, int64_t axis, int64_t size);

/// The index counted from 0; negative ones count from the end.
inline int64_t checked_index(char const* op, int64_t index, int64_t position, int64_t axis, int64_t size) {
    auto wrapped = index < 0 ? index + size : index;
    if (static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(size)) throw_index(op, index, position, axis, size);
    return wrapped;
}

/// Most tuples whose offsets are made at once: 8 KiB, which stay in L1.
inline constexpr int64_t kOffsets = 1024;

/// What tuples of indices name: the axes [first, first + sizes.size()) of a tensor.
struct IndexedAxes {
    char const* op;  ///< for messages
    DataType type;   ///< of the indices
    int64_t first;
    Dims sizes, strides;
};
/// Adds to `to[t]` the offset that tuple `first + t` names, in the units of the strides, for `count` tuples behind each
/// other in `indices`. Throws `InvalidInput` as `checked_index` does.
void add_offsets(IndexedAxes const& axes, void const* indices, int64_t first, int64_t count, int64_t* to);

/// Copies `count` rows of `bytes` bytes, which lie at the offsets `from` (bytes) in `x`, behind each other to `y`.
using CopyRows = void (*)(std::byte const* x, int64_t const* from, int64_t count, int64_t bytes, std::byte* y);
CopyRows copy_rows_of(int64_t bytes);

/// Element `i` of y is the one of `bytes` bytes that index `first + i` names of those at `x + i * along`, for indices
/// of one axis whose stride is in bytes: each is used once, so that no offsets are kept. Throws as `add_offsets` does.
using LookUp = void (*)(IndexedAxes const& axes, std::byte const* x, int64_t along, void const* indices, int64_t first,
                        int64_t count, std::byte* y);
LookUp look_up_of(int64_t bytes, DataType type);

/// How many tuples of rows of `bytes` bytes a thread takes at once: 32 KiB of rows, of which L1 holds the offsets.
inline int64_t tuples_together(int64_t bytes) {
    return std::clamp<int64_t>((32 << 10) / std::max<int64_t>(1, bytes), 1, kOffsets);
}

}  // namespace refactor::kernel::movement
