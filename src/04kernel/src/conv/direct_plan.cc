#include "conv/direct_plan.h"

#include "movement/transpose_small.h"

#include <cstring>

namespace refactor::kernel {

ChunkList::ChunkList(int block_, bool planar_, int64_t in, int64_t out, int64_t group_, int64_t taps_, bool whole)
    : block(block_),
      planar(planar_),
      whole_units(whole),
      in_channels(in),
      out_channels(out),
      group(group_),
      taps(taps_) {
    auto unit = planar ? 1 : block;
    auto in_group = in / group, out_group = out / group, blocks = (out + block - 1) / block;
    bool aligned = !parts_of_blocks();
    chunks.reserve(static_cast<size_t>(blocks));
    for (int64_t first = 0; first < blocks;) {
        int64_t count = 1;
        if (first + 1 < blocks && aligned && (first + 1) * block / out_group == first * block / out_group) count = 2;
        auto last_channel = std::min((first + count) * block, out) - 1;
        auto low = first * block / out_group * in_group, high = (last_channel / out_group + 1) * in_group;
        if (whole_units) low = low / unit * unit, high = (high + unit - 1) / unit * unit;
        auto in_first = low / unit, in_end = (high + unit - 1) / unit;
        chunks.push_back({static_cast<int32_t>(first), static_cast<int32_t>(count), static_cast<int32_t>(in_first),
                          static_cast<int32_t>(in_end - in_first), static_cast<int32_t>(low - in_first * unit),
                          static_cast<int32_t>(high - (in_end - 1) * unit), floats});
        floats += (high - low) * taps * count * block;
        first += count;
    }
}

void ChunkList::describe(Chunk const& chunk, RowJob& job) const {
    job.tap_count = chunk.in_blocks * taps;
    job.first_taps = chunk.head ? taps : 0, job.first_inner = chunk.head;
    job.full_taps = (chunk.in_blocks - (chunk.tail < block)) * taps, job.last_inner = chunk.tail;
    job.blocks = chunk.blocks;
    job.last_lanes =
        static_cast<int32_t>(std::min<int64_t>(block, out_channels - (chunk.first + chunk.blocks - 1) * block));
    job.half = ends_in_half(block, job.last_lanes);
    job.planar = planar;
}

void ChunkList::describe_part(Chunk const& chunk, int64_t first, int64_t end, RowJob& job) const {
    auto part = chunk;
    part.in_blocks = static_cast<int32_t>(end - first);
    if (first > 0) part.head = 0;
    if (end < chunk.in_blocks) part.tail = planar ? 1 : block;
    describe(part, job);
    job.taps += first * taps;
    if (first > 0) job.w += (first * (planar ? 1 : block) - chunk.head) * taps * chunk.blocks * block;
}

std::string ChunkList::format() const {
    return (planar        ? "tile_planar:"
            : tap_major   ? "tile_taps:"
            : whole_units ? "tile_whole:"
                          : "tile:") +
           std::to_string(block) + ":g" + std::to_string(group);
}

bool ChunkList::pack_group(Chunk const& chunk, Source const& source, float* packed) const {
    if (source.taps.empty()) return true;
    constexpr int64_t kScratch = 8192;  // as L1 keeps
    auto in_group = in_channels / group, out_group = out_channels / group, count = int64_t{chunk.blocks} * block;
    auto first = int64_t{chunk.first} * block, present = std::min(count, out_channels - first);
    auto g = first / out_group, filter = source.c_stride * count;
    // Filters of other orders are those of transposed convolutions.
    if (whole_units && in_group % block) return false;
    if ((first + present - 1) / out_group != g || source.m_stride < source.c_stride || filter > kScratch) return false;
    auto transpose = [&](int64_t c, int64_t n, float* to) {
        auto const* from =
            source.w + g * source.group_stride + first % out_group * source.m_stride + c * source.c_stride;
        if (present < count) std::fill_n(to, n * filter, 0.f);
        transpose_words(reinterpret_cast<uint32_t const*>(from), source.m_stride, present, n * source.c_stride,
                        reinterpret_cast<uint32_t*>(to), count);
    };
    auto* p = packed + chunk.weights;
    if (source.c_stride == 1) return transpose(0, in_group, p), true;
    float rows[kScratch];
    auto taps_of = static_cast<int64_t>(source.taps.size());
    auto pack_some = [&](int64_t c, int64_t n, float* to, int64_t tap_step) {
        transpose(c, n, rows);
        for (int64_t t = 0; t < taps_of; ++t)
            for (int64_t i = 0; i < n; ++i)
                std::copy_n(rows + i * filter + source.taps[static_cast<size_t>(t)] * count, count,
                            to + (t * tap_step + i) * count);
    };
    for (int64_t u = chunk.in_first, c = 0; u < chunk.in_first + chunk.in_blocks; ++u) {
        auto part = part_of(chunk, u);
        auto channels = part.end - part.first;
        for (int64_t i = 0, n; i < channels; i += n) {
            n = std::min(channels - i, kScratch / filter);
            pack_some(c + i, n, p + (c * (tap_major ? 1 : taps_of) + i) * count, tap_major ? in_group : channels);
        }
        c += channels;
    }
    return true;
}

void ChunkList::pack(Chunk const& chunk, Source const& source, float* packed) const {
    if (pack_group(chunk, source, packed)) return;
    struct Lane {
        float const* w;  ///< weights of the output channel; null: past the last
        int64_t first;   ///< of its input channels
    };
    constexpr int64_t kMostLanes = 32;  // two blocks of 16
    Lane lanes[kMostLanes];
    auto unit = planar ? 1 : block;
    auto in_group = in_channels / group, out_group = out_channels / group, count = int64_t{chunk.blocks} * block;
    for (int64_t lane = 0; lane < count; ++lane) {
        auto m = chunk.first * block + lane, g = m / out_group;
        lanes[lane].w =
            m < out_channels ? source.w + g * source.group_stride + m % out_group * source.m_stride : nullptr;
        lanes[lane].first = g * in_group;
    }
    auto* p = packed + chunk.weights;
    auto pack_unit = [&](int64_t u, int64_t tap) {
        auto part = part_of(chunk, u);
        for (auto i = part.first; i < part.end; ++i)
            for (int64_t lane = 0; lane < count; ++lane, ++p) {
                auto c = u * unit + i - lanes[lane].first;
                bool inside = lanes[lane].w && c >= 0 && c < in_group;
                *p = 0;
                if (inside) std::memcpy(p, lanes[lane].w + c * source.c_stride + tap, sizeof(float));
            }
    };
    int64_t const first = chunk.in_first, end = first + chunk.in_blocks;
    if (tap_major) {
        for (auto tap : source.taps)
            for (auto u = first; u < end; ++u) pack_unit(u, tap);
    } else {
        for (auto u = first; u < end; ++u)
            for (auto tap : source.taps) pack_unit(u, tap);
    }
}

LaneWeights::LaneWeights(TileIsa const& isa, float const* w, int64_t outer, int64_t channels, int64_t inner)
    : data_(w) {
    if (isa.channels == 1) return;
    rounded_.resize(static_cast<size_t>(outer * ((channels + 1) / 2) * inner));
    auto* to = rounded_.data();
    for (int64_t i = 0; i < outer; ++i)
        for (int64_t c = 0; c < channels; c += 2, to += inner) {
            auto const* even = w + (i * channels + c) * inner;
            isa.round_pairs(even, c + 1 < channels ? even + inner : nullptr, to, inner);
        }
    data_ = rounded_.data();
}

}  // namespace refactor::kernel
