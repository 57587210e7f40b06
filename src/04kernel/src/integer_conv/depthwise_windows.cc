#include "integer_conv/depthwise_windows.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace refactor::kernel {
namespace {

constexpr int64_t kChannels = 64;  ///< that a loop takes together

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

DepthwiseWindows::DepthwiseWindows(IntegerConvShape const& s) : s_(s) {
    if (s.kernel[0] == 1 && s.kernel[1] == 1) across_ = 2, along_ = 1;
    auto height = s.kernel[across_], dilation = s.dilation[across_], stride = s.stride[across_];
    bool shares = s.kernel[0] == 1 && (dilation == 1 || height == 1);
    quads_ = ceil_div(s.kernel[0] * height, 4);
    auto most = shares ? (quads_ * 4 - height) / stride + 1 : 1;
    outputs_ = most >= 4 ? 4 : most >= 2 ? 2 : 1;
    auto covered = (outputs_ - 1) * stride + height;
    for (int64_t z = 0; z < s.kernel[0]; ++z)
        for (int64_t i = 0; i < (shares ? covered : height); ++i)
            taps_[0].push_back(z * s.dilation[0]), taps_[1].push_back(shares ? i : i * dilation);
    choose_parts();
}

int64_t DepthwiseWindows::step(int axis) const {
    auto bytes = s_.in_channels;
    for (int inner = 2; inner > axis; --inner) bytes *= s_.in[inner];
    return bytes;
}

/// What is interleaved at a time: quads of all columns under some windows, which neighbours share. More of either leave
/// less room for the other. In cycles of a window: 8 to interleave a quad, 4 to put aside and take back sums of a row.
void DepthwiseWindows::choose_parts() {
    auto extent = (s_.kernel[along_] - 1) * s_.dilation[along_] + 1, stride = s_.stride[along_];
    auto least = std::numeric_limits<double>::infinity();
    for (auto quads = std::min(quads_, kDepthwiseQuads / extent); quads > 0; --quads) {
        auto windows = std::min(s_.out[along_], (kDepthwiseQuads / quads - extent) / stride + 1);
        if (quads < quads_) windows = std::min(windows, kDepthwiseWaiting / outputs_);
        auto columns = static_cast<double>((windows - 1) * stride + extent);
        auto cost = 8. * static_cast<double>(quads_) * columns / static_cast<double>(windows) +
                    4. * static_cast<double>((ceil_div(quads_, quads) - 1) * outputs_);
        if (cost < least) least = cost, quads_at_once_ = quads, windows_at_once_ = windows;
    }
}

std::string DepthwiseWindows::format() const {
    return ":strips" + std::to_string(across_) + "x" + std::to_string(outputs_) + "x" + std::to_string(s_.kernel[0]) +
           "x" + std::to_string(s_.kernel[1]) + "s" + std::to_string(s_.stride[across_]);
}

size_t DepthwiseWindows::packed_bytes() const {
    return static_cast<size_t>(ceil_div(s_.in_channels, kChannels) * s_.kernel[along_] * quads_ * outputs_ *
                               kQuadBytes);
}

bool DepthwiseWindows::pack(int32_t const* words, int64_t columns, int8_t* target) const {
    std::memset(target, 0, packed_bytes());
    auto height = s_.kernel[across_], width = s_.kernel[along_], stride = s_.stride[across_];
    for (int64_t c = 0; c < s_.in_channels; ++c) {
        auto block = c / kChannels, lane = c % kChannels / 16, vector = c % 16 / 4, dword = c % 4;
        bool twice = s_.in_channels - block * kChannels <= kChannels / 2;
        auto put = [&](int64_t column, int64_t output, int64_t row, int32_t value) {
            auto quad = ((block * width + column) * quads_ + row / 4) * outputs_ + output;
            auto* at = target + (quad * 4 + vector) * 64 + lane * 16 + dword * 4 + row % 4;
            at[0] = static_cast<int8_t>(value);
            if (twice) at[32] = static_cast<int8_t>(value);
        };
        for (int64_t z = 0; z < s_.kernel[0]; ++z)
            for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < width; ++j) {
                    auto tap = z * height * width + (along_ == 2 ? i * width + j : j * height + i);
                    auto value = words[tap * columns + c];
                    if (value < -128 || value > 127) return false;
                    for (int64_t o = 0; o < outputs_; ++o) put(j, o, z * height + i + o * stride, value);
                }
    }
    return true;
}

void DepthwiseWindows::point(int64_t z, int64_t first, int64_t count, uint8_t const* x, uint8_t const* border,
                             uint8_t* y, DepthwiseRow* rows, DepthwiseStrips& t) const {
    t.strips = count, t.rows = rows, t.border = border;
    t.quads = quads_, t.taps = s_.kernel[along_];
    t.quads_at_once = quads_at_once_, t.windows_at_once = windows_at_once_;
    t.stride = s_.stride[along_], t.dilation = s_.dilation[along_], t.first = -s_.pad[along_];
    t.in_columns = s_.in[along_], t.out_columns = s_.out[along_];
    t.outputs = outputs_, t.out_rows = s_.out[across_] - first * outputs_;
    auto position = s_.out_channels * bits_of(s_.y) / 8;
    t.y_row = position * (across_ == 1 ? s_.out[2] : 1);
    t.y_column = position * (along_ == 1 ? s_.out[2] : 1);
    t.y = y + z * s_.out[1] * s_.out[2] * position + first * outputs_ * t.y_row;
    auto inside = [&](int axis, int64_t at) { return at >= 0 && at < s_.in[axis]; };
    for (int64_t strip = first; strip < first + count; ++strip) {
        auto* end = rows + quads_ * 4;
        for (size_t i = 0; i < taps_[0].size(); ++i, ++rows) {
            auto depth = z * s_.stride[0] - s_.pad[0] + taps_[0][i];
            auto row = strip * outputs_ * s_.stride[across_] - s_.pad[across_] + taps_[1][i];
            bool there = inside(0, depth) && inside(across_, row);
            *rows =
                there ? DepthwiseRow{x + depth * step(0) + row * step(across_), step(along_)} : DepthwiseRow{border, 0};
        }
        for (; rows < end; ++rows) *rows = {border, 0};
    }
}

}  // namespace refactor::kernel
