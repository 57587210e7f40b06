#include "integer_conv/window_pointers.h"

namespace refactor::kernel {

WindowPointers::WindowPointers(IntegerConvShape const& s, bool pairs) : channels_(s.in_channels), pairs_(pairs) {
    // Both windows of a pair, filled up to quads with pixels whose weights are zero.
    auto width = s.kernel[2] + (pairs ? 1 : 0), filled = pairs ? (width + 3) / 4 * 4 : width;
    for (int axis = 0; axis < 3; ++axis) {
        in_[axis] = s.in[axis], out_[axis] = s.out[axis], stride_[axis] = s.stride[axis], pad_[axis] = s.pad[axis];
        last_[axis] = ((axis == 2 ? width : s.kernel[axis]) - 1) * s.dilation[axis];
    }
    for (int64_t z = 0; z < s.kernel[0]; ++z)
        for (int64_t y = 0; y < s.kernel[1]; ++y)
            for (int64_t i = 0; i < filled; ++i) {
                auto x = std::min(i, width - 1);
                Pixel pixel{{z * s.dilation[0], y * s.dilation[1], x * s.dilation[2]}, 0};
                pixel.offset = ((pixel.steps[0] * s.in[1] + pixel.steps[1]) * s.in[2] + pixel.steps[2]) * s.in_channels;
                pixels_.push_back(pixel);
            }
}

size_t WindowPointers::bytes(int64_t positions) const {
    return static_cast<size_t>(positions) * (pixels_.size() * sizeof(uint8_t const*) + sizeof(DepthwisePair));
}

void WindowPointers::point_at_border(uint8_t const* corner, int64_t const (&begin)[3], uint8_t const* border,
                                     uint8_t const** pointers) const {
    for (auto const& pixel : pixels_) {
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis) {
            auto i = begin[axis] + pixel.steps[axis];
            inside = inside && i >= 0 && i < in_[axis];
        }
        *pointers++ = inside ? corner + pixel.offset : border;
    }
}

int64_t WindowPointers::point(uint8_t const* x, uint8_t const* border, int64_t first, int64_t count,
                              uint8_t const** pointers, DepthwisePair* pairs) const {
    int64_t at[]{first / out_[2] / out_[1], first / out_[2] % out_[1], first % out_[2]};
    auto pixels = static_cast<int64_t>(pixels_.size()), written = int64_t{0};
    auto const* all = pixels_.data();
    for (int64_t i = 0; i < count;) {
        int64_t begin[3];
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis) {
            begin[axis] = at[axis] * stride_[axis] - pad_[axis];
            inside = inside && begin[axis] >= 0 && begin[axis] + last_[axis] < in_[axis];
        }
        auto const* corner = x + ((begin[0] * in_[1] + begin[1]) * in_[2] + begin[2]) * channels_;
        if (inside)
            for (int64_t p = 0; p < pixels; ++p) pointers[p] = corner + all[p].offset;
        else
            point_at_border(corner, begin, border, pointers);
        pointers += pixels;
        bool both = pairs_ && i + 1 < count && at[2] + 1 < out_[2];
        if (pairs_) pairs[written++] = {i, both};
        auto step = both ? 2 : 1;
        i += step, at[2] += step;
        if (at[2] < out_[2]) continue;
        at[2] = 0;
        if (++at[1] == out_[1]) at[1] = 0, ++at[0];
    }
    return written;
}

}  // namespace refactor::kernel
