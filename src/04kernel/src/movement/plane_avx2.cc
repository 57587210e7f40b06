#include "simd/vec_avx2.h"
//
#include "movement/plane_impl.h"

namespace refactor::kernel::movement {

// Declared in plane.h, which an ISA file must not include: it brings shared inline functions.
void transpose_plane_avx2(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                          int64_t columns);
void transpose_plane_avx2(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                          int64_t columns) {
    transpose_plane(dst, dst_stride, src, src_stride, rows, columns);
}

}  // namespace refactor::kernel::movement
