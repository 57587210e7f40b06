#pragma once
#include <cstddef>
#include <vector>

namespace refactor::kernel {

/// Boxes by column, so that one is compared with many at once. Columns end in boxes without an area, which overlap
/// nothing, so that vectors of up to `kStep` boxes may read beyond the last.
struct BoxColumns {
    static constexpr size_t kStep = 8;
    std::vector<float> y0, x0, y1, x1, area;

    explicit BoxColumns(size_t count = 0) { resize(count); }
    /// Has room for `count` boxes; those that were there before stay, the others have no area.
    void resize(size_t count) {
        for (auto* column : {&y0, &x0, &y1, &x1, &area}) column->resize((count + kStep - 1) / kStep * kStep);
    }
};

/// A box and the overlap from which on it counts as covered.
struct Candidate {
    float y0, x0, y1, x1, area, limit;
};

/// Whether the candidate shares more than `limit` (intersection over union) with one of the first `count` boxes.
using CoverFunction = bool (*)(BoxColumns const& boxes, size_t count, Candidate const& candidate);
bool is_covered_avx2(BoxColumns const& boxes, size_t count, Candidate const& candidate);

}  // namespace refactor::kernel
