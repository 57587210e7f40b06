#pragma once
// Panels of smaller elements for the loops of the matrix product; include `product_tile.h` and `widen.h` first.

namespace refactor::kernel {
namespace {

/// `k` rows of a panel at `panel`, from row `p0`, with the scales of their columns.
template <WeightType type>
void widen_rows(float* target, std::byte const* panel, float const* scales, int64_t n, int64_t p0, int64_t k,
                int64_t wide) {
    std::byte const* from = panel + p0 * wide * bytes_of(type);
    Vec scale[kVectors];
    for (int64_t v = 0; v < wide; v += kWidth)
        scale[v / kWidth] = scales ? load_part(scales + v, static_cast<int>(smaller(kWidth, n - v))) : Vec::set(1);
    for (int64_t p = 0; p < k; ++p)
        for (int64_t v = 0; v < wide; v += kWidth, from += kWidth * bytes_of(type), target += kWidth)
            (widen<type>(from) * scale[v / kWidth]).store(target);
}
void widen_rows(ProductBlock const& t, int64_t j, int64_t n, int64_t p0, int64_t k, int64_t wide) {
    float const* scales = t.scales ? t.scales + j : nullptr;
    if (t.weight_type == WeightType::F16)
        widen_rows<WeightType::F16>(t.scratch, t.weights + j * t.k * 2, scales, n, p0, k, wide);
    else if (t.weight_type == WeightType::BF16)
        widen_rows<WeightType::BF16>(t.scratch, t.weights + j * t.k * 2, scales, n, p0, k, wide);
    else
        widen_rows<WeightType::I8>(t.scratch, t.weights + j * t.k, scales, n, p0, k, wide);
}

}  // namespace
}  // namespace refactor::kernel
