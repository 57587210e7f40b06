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

}  // namespace refactor::kernel::movement
