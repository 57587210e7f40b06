#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "integer_conv/integer_conv_packed.h"
#include "integer_conv/window_pointers.h"
#include "movement/transpose_small.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {
namespace {

using I = IntegerMatMulInfo;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Positions that a tile of Y holds before it is transposed: whole vectors of 16 bytes and whole register tiles. With
/// `kColumns` output channels it stays in L1 (bytes) or L2 (32 bits).
constexpr int64_t kPositions = 96, kColumns = 256;
/// Of tiles that are not transposed.
constexpr int64_t kMostPositions = 288;
/// Positions of whole register tiles, of four or two vectors.
constexpr int64_t kRounded = 12;
/// Lines of so many positions or fewer are not cut where rows are wanted at one distance from each other.
constexpr int64_t kLongestLine = kPositions / 2;

/// Bytes of x plus 128, for depthwise convolutions on processors whose products take i16.
void flip_signs(uint8_t const* source, bool is_signed, int64_t n, uint8_t* target) {
    if (!is_signed) {
        std::memcpy(target, source, static_cast<size_t>(n));
        return;
    }
    for (int64_t i = 0; i < n; ++i) target[i] = source[i] ^ 0x80;
}

/// For every image: X is staged, line by line; then tiles of Y are computed, [positions][channels], and transposed.
class IntegerConvTask final : public runtime::Task {
    IntegerConvPlan p_;
    std::shared_ptr<mem_manager::Blob const> packed_;
    int threads_;
    int64_t largest_ahead_ = static_cast<int64_t>(cpu_features().l2 / 4);
    int64_t y_bytes_, groups_, columns_, position_parts_, column_parts_;
    int64_t most_positions_ = kPositions;  ///< of a part
    int64_t rounded_ = kRounded;           ///< parts are whole multiples of so many positions
    std::vector<int64_t> taps_;            ///< bytes from a position to each run
    bool windowed_ = false;                ///< a depthwise convolution that reads X in place
    bool linear_ = false;                  ///< positions of X and Y are the same
    size_t border_ = 0;                    ///< with `windowed_`: channels outside of X
    WindowPointers windows_;               ///< and where X lies under the windows
    // Workspace, in bytes from its beginning.
    size_t staged_ = 0, weights_ = 0, terms_ = 0, scratch_bytes_ = 0, end_ = 0;

    ColumnTerms terms(std::byte* workspace, int64_t group) const {
        auto step = p_.size.columns;
        return {reinterpret_cast<int32_t*>(workspace + terms_ + group * ColumnTerms::bytes(step)), step};
    }
    int32_t const* weights(std::byte* workspace, int64_t group) const {
        auto const* all = packed_ ? static_cast<std::byte const*>(packed_->data()) : workspace + weights_;
        return reinterpret_cast<int32_t const*>(all + static_cast<size_t>(group) * p_.size.bytes());
    }

    void lay_out() {
        auto take = [&](size_t bytes) {
            auto at = end_;
            end_ += (bytes + 63) / 64 * 64;
            return at;
        };
        staged_ = take(p_.image.in_place || windowed_ ? 0 : p_.image.bytes());
        border_ = take(windowed_ ? static_cast<size_t>(p_.s.in_channels) : 0);
        weights_ = take(packed_ ? 0 : p_.packed_bytes());
        terms_ = take(static_cast<size_t>(groups_ * ColumnTerms::bytes(p_.size.columns)));
        // A tile of Y, offsets and sums of its rows; or a line of X.
        auto tile =
            most_positions_ * ((p_.s.channels_last ? 0 : std::min(columns_, p_.size.columns) * y_bytes_) + 8 + 4);
        if (windowed_)
            tile +=
                most_positions_ * static_cast<int64_t>(sizeof(DepthwiseWindow)) + windows_.offsets(most_positions_) * 8;
        scratch_bytes_ = static_cast<size_t>(ceil_div(std::max(tile, p_.image.width * p_.image.channels), 64) * 64);
    }

    void prepare_group(void* const* arguments, std::byte* workspace, int64_t group) const {
        if (!packed_) p_.pack(arguments[I::kB], arguments[I::kBZero], group, workspace + weights_);
        p_.fill_terms(arguments, weights(workspace, group), group, terms(workspace, group));
    }
    bool has_w_zeros(std::byte* workspace) const {
        for (int64_t g = 0; !p_.depthwise && g < groups_; ++g) {
            auto const* zero = terms(workspace, g).zero;
            if (std::any_of(zero, zero + p_.size.columns, [](int32_t z) { return z != 0; })) return true;
        }
        return false;
    }

    /// Offsets of `count` positions from `first` on.
    void locate(int64_t first, int64_t count, int64_t* offsets) const {
        auto const& s = p_.s;
        auto x = first % s.out[2], y = first / s.out[2] % s.out[1], z = first / s.out[2] / s.out[1];
        auto step = p_.image.at(0, 0, s.stride[2]);
        for (int64_t i = 0; i < count;) {
            auto place = p_.image.at(z * s.stride[0], y * s.stride[1], x * s.stride[2]);
            for (auto end = std::min(count, i + s.out[2] - x); i < end; ++i, place += step) offsets[i] = place;
            x = 0;
            if (++y == s.out[1]) y = 0, ++z;
        }
    }

    template <class Block>
    Block block_of(void* const* arguments, ColumnTerms const& t, int64_t column, uint8_t* tile,
                   int64_t tile_row) const {
        Block b{};
        b.column_add = t.add + column, b.scale = t.scale + column;
        b.tail = tail_of(p_.result, p_.s.y, arguments[I::kYZero], p_.s.residual);
        b.y = tile, b.y_row = tile_row;
        b.taps = static_cast<int64_t>(taps_.size()), b.tap_offsets = taps_.data();
        return b;
    }

    /// One tile of Y: where it begins in X, its size, and where it is stored.
    struct Part {
        int64_t group, column, columns, first, positions;
        int64_t const* offsets;
        int32_t* row_sums;
        uint8_t* y;
        int64_t y_row;
        uint8_t const* residual;
        DepthwiseWindow const* windows;
    };
    void multiply(void* const* arguments, std::byte* workspace, uint8_t const* x, Part const& p, bool sums) const {
        auto [group, column, columns, first, positions, offsets, row_sums, tile, y_row, residual, windows] = p;
        auto t = terms(workspace, group);
        x += p_.group_offset(group);
        auto const* w = weights(workspace, group);
        auto const* shift = static_cast<float const*>(arguments[I::kShift]);
        if (shift) shift += group * p_.columns() + column;
        if (p_.depthwise) {
            auto b = block_of<DepthwiseBlock>(arguments, t, column, tile, y_row);
            b.channels = columns, b.w = w + column, b.w_row = p_.size.columns;
            b.shift = shift;
            if (windowed_) {
                b.taps = p_.s.taps(), b.positions = positions, b.windows = windows;
                b.flip = p_.s.x_signed ? 0x80 : 0;
                return p_.f.depthwise_in_place(b);
            }
            b.residual = residual;
            b.positions = positions, b.x = x + column, b.offsets = offsets;
            return p_.f.depthwise(b);
        }
        auto b = block_of<IntegerBlock>(arguments, t, column, tile, y_row);
        b.shift = shift, b.residual = residual;
        b.grouped = p_.narrow == IntegerConvPlan::Narrow::Groups;
        b.rows = positions, b.columns = columns, b.a = b.grouped ? x + column : x, b.a_offsets = offsets;
        auto row = p_.image.channels * p_.image.element;
        if (linear_) b.a += first * row, b.a_row = row;
        b.a_signed = p_.f.a_signed;
        b.depth = p_.run_depth, b.tile_dwords = p_.tile_dwords, b.b = w + column * p_.window.runs * p_.run_depth;
        b.largest_ahead = largest_ahead_, b.spills = p_.size.spills_of(w, column);
        if (sums) {
            for (int64_t i = 0; i < positions; ++i) {
                row_sums[i] = 0;
                for (auto tap : taps_)
                    row_sums[i] += p_.f.sum(b.a + (linear_ ? i * row : offsets[i]) + tap, p_.window.run);
            }
            b.row_sum = row_sums, b.b_zero = t.zero + column;
        }
        p_.f.multiply(b);
    }

    /// Where a part begins, or ends. Several parts are of one size, up to whole register tiles or lines.
    int64_t first_position(int64_t part) const {
        auto all = p_.s.out_size();
        if (part == position_parts_) return all;
        return threads_ > 1 ? all * part / position_parts_ / rounded_ * rounded_
                            : part * (most_positions_ / rounded_ * rounded_);
    }

    /// A tile of Y of image n.
    void run_part(void* const* arguments, std::byte* workspace, uint8_t const* x, int64_t n, int64_t part, bool sums,
                  std::byte* scratch) const {
        auto const& s = p_.s;
        auto all_columns = p_.columns();
        auto column = part % column_parts_ * columns_;
        auto first = first_position(part / column_parts_ % position_parts_);
        auto group = part / column_parts_ / position_parts_;
        auto positions = first_position(part / column_parts_ % position_parts_ + 1) - first;
        auto columns = std::min(columns_, all_columns - column);
        auto* offsets = reinterpret_cast<int64_t*>(scratch);
        auto* row_sums = reinterpret_cast<int32_t*>(offsets + most_positions_);
        auto* tile = reinterpret_cast<uint8_t*>(row_sums + most_positions_);
        if (!windowed_ && !linear_) locate(first, positions, offsets);
        Part p{group,    column, columns, first,   positions, linear_ ? nullptr : offsets,
               row_sums, tile,   columns, nullptr, nullptr};
        if (s.channels_last) {
            auto at = (n * s.out_size() + first) * s.out_channels + group * all_columns + column;
            p.y = static_cast<uint8_t*>(arguments[I::kInputs]) + at * y_bytes_, p.y_row = s.out_channels;
            if (arguments[I::kResidual])
                p.residual = static_cast<uint8_t const*>(arguments[I::kResidual]) + storage_bytes(s.residual, at);
            if (windowed_) {
                auto* windows = reinterpret_cast<DepthwiseWindow*>(tile);
                auto* places = reinterpret_cast<int64_t*>(windows + most_positions_);
                p.windows = windows;
                windows_.point(x + column, reinterpret_cast<uint8_t const*>(workspace + border_) + column, first,
                               positions, windows, places);
            }
            return multiply(arguments, workspace, x, p, sums);
        }
        multiply(arguments, workspace, x, p, sums);
        auto at = ((n * s.out_channels) + group * all_columns + column) * s.out_size() + first;
        if (y_bytes_ == 1)
            transpose_bytes(tile, columns, positions, columns, positions * columns,
                            static_cast<uint8_t*>(arguments[I::kInputs]) + at, s.out_size());
        else
            transpose_words(reinterpret_cast<uint32_t const*>(tile), columns, positions, columns,
                            static_cast<uint32_t*>(arguments[I::kInputs]) + at, s.out_size());
    }

public:
    IntegerConvTask(IntegerConvPlan const& plan, std::shared_ptr<mem_manager::Blob const> packed, int threads)
        : p_(plan),
          packed_(std::move(packed)),
          threads_(std::max(1, threads)),
          y_bytes_(bits_of(plan.s.y) / 8),
          groups_(p_.groups()) {
        auto const& s = p_.s;
        // Windows of depthwise convolutions are found once for all channels.
        columns_ = std::max<int64_t>(
            p_.f.panel, p_.depthwise && s.channels_last ? p_.size.columns : kColumns / p_.f.panel * p_.f.panel);
        linear_ = !p_.depthwise && s.taps() == 1 && p_.image.depth * p_.image.height * p_.image.width == s.out_size();
        // More positions share what a block begins with, and B from L2; each thread gets four parts nevertheless.
        if (p_.tile_dwords && s.channels_last)
            most_positions_ =
                threads_ == 1 ? kMostPositions : std::clamp(s.out_size() / (4 * threads_), kPositions, kMostPositions);
        if (p_.tile_dwords) rounded_ = linear_ || s.out[2] > kLongestLine ? p_.f.tile_rows : s.out[2];
        position_parts_ = ceil_div(s.out_size(), most_positions_ / rounded_ * rounded_);
        // Threads that each get as many parts find more of X where they left it, as Y of the layer before.
        if (threads_ > 1 && position_parts_ > 1)
            position_parts_ =
                std::min(ceil_div(ceil_div(s.out_size(), most_positions_ - rounded_), threads_) * threads_,
                         s.out_size() / rounded_);
        auto panels = p_.size.columns / p_.f.panel;
        // Fewer parts than threads: fewer channels in each.
        if (groups_ * position_parts_ * ceil_div(p_.size.columns, columns_) < 2 * threads_ && threads_ > 1)
            columns_ = std::max<int64_t>(1, ceil_div(panels, ceil_div(2 * threads_, position_parts_))) * p_.f.panel;
        column_parts_ = std::max<int64_t>(1, ceil_div(p_.columns(), columns_));
        auto by_column = p_.depthwise || p_.window.run == s.group_in();
        for (int64_t z = 0; z < s.kernel[0]; ++z)
            for (int64_t y = 0; y < s.kernel[1]; ++y)
                for (int64_t x = 0; x < (by_column ? s.kernel[2] : 1); ++x)
                    taps_.push_back(p_.image.at(z * s.dilation[0], y * s.dilation[1], x * s.dilation[2]));
        bool stores = y_bytes_ == 1 || (s.y == DataType::F32 && !p_.result.rounded);
        bool simple = stores && s.residual == DataType::Undefined && p_.result.slope == 1;
        if (packed_ && simple && s.channels_last) {
            auto fewest = std::min(columns_, s.in_channels - (column_parts_ - 1) * columns_);
            windowed_ = p_.depthwise && p_.f.depthwise_in_place && fewest >= p_.f.least_in_place &&
                        s.taps() <= p_.f.most_taps_in_place;
        }
        if (windowed_) windows_ = WindowPointers(s);
        lay_out();
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const& s = p_.s;
        auto* workspace = context.workspace;
        context.pool.parallel_for(groups_, [&](int64_t group, int) { prepare_group(arguments, workspace, group); });
        bool sums = has_w_zeros(workspace);
        auto pad = p_.x_zero(arguments[I::kAZero]);
        if (windowed_)
            std::memset(workspace + border_, pad ^ (s.x_signed ? 0x80 : 0), static_cast<size_t>(s.in_channels));
        bool direct = p_.image.in_place || windowed_;
        auto* widen = p_.depthwise ? flip_signs : p_.f.widen;
        auto lines = p_.image.lines();
        auto chunks = chunks_of(lines, static_cast<double>(p_.image.line_bytes()) * 0.3, threads_);
        for (int64_t n = 0; n < s.batch; ++n) {
            auto const* x = static_cast<uint8_t const*>(arguments[I::kA]) + n * s.in_channels * s.in_size();
            auto const* staged = direct ? x : reinterpret_cast<uint8_t const*>(workspace + staged_);
            context.pool.parallel_for(direct ? 0 : chunks, [&](int64_t chunk, int worker) {
                for (auto line = lines * chunk / chunks; line < lines * (chunk + 1) / chunks; ++line)
                    p_.image.stage(s, x, line, pad, reinterpret_cast<uint8_t*>(workspace + staged_),
                                   reinterpret_cast<uint8_t*>(context.scratch_of(worker)), widen);
            });
            context.pool.parallel_for(groups_ * position_parts_ * column_parts_, [&](int64_t part, int worker) {
                run_part(arguments, workspace, staged, n, part, sums, context.scratch_of(worker));
            });
        }
    }
    size_t workspace_bytes() const override { return end_; }
    size_t scratch_bytes() const override { return scratch_bytes_; }
    uint64_t unread_inputs() const override { return packed_ ? uint64_t{1} << I::kB : 0; }
    double operations() const override { return p_.operations(); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_integer_conv_task(IntegerConvPlan const& plan,
                                                      std::shared_ptr<mem_manager::Blob const> packed, bool shifted,
                                                      int threads) {
    bool bytes = bits_of(plan.s.y) == 8;
    bool stores = plan.result.rounded ? bytes && !shifted : bytes || plan.s.y == DataType::F32;
    bool strips = packed && stores && plan.s.residual == DataType::Undefined && plan.result.slope == 1;
    if (auto const* weights = strips ? plan.strip_weights(packed->data()) : nullptr)
        return make_depthwise_strips_task(plan, std::move(packed), weights, threads);
    return std::make_unique<IntegerConvTask>(plan, std::move(packed), threads);
}

}  // namespace refactor::kernel
