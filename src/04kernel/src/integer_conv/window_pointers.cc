#include "integer_conv/window_pointers.h"

namespace refactor::kernel {

WindowPointers::WindowPointers(IntegerConvShape const& s) : channels_(s.in_channels) {
    for (int axis = 0; axis < 3; ++axis) {
        in_[axis] = s.in[axis], out_[axis] = s.out[axis], stride_[axis] = s.stride[axis], pad_[axis] = s.pad[axis];
        last_[axis] = (s.kernel[axis] - 1) * s.dilation[axis];
    }
    for (int64_t z = 0; z < s.kernel[0]; ++z)
        for (int64_t y = 0; y < s.kernel[1]; ++y)
            for (int64_t x = 0; x < s.kernel[2]; ++x) {
                Steps steps{{z * s.dilation[0], y * s.dilation[1], x * s.dilation[2]}};
                pixels_.push_back(steps);
                offsets_.push_back(((steps.of[0] * s.in[1] + steps.of[1]) * s.in[2] + steps.of[2]) * s.in_channels);
            }
    auto room = in_[2] - 1 - last_[2] + pad_[2];
    inside_[0] = std::max<int64_t>(0, (pad_[2] + stride_[2] - 1) / stride_[2]);
    inside_[1] = room < 0 ? -1 : room / stride_[2];
}

/// Offsets of a window that the border cuts: `border` stands for what is outside.
void WindowPointers::point_at_border(uint8_t const* corner, int64_t const (&begin)[3], uint8_t const* border,
                                     int64_t* offsets) const {
    auto distance = border - corner;
    for (size_t p = 0; p < pixels_.size(); ++p) {
        auto inside = [&](int axis) {
            return static_cast<uint64_t>(begin[axis] + pixels_[p].of[axis]) < static_cast<uint64_t>(in_[axis]);
        };
        offsets[p] = inside(0) & inside(1) & inside(2) ? offsets_[p] : distance;
    }
}

void WindowPointers::point(uint8_t const* x, uint8_t const* border, int64_t first, int64_t count,
                           DepthwiseWindow* windows, int64_t* offsets) const {
    int64_t at[]{first / out_[2] / out_[1], first / out_[2] % out_[1], first % out_[2]};
    auto column = stride_[2] * channels_;
    for (int64_t i = 0; i < count;) {
        // The rest of a line, or of all.
        int64_t begin[3];
        bool lines = true;
        for (int axis = 0; axis < 3; ++axis) begin[axis] = at[axis] * stride_[axis] - pad_[axis];
        for (int axis = 0; axis < 2; ++axis) lines = lines && begin[axis] >= 0 && begin[axis] + last_[axis] < in_[axis];
        auto const* line = x + (begin[0] * in_[1] + begin[1]) * in_[2] * channels_ - pad_[2] * channels_;
        auto end = std::min(out_[2], at[2] + count - i), start = at[2];
        for (auto position = start; position < end; ++position, ++windows) {
            *windows = {line + position * column, offsets_.data()};
            if (!lines || position < inside_[0] || position > inside_[1]) {
                begin[2] = position * stride_[2] - pad_[2];
                point_at_border(windows->corner, begin, border, offsets);
                windows->offsets = offsets, offsets += offsets_.size();
            }
        }
        i += end - start, at[2] = 0;
        if (++at[1] == out_[1]) at[1] = 0, ++at[0];
    }
}

}  // namespace refactor::kernel
