#include "nms/box_columns.h"
#include "simd/vec_avx2.h"

namespace refactor::kernel {

static_assert(BoxColumns::kStep == Vec::width);

bool is_covered_avx2(BoxColumns const& boxes, size_t count, Candidate const& candidate) {
    Vec y0 = Vec::set(candidate.y0), x0 = Vec::set(candidate.x0), y1 = Vec::set(candidate.y1),
        x1 = Vec::set(candidate.x1), area = Vec::set(candidate.area), limit = Vec::set(candidate.limit),
        zero = Vec::zero();
    float const *top = boxes.y0.data(), *left = boxes.x0.data(), *bottom = boxes.y1.data(), *right = boxes.x1.data(),
                *areas = boxes.area.data();
    for (size_t k = 0; k < count; k += Vec::width) {
        Vec height = min(Vec::load(bottom + k), y1) - max(Vec::load(top + k), y0);
        Vec width = min(Vec::load(right + k), x1) - max(Vec::load(left + k), x0);
        Vec common = max(height, zero) * max(width, zero);
        // Rounded by itself, as elsewhere: fused into the union it would decide equal overlaps another way.
        asm("" : "+x"(common.v));
        Vec both = area + Vec::load(areas + k) - common;
        if (any((common > limit * both) & (both > zero))) return true;
    }
    return false;
}

}  // namespace refactor::kernel
