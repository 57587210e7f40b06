#pragma once
// Strips of depthwise convolutions; include behind `integer_depthwise_vnni.h`.
//
// A dword holds four pixels of a column that are below each other. They serve every window of a strip that covers them,
// with other weights for each row of windows: of 3 × 3 windows, two rows share four rows of pixels, so that eight
// instructions that interleave bytes serve six windows of 64 channels.

namespace refactor::kernel {
namespace {

/// Not loaded again wherever it is used.
RG_SIMD __m512i in_register(__m512i x) {
#ifndef RG_EMULATE_AVX512
    asm("" : "+v"(x));
#endif
    return x;
}

/// 64 channels of strips, or with `kHalves` up to 32 of two parts of them at once. `kRows`: of windows.
template <int kRows, bool kHalves, bool kWhole, StripStore kStore>
class StripBlock {
    static constexpr int64_t kElement = kStore == StripStore::Reals ? 4 : 1;

    DepthwiseStrips const& t_;
    ByteBounds const& bounds_;
    int64_t channel_;
    Pixels<kHalves, kWhole> pixels_;
    int8_t const* weights_;
    __m512i add_[4], scale_[4], shift_[4];

    /// Of the channels that there are; -0 changes no number that it is added to.
    RG_SIMD void load_shift(DepthwiseStrips const& t, int64_t channel) {
        alignas(64) float shift[64];
        __mmask64 there = first_bytes(t.channels - channel);
        for (int v = 0; v < 4; ++v, there >>= 16) {
            __m512 x = _mm512_set1_ps(-0.f);
            if (t.shift) x = _mm512_mask_loadu_ps(x, static_cast<__mmask16>(there), t.shift + channel + 16 * v);
            _mm512_storeu_ps(shift + 16 * v, x);
        }
        load_unpacked(shift, shift_);
    }
    RG_SIMD void add_quad(__m512i (&c)[4], __m512i const (&x)[4], int8_t const* w) const {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) c[k] = _mm512_dpbusd_epi32(c[k], x[k], _mm512_loadu_si512(w + k * 64));
    }
    /// Results at `y`, and `apart` bytes behind it.
    RG_SIMD void store(__m512i const (&c)[4], uint8_t* y, int64_t apart, bool both) const {
        if constexpr (kStore == StripStore::Reals)
            pixels_.store(finish_reals(c, scale_, shift_, bounds_), y, y + apart, both);
        else
            pixels_.store(finish_unpacked<kStore>(c, scale_, shift_, bounds_), y, y + apart, both);
    }

    /// Windows of three columns of one quad, `kStride` apart: columns stay in registers.
    template <int kStride>
    RG_SIMD void run_three(int64_t strip) const {
        int64_t part = kHalves ? (t_.out_columns + 1) / 2 : t_.out_columns;
        Columns<kHalves, kWhole> columns(t_, t_.rows + strip * 4, pixels_, channel_, t_.first, part * kStride);
        uint8_t* y = t_.y + strip * kRows * t_.y_row + channel_ * kElement;
        int64_t const rows = t_.out_rows - strip * kRows, row = t_.y_row, step = t_.y_column;
        int8_t const* const w = weights_;
        __m512i x[3][4];
        columns.next(x[0]);
        if (kStride == 1) columns.next(x[1]);
        for (int64_t i = 0; i < part; ++i, y += step) {
            if (kStride == 2) columns.next(x[1]);
            columns.next(x[2]);
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r) {
                if (r >= rows) break;
                __m512i c[4] = {add_[0], add_[1], add_[2], add_[3]};
#pragma GCC unroll 3
                for (int tap = 0; tap < 3; ++tap) add_quad(c, x[tap], w + (tap * kRows + r) * kQuadBytes);
                store(c, y + r * row, part * step, part + i < t_.out_columns);
            }
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                x[0][k] = x[kStride][k];
                if (kStride == 1) x[1][k] = x[2][k];
            }
        }
    }

    /// Windows of a strip from `begin` on, and the quads of their columns that are multiplied at a time.
    struct Part {
        int64_t strip, begin, count, first, quads;
    };
    /// Columns of a part, interleaved: [columns][quads].
    RG_SIMD void interleave_part(Part const& p, uint8_t* buffer) const {
        int64_t const columns = (p.count - 1) * t_.stride + (t_.taps - 1) * t_.dilation + 1;
        for (int64_t q = 0; q < p.quads; ++q) {
            Columns<kHalves, kWhole> from(t_, t_.rows + (p.strip * t_.quads + p.first + q) * 4, pixels_, channel_,
                                          p.begin * t_.stride + t_.first, p.count * t_.stride);
            uint8_t* to = buffer + q * kQuadBytes;
            for (int64_t i = 0; i < columns; ++i, to += p.quads * kQuadBytes) {
                __m512i quad[4];
                from.next(quad);
#pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) _mm512_store_si512(to + 64 * k, quad[k]);
            }
        }
    }
    /// Windows i and the `kCount` - 1 behind it, which share what is read of W.
    template <int kCount>
    RG_SIMD void add_windows(__m512i (&c)[kCount][kRows][4], Part const& p, uint8_t const* column) const {
        int64_t const bytes = p.quads * kQuadBytes, apart = t_.stride * bytes;
        int8_t const* w = weights_ + p.first * kRows * kQuadBytes;
        int64_t const skipped = (t_.quads - p.quads) * kRows * kQuadBytes;
        for (int64_t tap = 0; tap < t_.taps; ++tap, column += t_.dilation * bytes, w += skipped)
            for (int64_t q = 0; q < p.quads; ++q, w += kRows * kQuadBytes) {
                __m512i x[kCount][4];
#pragma GCC unroll 2
                for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 4
                    for (int k = 0; k < 4; ++k)
                        x[i][k] = in_register(_mm512_load_si512(column + q * kQuadBytes + i * apart + k * 64));
#pragma GCC unroll 4
                for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
                    for (int k = 0; k < 4; ++k) {
                        __m512i of_w = _mm512_loadu_si512(w + r * kQuadBytes + k * 64);
                        if (kCount > 1) of_w = in_register(of_w);
#pragma GCC unroll 2
                        for (int i = 0; i < kCount; ++i) c[i][r][k] = _mm512_dpbusd_epi32(c[i][r][k], x[i][k], of_w);
                    }
            }
    }
    /// `kWaits`: the part does not have all quads of its windows.
    template <int kCount, bool kWaits>
    RG_SIMD void multiply_part(Part const& p, int64_t begin, uint8_t const* buffer, __m512i* sums) const {
        constexpr int kSums = kRows * 4;
        __m512i c[kCount][kRows][4];
        sums += begin * kSums;
#pragma GCC unroll 2
        for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
            for (int j = 0; j < kSums; ++j)
                c[i][j / 4][j % 4] = kWaits && p.first > 0 ? sums[i * kSums + j] : add_[j % 4];
        add_windows<kCount>(c, p, buffer + begin * t_.stride * p.quads * kQuadBytes);
        if (kWaits && p.first + p.quads < t_.quads) {
#pragma GCC unroll 2
            for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 16
                for (int j = 0; j < kSums; ++j) sums[i * kSums + j] = c[i][j / 4][j % 4];
            return;
        }
        uint8_t* y = t_.y + p.strip * kRows * t_.y_row + (p.begin + begin) * t_.y_column + channel_ * kElement;
        int64_t const rows = t_.out_rows - p.strip * kRows;
#pragma GCC unroll 2
        for (int i = 0; i < kCount; ++i, y += t_.y_column)
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r)
                if (r < rows)
                    store(c[i][r], y + r * t_.y_row, p.count * t_.y_column,
                          p.begin + p.count + begin + i < t_.out_columns);
    }
    template <int kCount, bool kWaits>
    RG_SIMD void multiply_part(Part const& p, uint8_t const* buffer, __m512i* sums) const {
        int64_t i = 0;
        for (; i + kCount <= p.count; i += kCount) multiply_part<kCount, kWaits>(p, i, buffer, sums);
        if (i < p.count) multiply_part<1, kWaits>(p, i, buffer, sums);
    }

    /// Other windows: `count` from `begin` on, whose columns are interleaved before they are multiplied; if there is no
    /// room for all, some quads at a time, while the sums wait.
    RG_SIMD void run_buffered(int64_t strip, int64_t begin, int64_t count) const {
        alignas(64) uint8_t buffer[kDepthwiseQuads * kQuadBytes];
        // Sums of two windows leave too few registers where rows are many.
        constexpr int kCount = kRows > 2 ? 1 : 2;
        Part part{strip, begin, count, 0, t_.quads_at_once};
        if (t_.quads_at_once == t_.quads) {
            interleave_part(part, buffer);
            return multiply_part<kCount, false>(part, buffer, nullptr);
        }
        __m512i sums[kDepthwiseWaiting * 4];
        for (; part.first < t_.quads; part.first += part.quads) {
            if (t_.quads - part.first < part.quads) part.quads = t_.quads - part.first;
            interleave_part(part, buffer);
            multiply_part<kCount, true>(part, buffer, sums);
        }
    }

public:
    RG_SIMD StripBlock(DepthwiseStrips const& t, ByteBounds const& bounds, int64_t channel)
        : t_(t),
          bounds_(bounds),
          channel_(channel),
          pixels_{first_bytes(t.channels - channel), bounds.flip},
          weights_(t.w + channel * t.taps * t.quads * kRows * 4) {
        load_unpacked(t.column_add + channel, add_);
        load_unpacked(t.scale + channel, scale_);
        if (has_shift(kStore)) load_shift(t, channel);
        if (kHalves)
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                add_[k] = low_twice(add_[k]), scale_[k] = low_twice(scale_[k]);
                if (has_shift(kStore)) shift_[k] = low_twice(shift_[k]);
            }
    }

    /// Whether the columns under a window stay in registers.
    RG_SIMD static bool keeps_columns(DepthwiseStrips const& t) {
        bool three = t.taps == 3 && t.quads == 1 && t.dilation == 1;
        return three && ((kRows == 2 && t.stride == 1) || (kRows == 1 && t.stride == 2));
    }
    RG_SIMD void run_kept() const {
        for (int64_t s = 0; s < t_.strips; ++s) run_three<kRows == 2 ? 1 : 2>(s);
    }
    RG_SIMD void run_others() const {
        for (int64_t s = 0; s < t_.strips; ++s)
            for (int64_t begin = 0; begin < t_.out_columns;) {
                int64_t left = t_.out_columns - begin, part = kHalves ? (left + 1) / 2 : left;
                int64_t count = part < t_.windows_at_once ? part : t_.windows_at_once;
                run_buffered(s, begin, count);
                begin += kHalves ? 2 * count : count;
            }
    }
};

// Functions of their own: together they would leave constants of both without registers.
template <class Strips>
[[gnu::noinline]] void run_kept(DepthwiseStrips const& t, ByteBounds const& bounds, int64_t channel) {
    Strips(t, bounds, channel).run_kept();
}
template <class Strips>
[[gnu::noinline]] void run_others(DepthwiseStrips const& t, ByteBounds const& bounds, int64_t channel) {
    Strips(t, bounds, channel).run_others();
}
template <int kRows, bool kHalves, bool kWhole, StripStore kStore>
void run_strips(DepthwiseStrips const& t, ByteBounds const& bounds, int64_t channel) {
    using Strips = StripBlock<kRows, kHalves, kWhole, kStore>;
    if constexpr (kRows <= 2)
        if (Strips::keeps_columns(t)) return run_kept<Strips>(t, bounds, channel);
    run_others<Strips>(t, bounds, channel);
}

template <int kRows, StripStore kStore>
void depthwise_rows(DepthwiseStrips const& t, ByteBounds const& bounds) {
    int64_t channel = 0;
    for (; t.channels - channel >= 64; channel += 64) run_strips<kRows, false, true, kStore>(t, bounds, channel);
    int64_t left = t.channels - channel;
    if (left > 32) return run_strips<kRows, false, false, kStore>(t, bounds, channel);
    if (left == 32) return run_strips<kRows, true, true, kStore>(t, bounds, channel);
    if (left > 0) run_strips<kRows, true, false, kStore>(t, bounds, channel);
}

template <StripStore kStore>
void depthwise_strips(DepthwiseStrips const& t, ByteBounds const& bounds) {
    if (t.outputs == 4) return depthwise_rows<4, kStore>(t, bounds);
    if (t.outputs == 2) return depthwise_rows<2, kStore>(t, bounds);
    depthwise_rows<1, kStore>(t, bounds);
}

void depthwise_strips(DepthwiseStrips const& t) {
    Finish f = finish_of(t.tail);
    bool shift_is_small = !t.shift || are_small_shifts(t.shift, t.channels);
    ByteBounds bounds{f.low.v,
                      f.high.v,
                      _mm512_set1_epi8(static_cast<char>(t.flip)),
                      are_small(t.scale, t.channels) && is_middle_small(t.tail) && shift_is_small,
                      f.rounded,
                      f.middle_low.v,
                      f.middle_high.v,
                      f.middle_scale.v,
                      Packing::of(f)};
    if (t.tail.store == IntegerStore::F32) return depthwise_strips<StripStore::Reals>(t, bounds);
    if (t.shift) return depthwise_strips<StripStore::Shifted>(t, bounds);
    if (bounds.small && !bounds.rounded) return depthwise_strips<StripStore::Small>(t, bounds);
    depthwise_strips<StripStore::Bytes>(t, bounds);
}

}  // namespace
}  // namespace refactor::kernel
