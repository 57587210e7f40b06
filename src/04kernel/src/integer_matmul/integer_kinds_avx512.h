#pragma once
// Which of the frequent kinds a block of AVX-512 is; part of `integer_product_impl.h`.

namespace refactor::kernel {
namespace {

/// Scaled sums stay far from the bounds of i32, beyond which the conversion has no sign.
RG_SIMD bool are_small(float const* scale, int64_t n) {
    __m512 most = _mm512_setzero_ps();
    for (int64_t j = 0; j < n; j += kWidth) most = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(scale + j)), most);
    return _mm512_cmp_ps_mask(most, _mm512_set1_ps(0.5f), _CMP_LT_OQ) == 0xffff;
}
RG_SIMD bool is_within(float x, float bound) { return x < bound && x > -bound; }
/// And so do they with a shift.
RG_SIMD bool are_small_shifts(float const* shift, int64_t n) {
    __m512 most = _mm512_setzero_ps();
    for (int64_t j = 0; j < n; j += kWidth) {
        auto some = static_cast<__mmask16>(n - j < kWidth ? (1 << (n - j)) - 1 : 0xffff);
        most = _mm512_max_ps(_mm512_abs_ps(_mm512_maskz_loadu_ps(some, shift + j)), most);
    }
    return _mm512_cmp_ps_mask(most, _mm512_set1_ps(1e6f), _CMP_LT_OQ) == 0xffff;
}
/// And so do those that are rounded in between.
RG_SIMD bool is_middle_small(IntegerTail const& t) {
    return !t.rounded ||
           (is_within(t.middle_low, 1e3f) && is_within(t.middle_high, 1e3f) && is_within(t.middle_scale, 1e5f));
}
/// And so do results.
RG_SIMD bool are_small(IntegerBlock const& t) {
    bool residual =
        !t.residual || t.tail.residual == IntegerStore::F32 ||
        (is_within(t.tail.residual_scale, 1e5f) && t.tail.residual_zero >= -128 && t.tail.residual_zero <= 255);
    return is_middle_small(t.tail) && residual && are_small(t.scale, t.columns);
}

RG_SIMD Finish::Kind kind_of(IntegerBlock const& t, Finish const& f) {
    using Kind = Finish::Kind;
    bool bytes = element_bytes(f.store) == 1;
    if (f.store == IntegerStore::I32) return Kind::Any;
    if (!bytes) return Kind::Real;
    if (!are_small(t) || (t.shift && !are_small_shifts(t.shift, t.columns))) return Kind::Any;
    if (f.sloped) return f.rounded || t.residual ? Kind::Any : Kind::Sloped;
    if (!f.rounded) return t.residual ? Kind::Summed : t.shift ? Kind::Shifted : Kind::Scaled;
    if (!t.residual) return t.shift ? Kind::Biased : Kind::Rounded;
    if (!t.shift && f.residual == IntegerStore::U8) return Kind::Added;
    if (!t.shift && f.residual == IntegerStore::I8) return Kind::AddedSigned;
    return Kind::Any;
}

}  // namespace
}  // namespace refactor::kernel
