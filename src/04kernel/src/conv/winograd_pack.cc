#include "conv/winograd_pack.h"

#include "conv/winograd_filters.h"
#include "conv/winograd_task.h"
#include "movement/transpose_small.h"

#include <algorithm>
#include <span>

namespace refactor::kernel {

namespace {

constexpr double kPoints[] = {0, 1, -1, 2, -2, 0.5, -0.5};

/// Taps of a piece of a kernel of more than 3 along an axis, 4 or 5: 8 products of each make 5 or 4 outputs.
int64_t piece_of(int64_t taps) { return (taps + 3) / 4 * 4 < (taps + 4) / 5 * 5 ? 4 : 5; }

class FilterPacker {
    /// Input channels whose filters are transformed together, so that a product gets whole cache lines: products are
    /// far apart, and L1 could not keep a line of each.
    static constexpr int64_t kDeep = 8, kMostLanes = 32, kMostTaps = 49, kMostProducts = 64;

    WinogradForm const& form_;
    ChunkList const& list_;
    Geometry const& g_;
    WinogradPart const& part_;
    FilterTransform transform_;
    FilterFunction function_;
    int64_t taps_ = form_.taps(), channels_ = g_.in_channels / g_.group;  ///< input channels of a group
    int64_t filters_ = channels_ * g_.all_taps[0] * taps_;                ///< numbers of an output channel

    /// Output channels of a chunk that are of one group.
    struct Lanes {
        int64_t first, count, all;
    };
    /// Taps of a piece of `present` channels to [channel][tap of the piece][lane].
    void gather(float const* w, int64_t piece, Lanes const& lanes, int64_t present, float* g) const {
        g += lanes.first;
        if (form_.pieces() == 1)
            return transpose_words(reinterpret_cast<uint32_t const*>(w), filters_, lanes.count, present * taps_,
                                   reinterpret_cast<uint32_t*>(g), lanes.all);
        auto first_row = form_.first_tap(0, piece / form_.pieces(1)), rows = form_.piece[0];
        auto first_col = form_.first_tap(1, piece % form_.pieces(1)), cols = form_.piece[1];
        for (int64_t c = 0; c < present; ++c)
            for (int64_t k = 0; k < rows * cols; ++k, g += lanes.all) {
                auto row = first_row + k / cols * form_.step, col = first_col + k % cols * form_.step;
                bool inside = row < form_.kernel[0] && col < form_.kernel[1];
                auto const* from = w + c * taps_ + row * form_.kernel[1] + col;
                for (int64_t lane = 0; lane < lanes.count; ++lane) g[lane] = inside ? from[lane * filters_] : 0;
            }
    }

    /// A piece of input channels of a chunk, from the one in `row` of its weights on: `count`, of which `present`
    /// exist, whose filters begin at `w`.
    void pack_some(Chunk const& chunk, Lanes const& lanes, int64_t row, int64_t count, int64_t present, int64_t piece,
                   float const* w, float* packed) const {
        float g[kDeep * kMostTaps * kMostLanes], u[kMostProducts * kDeep * kMostLanes];
        auto step = count * lanes.all, taps = form_.piece[0] * form_.piece[1];
        if (lanes.count < lanes.all || present < count) std::fill_n(g, step * taps, 0.f);
        gather(w, piece, lanes, present, g);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t at = 0; at < lanes.all; at += list_.block)
                function_(transform_, g + i * taps * lanes.all + at, lanes.all, u + i * lanes.all + at, step);
        for (int64_t p = 0; p < form_.products(); ++p)
            std::copy_n(u + p * step, step, packed + part_.weights_of(form_, p, chunk) + row * lanes.all);
    }

public:
    FilterPacker(WinogradForm const& form, ChunkList const& list, Geometry const& g, WinogradPart const& part)
        : form_(form),
          list_(list),
          g_(g),
          part_(part),
          transform_(form),
          function_((list.block == 16 ? winograd_filters_avx512 : winograd_filters_avx2)(form)) {}
    void pack(Chunk const& chunk, float const* w, float* packed) const {
        auto depth = g_.all_taps[0], pieces = form_.pieces(), sources = g_.kernel[0] * pieces;
        auto of_group = list_.in_channels / list_.group, channels = of_group / sources;
        // With depth the filters of two channels are not next to each other.
        auto most = depth == 1 ? kDeep : 1;
        auto all = int64_t{chunk.blocks} * list_.block, first = int64_t{chunk.first} * list_.block;
        auto end = std::min(first + all, list_.out_channels), outputs = list_.out_channels / list_.group;
        auto row = int64_t{0};
        for (auto m = first; m < end; row += of_group) {
            Lanes const lanes{m - first, std::min(end, (m / outputs + 1) * outputs) - m, all};
            auto const* of_m = w + m * filters_ + g_.first_tap[0] * taps_;
            for (int64_t source = 0; source < sources; ++source)
                for (int64_t c = 0, count; c < channels; c += count) {
                    count = std::min(most, channels - c);
                    auto present = std::clamp<int64_t>(channels_ - c, 0, count);
                    auto tap = std::min(c, channels_ - 1) * depth + source / pieces;
                    pack_some(chunk, lanes, row + source * channels + c, count, present, source % pieces,
                              of_m + tap * taps_, packed);
                }
            m += lanes.count;
        }
    }
};

}  // namespace

std::optional<WinogradForm> winograd_form(int64_t kernel_rows, int64_t kernel_cols, int64_t outputs, int64_t stride) {
    auto taps = std::max(kernel_rows, kernel_cols), across = std::min(kernel_rows, kernel_cols);
    if (stride < 1) return std::nullopt;
    bool const strided = stride == 2 && taps == 3 && across == 3;
    // Of a stride, the taps of a phase are a piece.
    auto step = strided ? 1 : stride, length = (taps + step - 1) / step;
    if (length < 2 || (step > 1 && length > 5)) return std::nullopt;
    auto piece = length <= 3 || step > 1 ? length : piece_of(length);
    if (across == 1) {
        auto made = piece == 2 ? 5 : piece == 3 ? 4 : 9 - piece;
        if (kernel_rows > 1) return WinogradForm{{taps, 1}, {made, 1}, {piece, 1}, 1, step};
        return WinogradForm{{1, taps}, {1, made}, {1, piece}, 1, step};
    }
    bool whole = outputs == 2 && step == 1 && (taps == 5 || taps == 7);
    if (whole) piece = taps;
    bool of_three = taps == 3 && step == 1 && (outputs == 2 || (outputs == 6 && !strided));
    bool fits = whole || of_three || outputs == (piece == 2 ? 3 : piece == 3 ? 4 : 9 - piece);
    if (!fits || across != taps) return std::nullopt;
    return WinogradForm{{taps, taps}, {outputs, outputs}, {piece, piece}, strided ? 2 : 1, step};
}

std::string winograd_format(WinogradForm const& form, ChunkList const& list) {
    auto name = form.plane() ? "winograd_f" + std::to_string(form.tile[0]) + "x" + std::to_string(form.kernel[0])
                             : "winograd_line" + std::to_string(form.taps());
    return name +
           (form.strided()  ? "s"
            : form.step > 1 ? "p" + std::to_string(form.step)
                            : "") +
           ":" + std::to_string(list.block) + (list.group > 1 ? ":" + std::to_string(list.group) : "");
}

FilterTransform::FilterTransform(WinogradForm const& form) {
    auto plane = form.plane(), strided = form.strided();
    auto taps = strided ? 2 : plane ? form.piece[0] : form.piece[0] * form.piece[1];
    auto points = strided ? form.tile[0] : (plane ? form.products(0) : form.products()) - 1;
    for (int64_t i = 0; i < points; ++i) {
        double scale = i == 0 && points == 7 ? -1 : 1, power = 1;
        for (int64_t j = 0; j < points; ++j)
            if (j != i) scale *= kPoints[i] - kPoints[j];
        for (int64_t k = 0; k < taps; ++k, power *= kPoints[i]) g[i][k] = power / scale;
    }
}

void pack_winograd(WinogradForm const& form, ChunkList const& list, Geometry const& g, float const* w, float* packed) {
    for (auto const& part : winograd_parts(list, g.kernel[0] * form.pieces())) {
        FilterPacker packer(form, list, g, part);
        for (auto i = part.chunk; i < part.chunk_end; ++i) packer.pack(list.chunks[static_cast<size_t>(i)], w, packed);
    }
}

}  // namespace refactor::kernel
