#include "integer_conv/integer_conv_packed.h"

#include <cstring>
#include <vector>

namespace refactor::kernel {

namespace {

/// In front of the bytes of depthwise weights: whether there are any.
constexpr size_t kByteHeader = 64;

bool is_depthwise(IntegerConvShape const& s) { return s.group > 1 && s.group_in() == 1 && s.group_out() == 1; }

IntegerConvPlan::Narrow narrow_of(IntegerFunctions const& f, IntegerConvShape const& s) {
    // Products of fewer dwords keep all of W in registers.
    constexpr int64_t kShallow = 9;
    using Narrow = IntegerConvPlan::Narrow;
    auto width = s.group_in();
    bool has_tiles = f.tile_rows > 0;
    if (!f.few_columns) return Narrow::No;
    if (s.group == 1) {
        bool block = s.out_channels <= f.width && s.taps() * width > kShallow * f.group;
        return block && !has_tiles ? Narrow::Block : Narrow::No;
    }
    bool fills = width == s.group_out() && s.out_channels % f.width == 0;
    bool fits = width == 4 || width == 8 || (width == 16 && !has_tiles);
    return s.channels_last && fills && fits ? Narrow::Groups : Narrow::No;
}

/// So many that tiles of 64 bytes by 16 columns have the fewest zeros, and as many of these as fill a panel.
int64_t joined_groups(IntegerFunctions const& f, IntegerConvShape const& s) {
    if (f.tile_rows == 0 || !s.channels_last || s.group == 1 || is_depthwise(s)) return 1;
    auto tiles_of = [](int64_t n, int64_t tile) { return (n + tile - 1) / tile; };
    auto products = [&](int64_t count) {
        auto columns = count * s.group_out();
        return static_cast<double>(tiles_of(count * s.group_in(), 64) * tiles_of(columns, f.width)) /
               static_cast<double>(columns);
    };
    int64_t best = 1;
    for (int64_t count = 2; count * s.group_out() <= f.panel; ++count)
        if (s.group % count == 0 && count * s.group_in() % f.group == 0 && products(count) <= products(best))
            best = count;
    // Vectors would multiply the zeros for nothing.
    return tile_dwords_of(f, s.taps(), best * s.group_in() / f.group) ? best : 1;
}

IntegerConvShape with_groups(IntegerConvShape shape, int64_t groups) {
    shape.group = groups;
    return shape;
}

}  // namespace

WindowRuns::WindowRuns(int64_t all_taps, int64_t width, bool adjacent, int64_t channels_of_group)
    : taps(all_taps),
      channels(channels_of_group),
      run(adjacent || width == 1 ? width * channels : channels),
      runs(taps * channels / std::max<int64_t>(1, run)) {}

std::vector<int64_t> WindowRuns::offsets(IntegerFunctions const& f) const {
    // Elements of a run: the window's columns, and within each the channels.
    auto row = depth(f) * f.group, columns = run / channels;
    std::vector<int64_t> offsets(static_cast<size_t>(runs * row), -1);
    for (int64_t r = 0; r < runs; ++r)
        for (int64_t i = 0; i < run; ++i)
            offsets[static_cast<size_t>(r * row + i)] = i % channels * taps + r * columns + i / channels;
    return offsets;
}

IntegerConvPlan::IntegerConvPlan(IntegerFunctions const& functions, IntegerConvInfo const& info,
                                 IntegerConvShape const& shape, Weights weights)
    : narrow(weights.centred ? narrow_of(functions, shape) : Narrow::No),
      joined(weights.centred && narrow == Narrow::No ? joined_groups(functions, shape) : 1),
      s(with_groups(shape, shape.group / joined)),
      depthwise(is_depthwise(shape)),
      together(depthwise || keeps_groups_together(functions, s.group, s.group_in(), s.channels_last)),
      window(s.taps(), s.kernel[2], s.dilation[2] == 1 && !together, s.group_in()),
      f(functions_of(functions)),
      result(info.result),
      image(s, depthwise ? 1 : functions.element_bytes(), together, may_stay()),
      run_depth(window.depth(f)),
      tile_dwords(depthwise ? 0 : tile_dwords_of(f, window.runs, run_depth)),
      size(f, columns(), depthwise ? s.taps() : window.runs * run_depth, weights.spills) {
    if (!depthwise || !f.depthwise_strips || !s.channels_last) return;
    DepthwiseWindows windows(s);
    if (windows.fits()) strips = std::move(windows);
}

IntegerFunctions const& IntegerConvPlan::functions_of(IntegerFunctions const& all) const {
    if (narrow != Narrow::No) return *all.few_columns;
    bool tiles = s.x_signed && !depthwise && all.of_signed && tile_dwords_of(all, window.runs, window.depth(all));
    return tiles ? *all.of_signed : all;
}

bool IntegerConvPlan::may_stay() const {
    if (s.x_signed && !f.a_signed) return false;
    // Whole dwords or vectors are read.
    if (depthwise) return s.in_channels % f.width == 0;
    return (s.dilation[2] == 1 ? s.kernel[2] : 1) * s.group_in() % f.group == 0;
}

size_t IntegerConvPlan::packed_bytes() const {
    if (!depthwise) return size.bytes() * static_cast<size_t>(groups());
    return size.bytes() + (strips ? kByteHeader + strips->packed_bytes() : 0);
}

int8_t const* IntegerConvPlan::strip_weights(void const* packed) const {
    if (!strips) return nullptr;
    auto const* header = static_cast<int8_t const*>(packed) + size.bytes();
    return header[0] ? header + kByteHeader : nullptr;
}

std::string IntegerConvPlan::format() const {
    return "integer_conv:" + (depthwise ? "words" : std::to_string(f.group)) + ":" + std::to_string(f.panel) + ":" +
           (s.w_signed ? "i8:" : "u8:") + std::to_string(s.group) + ":" + std::to_string(window.run) +
           (joined > 1 ? ":joined" + std::to_string(joined) : "") + (narrow == Narrow::Groups ? ":blocks" : "") +
           (f.spills ? ":spills" : "") + (strips ? strips->format() : "");
}

void IntegerConvPlan::pack(void const* w, void const* w_zero, int64_t group, void* target) const {
    auto* words = static_cast<int32_t*>(target);
    if (depthwise) {
        // [taps][channels], then the sum of each channel.
        std::fill(words, words + size.dwords + size.columns, 0);
        for (int64_t c = 0; c < s.in_channels; ++c)
            for (int64_t tap = 0; tap < s.taps(); ++tap) {
                auto zero = w_zero ? byte_at(w_zero, s.w_signed, s.many_zeros ? c : 0) : 0;
                auto value = byte_at(w, s.w_signed, c * s.taps() + tap) - zero;
                words[tap * size.columns + c] = value, words[size.dwords + c] += value;
            }
        if (strips) {
            auto* header = static_cast<int8_t*>(target) + size.bytes();
            std::memset(header, 0, kByteHeader);
            header[0] = strips->pack(words, size.columns, header + kByteHeader);
        }
        return;
    }
    auto step = s.group_in() * s.taps();
    auto offsets = window.offsets(f);
    auto const* first = static_cast<uint8_t const*>(w) + group * columns() * step / joined;
    std::vector<uint8_t> dense;
    if (joined > 1) {
        // Those of each column stand behind zeros for the groups in front of its own.
        auto part = step / joined, columns_of_group = columns() / joined;
        dense.assign(static_cast<size_t>(columns() * step), static_cast<uint8_t>(-b_shift(f, s.w_signed)));
        for (int64_t j = 0; j < columns(); ++j)
            std::memcpy(dense.data() + j * step + j / columns_of_group * part, first + j * part,
                        static_cast<size_t>(part));
        first = dense.data();
    }
    pack_columns(f, {first, s.w_signed, static_cast<int64_t>(offsets.size()), columns(), offsets, step}, size,
                 run_depth, words + static_cast<size_t>(group) * size.bytes() / sizeof(int32_t));
}

void IntegerConvPlan::fill_terms(void* const* arguments, int32_t const* weights, int64_t group,
                                 ColumnTerms const& t) const {
    using I = IntegerMatMulInfo;
    auto first = group * columns();
    auto const* zeros = depthwise ? nullptr : static_cast<uint8_t const*>(arguments[I::kBZero]);
    auto const* bias = static_cast<int32_t const*>(arguments[I::kBias]);
    auto const* scales = static_cast<float const*>(arguments[I::kScale]);
    IntegerTerms job{.n = columns(),
                     .columns = size.columns,
                     .k = static_cast<int32_t>(s.taps() * s.group_in()),
                     .sums = weights + size.dwords,
                     .zeros = zeros ? zeros + (s.many_zeros ? first : 0) : nullptr,
                     .zeros_signed = s.w_signed,
                     .many_zeros = s.many_zeros && zeros,
                     .zero_shift = depthwise ? 0 : b_shift(f, s.w_signed),
                     .row_zero = x_zero(arguments[I::kAZero]),
                     .bias = bias ? bias + first : nullptr,
                     .scales = scales ? scales + (s.many_scales ? first : 0) : nullptr,
                     .many_scales = s.many_scales,
                     .zero = t.zero,
                     .sum = t.sum,
                     .add = t.add,
                     .scale = t.scale};
    f.terms(job);
}

int32_t IntegerConvPlan::x_zero(void const* zero) const {
    return (zero ? byte_at(zero, s.x_signed, 0) : 0) + (depthwise && s.x_signed ? 128 : a_shift(f, s.x_signed));
}

}  // namespace refactor::kernel
