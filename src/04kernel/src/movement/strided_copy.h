#pragma once
#include "common/cpu_features.h"
#include "movement/block_shuffle.h"
#include "movement/row_pieces.h"

namespace refactor::kernel::movement {

/// Copies an N-dimensional box between two strided memories: the engine under Transpose, Slice, Expand, Tile, Pad.
///
/// Planning drops axes of size 1, merges axes that are contiguous on both sides, and folds a contiguous innermost axis
/// into a larger element. What remains is a loop nest around one of four inner loops: elements of any number of bytes
/// at equal distances, blocks whose elements change places within registers, a two-dimensional plane whose contiguous
/// axis differs between source and destination (done in square blocks), or parts of a long row.
///
/// Example: [B, S, H, D] → [B, H, S, D] of f32 becomes sizes (B, H, S) around elements of 4·D bytes.
class StridedCopy {
public:
    static constexpr int kMaxRank = 18;
    /// Transposes a plane of `rows` × `columns` elements of `kBytes` bytes: dst[r * dst_stride + c] = src[c *
    /// src_stride + r], strides in bytes.
    using PlaneFunction = void (*)(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                                   int64_t rows, int64_t columns);

    /// Sizes of the box, and the strides of both sides in elements (source: any sign, 0 repeats). At most `kMaxRank`
    /// axes.
    StridedCopy(std::span<int64_t const> sizes, std::span<int64_t const> src, std::span<int64_t const> dst,
                int64_t element_bytes, Isa isa);
    /// `src` and `dst` are the addresses of element (0, …, 0); they must not overlap.
    void run(void const* src, void* dst, ThreadPool& pool) const;
    int64_t bytes() const { return bytes_; }

private:
    enum class Inner : uint8_t { Elements, Blocks, Plane, Parts };
    struct Place;
    bool choose_blocks(bool turned);
    bool choose_plane();
    void choose_elements();
    void lengthen_runs();
    void run_parts(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const;
    void run_plane(std::byte const* src, std::byte* dst, int64_t first) const;
    void run_runs(std::byte const* src, std::byte* dst, int64_t begin, int64_t end) const;
    void run_blocks(std::byte const* src, std::byte* dst, int64_t first, int64_t last) const;

    int rank_ = 0;  ///< axes of the loop nest; the last one (Plane: two) belongs to the inner loop
    int64_t size_[kMaxRank], src_[kMaxRank], dst_[kMaxRank];  ///< strides in bytes
    int64_t element_ = 1, bytes_ = 0, units_ = 0, parts_ = 1;
    int64_t strip_ = 0;  ///< rows of a part of a plane, or columns
    bool cuts_columns_ = false;
    int64_t last_src_ = 0, last_dst_ = 0;  ///< where, behind a run of blocks, one more begins that overlaps the last
    Inner inner_ = Inner::Elements;
    Isa isa_;
    CopyRuns copy_ = nullptr;
    PlaneFunction plane_ = nullptr;
    BlockShuffle blocks_;
};

/// The fastest plane transposition for this element size (1, 2, 4, 8, 16), number of columns and instruction set.
StridedCopy::PlaneFunction plane_function(int64_t element_bytes, int64_t columns, Isa isa);

}  // namespace refactor::kernel::movement
