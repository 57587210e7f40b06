#include "movement/strided_copy.h"

#include <cstring>

namespace refactor::kernel::movement {

/// Where the loop nest around the inner axes is.
struct StridedCopy::Place {
    StridedCopy const& copy;
    int const outer;
    std::byte const* src;
    std::byte* dst;
    int64_t at[kMaxRank];

    Place(StridedCopy const& all, int axes, std::byte const* from, std::byte* to, int64_t index)
        : copy(all), outer(axes), src(from), dst(to) {
        for (int i = outer; i-- > 0; index /= all.size_[i]) {
            at[i] = index % all.size_[i];
            src += at[i] * all.src_[i], dst += at[i] * all.dst_[i];
        }
    }
    void next() {
        for (int i = outer; i-- > 0;) {
            src += copy.src_[i], dst += copy.dst_[i];
            if (++at[i] < copy.size_[i]) return;
            src -= at[i] * copy.src_[i], dst -= at[i] * copy.dst_[i];
            at[i] = 0;
        }
    }
};

void StridedCopy::run(void const* src, void* dst, ThreadPool& pool) const {
    if (units_ == 0) return;
    auto* from = static_cast<std::byte const*>(src);
    auto* to = static_cast<std::byte*>(dst);
    parallel_bytes(pool, units_, bytes_, [&](int64_t begin, int64_t end) {
        if (inner_ == Inner::Plane || inner_ == Inner::Parts)
            run_parts(from, to, begin, end);
        else
            run_runs(from, to, begin, end);
    });
}

/// Parts of planes or of rows.
void StridedCopy::run_parts(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const {
    bool const plane = inner_ == Inner::Plane;
    Place place(*this, plane ? rank_ - 2 : rank_, src, dst, begin / parts_);
    auto part = begin % parts_;
    for (auto unit = begin; unit < end; ++unit) {
        if (plane) {
            run_plane(place.src, place.dst, part * strip_);
        } else {
            auto from = part_begin(element_, part, parts_), to = part_begin(element_, part + 1, parts_);
            std::memcpy(place.dst + from, place.src + from, static_cast<size_t>(to - from));
        }
        if (++part == parts_) part = 0, place.next();
    }
}

/// The strip of a plane that begins with row or column `first`.
void StridedCopy::run_plane(std::byte const* src, std::byte* dst, int64_t first) const {
    auto rows = size_[rank_ - 2], columns = size_[rank_ - 1], dst_row = dst_[rank_ - 2], src_column = src_[rank_ - 1];
    if (cuts_columns_)
        plane_(dst + first * element_, dst_row, src + first * src_column, src_column, rows,
               std::min(strip_, columns - first));
    else
        plane_(dst + first * dst_row, dst_row, src + first * element_, src_column, std::min(strip_, rows - first),
               columns);
}

/// Elements or blocks, in runs along the last axis.
void StridedCopy::run_runs(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const {
    auto const n = size_[rank_ - 1], s = src_[rank_ - 1], d = dst_[rank_ - 1];
    Place place(*this, rank_ - 1, src, dst, begin / n);
    auto column = begin % n;
    while (begin < end) {
        auto stop = std::min(n, column + end - begin);
        begin += stop - column;
        if (inner_ == Inner::Blocks)
            run_blocks(place.src, place.dst, column, stop);
        else
            copy_(place.src + column * s, s, place.dst + column * d, d, stop - column, element_);
        column = 0;
        place.next();
    }
}

/// Blocks [first, last) of a run, and what is left behind the last.
void StridedCopy::run_blocks(std::byte const* src, std::byte* dst, int64_t first, int64_t last) const {
    auto const s = src_[rank_ - 1], d = dst_[rank_ - 1];
    src += blocks_.begin();
    blocks_.run(src + first * s, s, dst + first * d, d, last - first);
    if (last_dst_ && last == size_[rank_ - 1]) blocks_.run(src + last_src_, 0, dst + last_dst_, 0, 1);
}

}  // namespace refactor::kernel::movement
