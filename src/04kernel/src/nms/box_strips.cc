#include "nms/box_strips.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {

namespace {

/// Boxes for each of which a strip may cost its allocations.
constexpr size_t kBoxesOfStrip = 32;
/// More strips than this would save less than a vector of comparisons each.
constexpr size_t kMostStrips = 1024;

struct Extent {
    float begin = 0;
    size_t strips = 1;
    float per_unit = 0;  ///< strips in a unit of length
};

/// Strips of an axis along which boxes reach from `low` to `high`. One if a coordinate is no finite number, since
/// such boxes have no place on the axis.
Extent cut(float const* low, float const* high, size_t count, size_t most) {
    float begin = low[0], end = high[0];
    double lengths = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!std::isfinite(low[i]) || !std::isfinite(high[i])) return {};
        begin = std::min(begin, low[i]), end = std::max(end, high[i]);
        lengths += std::max(high[i] - low[i], 0.f);
    }
    auto whole = end - begin;
    if (!(whole > 0) || !std::isfinite(whole) || !(lengths > 0)) return {};
    auto strips = std::min<double>(std::floor(whole * static_cast<double>(count) / (2 * lengths)),
                                   static_cast<double>(std::min(most / kBoxesOfStrip, kMostStrips)));
    auto per_unit = static_cast<float>(strips / whole);
    if (strips < 2 || !std::isfinite(per_unit)) return {};
    return {begin, static_cast<size_t>(strips), per_unit};
}

}  // namespace

BoxStrips::BoxStrips(BoxColumns const& boxes, size_t count, size_t most, CoverFunction is_covered)
    : strips_(1), is_covered_(is_covered) {
    if (most < 2 * kBoxesOfStrip || !count) return;
    auto x = cut(boxes.x0.data(), boxes.x1.data(), count, most), y = cut(boxes.y0.data(), boxes.y1.data(), count, most);
    along_x_ = x.strips >= y.strips;
    auto const& axis = along_x_ ? x : y;
    begin_ = axis.begin, per_unit_ = axis.per_unit;
    strips_.resize(axis.strips);
}

BoxStrips::Range BoxStrips::touched(Candidate const& box) const {
    if (strips_.size() == 1) return {0, 0};
    auto last = static_cast<float>(strips_.size() - 1);
    // Monotone in the coordinate, so that what two boxes share lies in a strip of both.
    auto strip = [&](float at) { return static_cast<size_t>(std::clamp((at - begin_) * per_unit_, 0.f, last)); };
    return along_x_ ? Range{strip(box.x0), strip(box.x1)} : Range{strip(box.y0), strip(box.y1)};
}

void BoxStrips::add(Candidate const& box) {
    auto range = touched(box);
    for (auto i = range.first; i <= range.last; ++i) {
        auto& [boxes, count, room] = strips_[i];
        if (count == room) boxes.resize(room = std::max(2 * room, BoxColumns::kStep));
        boxes.y0[count] = box.y0, boxes.x0[count] = box.x0, boxes.y1[count] = box.y1, boxes.x1[count] = box.x1;
        boxes.area[count++] = box.area;
    }
}

bool BoxStrips::cover(Candidate const& box) const {
    auto range = touched(box);
    for (auto i = range.first; i <= range.last; ++i)
        if (is_covered_(strips_[i].boxes, strips_[i].count, box)) return true;
    return false;
}

}  // namespace refactor::kernel
