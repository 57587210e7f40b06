#include "movement/strided_copy.h"

#include <cstring>

namespace refactor::kernel::movement {

namespace {

/// A plane is cut into strips of this many rows: 64 rows of 64-byte lines are 4 KiB of each side, so both stay in L1.
/// So many times more where rows are shorter than a line.
constexpr int64_t kStrip = 64, kLine = 64;
/// Rows longer than two of these are cut, so that threads share them.
constexpr int64_t kPart = 128 << 10;

/// Whole cache lines of the repeated value, then the rest: loops of single elements are not made vectors of.
template <class T>
void fill_elements(std::byte* dst, T value, int64_t n) {
    constexpr int64_t kBytes = sizeof(T), kElements = kLine / kBytes;
    std::byte line[kLine];
    for (int64_t i = 0; i < kElements; ++i) store(line + i * kBytes, value);
    for (; n >= kElements; n -= kElements, dst += kLine) std::memcpy(dst, line, kLine);
    for (int64_t i = 0; i < n; ++i) store(dst + i * kBytes, value);
}

template <class T>
void copy_elements(std::byte const* src, int64_t src_stride, std::byte* dst, int64_t dst_stride, int64_t n) {
    constexpr int64_t kBytes = sizeof(T);
    if (dst_stride == kBytes && src_stride == 0) {
        fill_elements(dst, load<T>(src), n);
    } else if (dst_stride == kBytes) {
        for (int64_t i = 0; i < n; ++i) store(dst + i * kBytes, load<T>(src + i * src_stride));
    } else {
        for (int64_t i = 0; i < n; ++i) store(dst + i * dst_stride, load<T>(src + i * src_stride));
    }
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
    inner_ = is_word(element_) ? Inner::Elements : Inner::Rows;
    if (inner_ == Inner::Elements) choose_plane();
    int inner_axes = inner_ == Inner::Plane ? 2 : inner_ == Inner::Elements ? std::min(rank_, 1) : 0;
    units_ = 1;
    for (int i = 0; i + inner_axes < rank_; ++i) units_ *= size_[i];
    if (inner_ == Inner::Plane) {
        strip_ = kStrip * std::max<int64_t>(1, kLine / (size_[rank_ - 1] * element_));
        parts_ = (size_[rank_ - 2] + strip_ - 1) / strip_;
    }
    if (inner_ == Inner::Rows && element_ > 2 * kPart) parts_ = (element_ + kPart - 1) / kPart;
    units_ *= parts_;
}

void StridedCopy::choose_plane() {
    if (rank_ < 2 || dst_[rank_ - 1] != element_ || src_[rank_ - 1] == element_ || src_[rank_ - 1] <= 0) return;
    for (int i = 0; i + 1 < rank_; ++i) {
        if (src_[i] != element_ || size_[i] < 2) continue;
        auto size = size_[i], s = src_[i], d = dst_[i];
        for (int j = i; j + 2 < rank_; ++j) size_[j] = size_[j + 1], src_[j] = src_[j + 1], dst_[j] = dst_[j + 1];
        size_[rank_ - 2] = size, src_[rank_ - 2] = s, dst_[rank_ - 2] = d;
        inner_ = Inner::Plane;
        plane_ = plane_function(element_, size_[rank_ - 1], isa_);
        return;
    }
}

void StridedCopy::inner(std::byte const* src, std::byte* dst, int64_t part) const {
    if (inner_ == Inner::Plane) {
        auto begin = part * strip_, rows = std::min(strip_, size_[rank_ - 2] - begin);
        auto dst_stride = dst_[rank_ - 2];
        plane_(dst + begin * dst_stride, dst_stride, src + begin * element_, src_[rank_ - 1], rows, size_[rank_ - 1]);
        return;
    }
    auto n = rank_ ? size_[rank_ - 1] : 1, s = rank_ ? src_[rank_ - 1] : 0, d = rank_ ? dst_[rank_ - 1] : element_;
    with_word(element_, [&](auto word) { copy_elements<decltype(word)>(src, s, dst, d, n); });
}

void StridedCopy::run_units(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const {
    int outer = rank_ - (inner_ == Inner::Plane ? 2 : inner_ == Inner::Elements ? std::min(rank_, 1) : 0);
    int64_t at[kMaxRank];
    auto part = begin % parts_, rest = begin / parts_;
    for (int i = outer; i-- > 0;) {
        at[i] = rest % size_[i], rest /= size_[i];
        src += at[i] * src_[i], dst += at[i] * dst_[i];
    }
    auto row = element_;
    for (auto unit = begin; unit < end; ++unit) {
        if (inner_ != Inner::Rows) {
            inner(src, dst, part);
        } else if (parts_ == 1) {
            std::memcpy(dst, src, row);
        } else {
            auto from = row * part / parts_, to = row * (part + 1) / parts_;
            std::memcpy(dst + from, src + from, to - from);
        }
        if (++part < parts_) continue;
        part = 0;
        for (int i = outer; i-- > 0;) {
            src += src_[i], dst += dst_[i];
            if (++at[i] < size_[i]) break;
            src -= at[i] * src_[i], dst -= at[i] * dst_[i];
            at[i] = 0;
        }
    }
}

void StridedCopy::run(void const* src, void* dst, ThreadPool& pool) const {
    if (units_ == 0) return;
    auto* from = static_cast<std::byte const*>(src);
    auto* to = static_cast<std::byte*>(dst);
    parallel_bytes(pool, units_, bytes_, [&](int64_t begin, int64_t end) {
        if (inner_ == Inner::Rows && parts_ == 1 && rank_ > 0)
            run_rows(from, to, begin, end);
        else
            run_units(from, to, begin, end);
    });
}

void StridedCopy::run_rows(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const {
    int outer = rank_ - 1;
    auto n = size_[outer], s = src_[outer], d = dst_[outer], row = element_;
    int64_t at[kMaxRank];
    auto column = begin % n, rest = begin / n;
    for (int i = outer; i-- > 0;) {
        at[i] = rest % size_[i], rest /= size_[i];
        src += at[i] * src_[i], dst += at[i] * dst_[i];
    }
    while (begin < end) {
        auto stop = std::min(n, column + end - begin);
        begin += stop - column;
        for (; column < stop; ++column) std::memcpy(dst + column * d, src + column * s, row);
        column = 0;
        for (int i = outer; i-- > 0;) {
            src += src_[i], dst += dst_[i];
            if (++at[i] < size_[i]) break;
            src -= at[i] * src_[i], dst -= at[i] * dst_[i];
            at[i] = 0;
        }
    }
}

}  // namespace refactor::kernel::movement
