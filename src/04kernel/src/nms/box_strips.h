#pragma once
#include "nms/box_columns.h"

namespace refactor::kernel {

/// Boxes of which later ones are to be compared with those they can share an area with, not with all. One axis is cut
/// into strips; a box is kept with each strip that it touches, so that boxes without a common strip share nothing.
/// Detectors that move the boxes of each class to a place of their own have nearly all pairs apart.
class BoxStrips {
    struct Strip {
        BoxColumns boxes;
        size_t count = 0, room = 0;
    };
    struct Range {
        size_t first, last;
    };

    bool along_x_ = false;
    float begin_ = 0, per_unit_ = 0;
    std::vector<Strip> strips_;
    CoverFunction is_covered_;

    Range touched(Candidate const&) const;

public:
    /// For up to `most` of the first `count` boxes, which tell how wide strips are: twice as wide as the mean box.
    BoxStrips(BoxColumns const& boxes, size_t count, size_t most, CoverFunction);
    size_t strips() const { return strips_.size(); }
    void add(Candidate const&);
    /// Whether one of the boxes that were added covers the candidate (`CoverFunction`).
    bool cover(Candidate const&) const;
};

}  // namespace refactor::kernel
