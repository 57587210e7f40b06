#include "movement/strided_copy.h"

/// How a StridedCopy does its work.
namespace refactor::kernel::movement {

namespace {

/// A plane is cut into strips of so many rows or more, as far as they have so many bytes: then both sides stay in L1.
/// One that has no more rows is cut into such parts of its columns.
constexpr int64_t kStrip = 64, kStripBytes = 16 << 10, kLine = 64;
/// Rows longer than two of these are cut, so that threads share them.
constexpr int64_t kPart = 128 << 10;

template <class T>
void fill_elements(std::byte const* src, int64_t, std::byte* dst, int64_t, int64_t n, int64_t) {
    fill_words(dst, load<T>(src), n);
}

}  // namespace

StridedCopy::StridedCopy(std::span<int64_t const> sizes, std::span<int64_t const> src, std::span<int64_t const> dst,
                         int64_t element_bytes, Isa isa)
    : element_(element_bytes), isa_(isa) {
    bytes_ = element_bytes;
    for (size_t i = 0; i < sizes.size(); ++i) {
        bytes_ *= sizes[i];
        if (sizes[i] == 1) continue;
        auto s = src[i] * element_bytes, d = dst[i] * element_bytes;
        if (rank_ && src_[rank_ - 1] == s * sizes[i] && dst_[rank_ - 1] == d * sizes[i]) {
            size_[rank_ - 1] *= sizes[i], src_[rank_ - 1] = s, dst_[rank_ - 1] = d;
            continue;
        }
        size_[rank_] = sizes[i], src_[rank_] = s, dst_[rank_] = d;
        ++rank_;
    }
    if (bytes_ <= 0) return;
    if (rank_ && src_[rank_ - 1] == element_ && dst_[rank_ - 1] == element_) element_ *= size_[--rank_];
    int inner_axes = 1;
    if (rank_ == 0 || element_ > 2 * kPart) {
        inner_ = Inner::Parts, inner_axes = 0;
        if (element_ > 2 * kPart) parts_ = (element_ + kPart - 1) / kPart;
    } else if (!choose_blocks(true)) {
        if (choose_plane())
            inner_axes = 2;
        else if (!choose_blocks(false))
            choose_elements();
    }
    units_ = parts_;
    for (int i = 0; i + inner_axes < rank_; ++i) units_ *= size_[i];
    if (inner_axes == 1) units_ *= size_[rank_ - 1];
}

/// Axes from the last on whose elements are next to each other in the target and near each other in the source: at
/// least one whole axis, or, if not `turned`, a part of one.
bool StridedCopy::choose_blocks(bool turned) {
    constexpr int64_t kLeast = 32;
    int first = rank_;
    int64_t out = element_, in = element_, whole = 1;
    auto span_of = [&](int axis, int64_t size) { return in + std::abs(src_[axis]) * (size - 1); };
    for (; first > 0 && dst_[first - 1] == out; --first) {
        auto size = size_[first - 1];
        if (span_of(first - 1, size) > ShuffleTable::kMostIn || out * size > ShuffleTable::kMostOut) break;
        in = span_of(first - 1, size), out *= size;
    }
    if (turned != (first < rank_) || in > ShuffleTable::kMostIn) return false;
    // As many blocks at a time as fit; the last of them overlap those before.
    if (first > 0 && dst_[first - 1] == out)
        for (auto size = size_[first - 1]; whole < size && span_of(first - 1, whole + 1) <= ShuffleTable::kMostIn &&
                                           out * (whole + 1) <= ShuffleTable::kMostOut;)
            ++whole;
    if (out * whole < kLeast || (!turned && whole == 1)) return false;
    Dims sizes, steps;
    if (whole > 1) sizes.push_back(whole), steps.push_back(src_[first - 1]);
    for (int i = first; i < rank_; ++i) sizes.push_back(size_[i]), steps.push_back(src_[i]);
    BlockShuffle blocks(sizes, steps, element_, isa_);
    if (!blocks) return false;
    blocks_ = std::move(blocks), inner_ = Inner::Blocks, rank_ = first;
    if (rank_ == 0) size_[0] = 1, src_[0] = dst_[0] = 0, rank_ = 1;
    if (whole > 1) {
        auto &size = size_[rank_ - 1], &s = src_[rank_ - 1], &d = dst_[rank_ - 1];
        if (size % whole) last_src_ = (size - whole) * s, last_dst_ = (size - whole) * d;
        size /= whole, s *= whole, d *= whole;
    }
    if (!last_dst_) lengthen_runs();
    return true;
}

bool StridedCopy::choose_plane() {
    if (!is_word(element_)) return false;
    if (rank_ < 2 || dst_[rank_ - 1] != element_ || src_[rank_ - 1] == element_ || src_[rank_ - 1] <= 0) return false;
    for (int i = 0; i + 1 < rank_; ++i) {
        if (src_[i] != element_ || size_[i] < 2) continue;
        auto size = size_[i], s = src_[i], d = dst_[i];
        for (int j = i; j + 2 < rank_; ++j) size_[j] = size_[j + 1], src_[j] = src_[j + 1], dst_[j] = dst_[j + 1];
        size_[rank_ - 2] = size, src_[rank_ - 2] = s, dst_[rank_ - 2] = d;
        inner_ = Inner::Plane;
        plane_ = plane_function(element_, size_[rank_ - 1], isa_);
        auto rows = size_[rank_ - 2], columns = size_[rank_ - 1];
        cuts_columns_ = rows <= kStrip;
        strip_ = std::max(kStrip, kStripBytes / ((cuts_columns_ ? rows : columns) * element_) / kStrip * kStrip);
        parts_ = ((cuts_columns_ ? columns : rows) + strip_ - 1) / strip_;
        return true;
    }
    return false;
}

void StridedCopy::choose_elements() {
    bool repeats = src_[rank_ - 1] == 0 && dst_[rank_ - 1] == element_ && is_word(element_);
    if (repeats && size_[rank_ - 1] * element_ >= kLine) {
        copy_ = with_word(element_, [](auto word) -> CopyRuns { return fill_elements<decltype(word)>; });
        return;
    }
    copy_ = copy_runs_of(element_, isa_);
    lengthen_runs();
}

/// A short run changes places with a longer one around it, if that stays within half of L1.
void StridedCopy::lengthen_runs() {
    constexpr int64_t kShort = 8, kMost = 16 << 10;
    auto last = rank_ - 1;
    if (rank_ < 2 || size_[last] >= kShort || size_[last - 1] <= size_[last]) return;
    if (size_[last - 1] * (std::abs(src_[last - 1]) + dst_[last - 1]) > kMost) return;
    std::swap(size_[last], size_[last - 1]), std::swap(src_[last], src_[last - 1]);
    std::swap(dst_[last], dst_[last - 1]);
}

}  // namespace refactor::kernel::movement
