#pragma once
#include "movement/movement.h"

namespace refactor::kernel::movement {

/// Where part `part` of `parts` of so many bytes begins: at a line of the cache, for the sake of memcpy.
inline int64_t part_begin(int64_t bytes, int64_t part, int64_t parts) {
    constexpr int64_t kLine = 64;
    return part == parts ? bytes : bytes * part / parts / kLine * kLine;
}

/// Copies `count` runs of `bytes` bytes from places `from_step` bytes apart to places `to_step` bytes apart.
using CopyRuns = void (*)(std::byte const* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count,
                          int64_t bytes);
/// The one for runs of so many bytes: short ones need no call each.
CopyRuns copy_runs_of(int64_t bytes, Isa isa);
/// Of at least 64 bytes.
void copy_runs_avx2(std::byte const* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count,
                    int64_t bytes);

/// How a tensor is made of pieces along one axis, for Concat and Split: each of `rows` rows of `row_bytes` holds one
/// run of bytes of every piece. Blocked layouts fit if the axis is the channels and all sizes are multiples of the
/// block.
struct RowPieces {
    int64_t rows = 0, row_bytes = 0;
    SmallVector<int64_t, 16> begin;  ///< of piece i in bytes; one more than there are pieces
    /// `whole` cut along `axis` into `pieces`, or why that is impossible.
    static Result<RowPieces, Rejection> make(TensorDesc const& whole, std::span<TensorDesc const* const> pieces,
                                             int64_t axis);
    /// `copy(piece, offset_in_piece, offset_in_whole, bytes)` for every run, spread over the threads.
    template <class F>
    void for_each_run(ThreadPool& pool, F&& copy) const {
        constexpr int64_t kPart = 128 << 10;
        auto parts = std::max<int64_t>(1, row_bytes / kPart);
        parallel_bytes(pool, rows * parts, rows * row_bytes, [&](int64_t unit, int64_t end) {
            for (; unit < end; ++unit) {
                auto row = unit / parts, part = unit % parts;
                run_row(row, part_begin(row_bytes, part, parts), part_begin(row_bytes, part + 1, parts), copy);
            }
        });
    }

    /// Whether runs are so short that they are better copied piece after piece, in strips of rows.
    bool short_runs() const {
        constexpr int64_t kMost = 1 << 10;
        return row_bytes <= kMost && rows > 1;
    }
    int64_t run_bytes(size_t piece) const { return begin[piece + 1] - begin[piece]; }
    /// `copy(piece, first_row, count)` for every piece of every strip of rows, spread over the threads. A strip of the
    /// whole stays in L1 (16 KiB beside the pieces) until all pieces have written or read it.
    template <class F>
    void for_each_strip(ThreadPool& pool, F&& copy) const {
        constexpr int64_t kStrip = 16 << 10;
        auto strip = std::max<int64_t>(1, kStrip / std::max<int64_t>(1, row_bytes));
        parallel_bytes(pool, (rows + strip - 1) / strip, rows * row_bytes, [&](int64_t unit, int64_t end) {
            for (; unit < end; ++unit)
                for (size_t i = 0; i + 1 < begin.size(); ++i)
                    copy(i, unit * strip, std::min(strip, rows - unit * strip));
        });
    }

private:
    template <class F>
    void run_row(int64_t row, int64_t from, int64_t to, F& copy) const {
        for (size_t i = 0; i + 1 < begin.size(); ++i) {
            auto size = begin[i + 1] - begin[i], first = std::max(from, begin[i]), last = std::min(to, begin[i + 1]);
            if (first < last) copy(i, row * size + first - begin[i], row * row_bytes + first, last - first);
        }
    }
};

}  // namespace refactor::kernel::movement
