#include "program/reorder_plain.h"

#include <cstring>

namespace refactor::kernel {

void reorder_to_plain(Layout layout, DataType dtype, Dims const& dims, void const* source, void* target) {
    auto count = element_count(dims);
    if (layout == Layout::Plain) {
        std::memcpy(target, source, storage_bytes(dtype, count));
        return;
    }
    auto size = storage_bytes(dtype, 1);
    auto block = block_of(layout), channels = dims[1], blocks = (channels + block - 1) / block;
    auto plane = element_count(std::span<int64_t const>(dims).subspan(2));
    auto const* from = static_cast<std::byte const*>(source);
    auto* to = static_cast<std::byte*>(target);
    for (int64_t n = 0; n < dims[0]; ++n)
        for (int64_t c = 0; c < channels; ++c)
            for (int64_t i = 0; i < plane; ++i, to += size)
                std::memcpy(
                    to, from + static_cast<size_t>(((n * blocks + c / block) * plane + i) * block + c % block) * size,
                    size);
}

}  // namespace refactor::kernel
