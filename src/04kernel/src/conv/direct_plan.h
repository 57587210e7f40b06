#pragma once
#include "conv/conv.h"
#include "conv/geometry.h"
#include "conv/tile.h"

#include <algorithm>

namespace refactor::kernel {

/// One or two neighbouring blocks of output channels that are computed together.
struct Chunk {
    int32_t first, blocks;        ///< blocks of output channels
    int32_t in_first, in_blocks;  ///< units of input (blocks, or channels if planar) that they depend on
    int32_t head, tail;           ///< first channel of the first unit, end of those of the last, that they depend on
    int64_t weights;              ///< offset of the packed weights in floats
};

/// How weights [M, C/group, taps] are laid out for the register tile: chunk by chunk [in unit][tap][channel in
/// unit][block × 16], or with `tap_major` [tap][in unit][channel][block × 16], so that a run of taps can be left out
/// (only with one group and full units). Where groups do not coincide with blocks, a block of outputs depends on all
/// input channels from the first of its groups to the last, with zeros where a channel is in another group.
struct ChunkList {
    int block = 16;
    bool planar = false, tap_major = false, whole_units = false;
    int64_t in_channels, out_channels, group, taps, floats = 0;
    std::vector<Chunk> chunks;

    /// `whole_units`: weights of units that are not full come with zeros.
    ChunkList(int block, bool planar, int64_t in_channels, int64_t out_channels, int64_t group, int64_t taps,
              bool whole_units = false);
    /// Whether groups do not coincide with blocks.
    bool parts_of_blocks() const {
        return group > 1 && (in_channels / group % (planar ? 1 : block) || out_channels / group % block);
    }
    int64_t in_units() const { return planar ? in_channels : (in_channels + block - 1) / block; }
    /// Where weights are read: element (group, m in group, c in group, tap) at `group * group_stride + m * m_stride + c
    /// * c_stride + taps[tap]`.
    struct Source {
        float const* w;
        int64_t group_stride, m_stride, c_stride;
        std::span<int64_t const> taps;
    };
    /// Weights may be at any address.
    void pack(Chunk const&, Source const&, float* packed) const;
    std::string format() const;
    /// Sets what a job has to know about the input units of a chunk.
    void describe(Chunk const&, RowJob&) const;
    /// The same for its units [first, end) alone, with the weights and taps of a job that begins with the first of all.
    void describe_part(Chunk const&, int64_t first, int64_t end, RowJob&) const;

private:
    /// The same by squares of registers, for a chunk of one group; false: not for these.
    bool pack_group(Chunk const&, Source const&, float* packed) const;
    /// Channels [first, end) of unit `u` that a chunk depends on.
    struct Part {
        int64_t first, end;
    };
    Part part_of(Chunk const& chunk, int64_t u) const {
        bool is_last = u + 1 == chunk.in_first + chunk.in_blocks;
        return {u == chunk.in_first ? chunk.head : 0, planar ? 1 : is_last ? chunk.tail : block};
    }
};

/// Weights [outer, channels, inner] as tiles of these lanes multiply them: with `channels` of a lane, rounded, in one
/// float, or as they are.
class LaneWeights {
    std::vector<float> rounded_;
    float const* data_;

public:
    LaneWeights(TileIsa const&, float const* w, int64_t outer, int64_t channels, int64_t inner);
    float const* data() const { return data_; }
};
/// In front of the format of weights over lanes.
inline std::string lanes_format(TileIsa const& isa) { return isa.channels > 1 ? "pairs:" : ""; }

}  // namespace refactor::kernel
