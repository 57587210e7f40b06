#include "integer_conv/staged_image.h"

#include "movement/transpose_small.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

namespace {

void fill(uint8_t* target, int64_t count, int64_t element, int32_t value) {
    if (element == 1) {
        std::memset(target, value, static_cast<size_t>(count));
        return;
    }
    auto* words = reinterpret_cast<int16_t*>(target);
    std::fill(words, words + count, static_cast<int16_t>(value));
}

}  // namespace

StagedImage::StagedImage(IntegerConvShape const& s, int64_t element_bytes, bool together, bool may_stay)
    : groups(together ? 1 : s.group),
      channels(together ? s.in_channels : s.group_in()),
      depth((s.out[0] - 1) * s.stride[0] + (s.kernel[0] - 1) * s.dilation[0] + 1),
      height((s.out[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1),
      width((s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1),
      element(element_bytes),
      in_place(may_stay && s.channels_last && groups == 1 && element == 1 && s.pad[0] == 0 && s.pad[1] == 0 &&
               s.pad[2] == 0 && depth <= s.in[0] && height <= s.in[1] && width <= s.in[2]) {
    if (in_place) depth = s.in[0], height = s.in[1], width = s.in[2];
}

void StagedImage::stage(IntegerConvShape const& s, uint8_t const* x, int64_t line, int32_t pad, uint8_t* target,
                        uint8_t* scratch, void (*widen)(uint8_t const*, bool, int64_t, uint8_t*)) const {
    target += line * line_bytes();
    auto z = line / height % depth - s.pad[0], y = line % height - s.pad[1];
    auto first = std::clamp<int64_t>(s.pad[2], 0, width), begin = std::max<int64_t>(0, -s.pad[2]);
    auto count = std::min(s.in[2] - begin, width - first);
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1] || count <= 0)
        return fill(target, width * channels, element, pad);
    if (s.channels_last) {
        auto const* from = x + ((z * s.in[1] + y) * s.in[2] + begin) * s.in_channels + line / height / depth * channels;
        fill(target, first * channels, element, pad);
        auto* at = target + first * channels * element;
        if (groups == 1)
            widen(from, s.x_signed, count * channels, at);
        else
            for (int64_t i = 0; i < count; ++i)
                widen(from + i * s.in_channels, s.x_signed, channels, at + i * channels * element);
        return fill(at + count * channels * element, (width - first - count) * channels, element, pad);
    }
    auto skipped = line / height / depth * channels * s.in_size() + (z * s.in[1] + y) * s.in[2] + begin;
    fill(target, first * channels, element, pad);
    auto* middle = target + first * channels * element;
    bool direct = element == 1;
    transpose_bytes(x + skipped, s.in_size(), channels, count, s.in_channels * s.in_size() - skipped,
                    direct ? middle : scratch, channels);
    if (!direct || s.x_signed) widen(direct ? middle : scratch, s.x_signed, count * channels, middle);
    fill(middle + count * channels * element, (width - first - count) * channels, element, pad);
}

}  // namespace refactor::kernel
