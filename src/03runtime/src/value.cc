#include "runtime/value.h"

namespace refactor::runtime {

std::string describe(DataType dtype, std::span<int64_t const> dims) {
    std::string text(name_of(dtype));
    text += '[';
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i) text += ", ";
        text += std::to_string(dims[i]);
    }
    return text += ']';
}

}  // namespace refactor::runtime
