#include "movement/indices.h"

namespace refactor::kernel::movement {

void throw_index(char const* op, int64_t index, int64_t position, int64_t axis, int64_t size) {
    throw InvalidInput(std::string(op) + ": index " + std::to_string(index) + " (at position " +
                       std::to_string(position) + ") is outside axis " + std::to_string(axis) + " of size " +
                       std::to_string(size));
}

}  // namespace refactor::kernel::movement
