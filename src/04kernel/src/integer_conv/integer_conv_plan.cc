#include "integer_conv/integer_conv_packed.h"

#include <cstring>

namespace refactor::kernel {

namespace {

/// Channels that `depthwise_bytes` takes together; bytes in front of the packed weights.
constexpr int64_t kByteChannels = 64;
constexpr size_t kByteHeader = 64;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool is_depthwise(IntegerConvShape const& s) { return s.group > 1 && s.group_in() == 1 && s.group_out() == 1; }

}  // namespace

WindowRuns::WindowRuns(int64_t all_taps, int64_t width, int64_t dilation, int64_t channels_of_group)
    : taps(all_taps),
      channels(channels_of_group),
      // Without dilation the columns of the window are next to each other.
      run(dilation == 1 || width == 1 ? width * channels : channels),
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
                                 IntegerConvShape const& shape, int64_t spills)
    : f(functions),
      s(shape),
      result(info.result),
      depthwise(is_depthwise(shape)),
      image(shape, depthwise ? 1 : functions.element_bytes(), depthwise,
            // Whole dwords or vectors are read.
            depthwise ? shape.in_channels % functions.width == 0
                      : (shape.dilation[2] == 1 ? shape.kernel[2] : 1) * shape.group_in() % functions.group == 0),
      window(s.taps(), s.kernel[2], s.dilation[2], s.group_in()),
      run_depth(window.depth(f)),
      size(f, depthwise ? s.in_channels : s.group_out(), depthwise ? s.taps() : window.runs * run_depth, spills),
      // Two positions share the pixels of a window's line if these are next to each other.
      quads(depthwise && f.depthwise_bytes && s.stride[2] == 1 && s.dilation[2] == 1
                ? s.kernel[0] * s.kernel[1] * ceil_div(s.kernel[2] + 1, 4)
                : 0) {}

int64_t IntegerConvPlan::depthwise_groups() const { return quads ? 2 * quads : ceil_div(s.taps(), 4); }

// Behind the words of depthwise weights: whether they are bytes (64 bytes), and the bytes.

size_t IntegerConvPlan::packed_bytes() const {
    if (!depthwise) return size.bytes() * static_cast<size_t>(s.group);
    auto bytes = ceil_div(s.in_channels, kByteChannels) * kByteChannels * depthwise_groups() * 4;
    return size.bytes() + (f.depthwise_bytes ? kByteHeader + static_cast<size_t>(bytes) : 0);
}

int8_t const* IntegerConvPlan::depthwise_bytes(void const* packed) const {
    if (!depthwise || !f.depthwise_bytes) return nullptr;
    auto const* header = static_cast<int8_t const*>(packed) + size.bytes();
    return header[0] ? header + kByteHeader : nullptr;
}

void IntegerConvPlan::pack_depthwise_bytes(int32_t const* words, void* target) const {
    auto* header = static_cast<int8_t*>(target);
    std::memset(header, 0, packed_bytes() - size.bytes());
    header[0] = 1;
    auto groups = depthwise_groups(), line_quads = ceil_div(s.kernel[2] + 1, 4);
    for (int64_t c = 0; c < s.in_channels; ++c)
        for (int64_t tap = 0; tap < s.taps(); ++tap) {
            auto value = words[tap * size.columns + c];
            if (value < -128 || value > 127) header[0] = 0;
            auto block = c / kByteChannels, lane = c % kByteChannels / 16, vector = c % 16 / 4, dword = c % 4;
            auto put = [&](int64_t group, int64_t byte) {
                auto at = ((block * groups + group) * 4 + vector) * 64 + lane * 16 + dword * 4 + byte;
                header[kByteHeader + static_cast<size_t>(at)] = static_cast<int8_t>(value);
            };
            if (!quads) {
                put(tap / 4, tap % 4);
                continue;
            }
            auto quad = tap / s.kernel[2] * line_quads, pixel = tap % s.kernel[2];
            put((quad + pixel / 4) * 2, pixel % 4);
            put((quad + (pixel + 1) / 4) * 2 + 1, (pixel + 1) % 4);
        }
}

std::string IntegerConvPlan::format() const {
    return "integer_conv:" + (depthwise ? f.depthwise_bytes ? "bytes" : "words" : std::to_string(f.group)) + ":" +
           std::to_string(f.panel) + ":" + (s.w_signed ? "i8:" : "u8:") + std::to_string(s.group) + ":" +
           std::to_string(window.run) + (f.spills ? ":spills" : "") +
           (quads ? ":pairs" + std::to_string(s.kernel[2]) : "");
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
        if (f.depthwise_bytes) pack_depthwise_bytes(words, static_cast<std::byte*>(target) + size.bytes());
        return;
    }
    auto step = s.group_in() * s.taps();
    auto offsets = window.offsets(f);
    auto const* first = static_cast<uint8_t const*>(w) + group * s.group_out() * step;
    pack_columns(f, {first, s.w_signed, static_cast<int64_t>(offsets.size()), s.group_out(), offsets, step}, size,
                 run_depth, words + static_cast<size_t>(group) * size.bytes() / sizeof(int32_t));
}

int32_t IntegerConvPlan::x_zero(void const* zero) const {
    return (zero ? byte_at(zero, s.x_signed, 0) : 0) + (depthwise && s.x_signed ? 128 : a_shift(f, s.x_signed));
}

}  // namespace refactor::kernel
