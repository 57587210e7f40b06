#include "cuda/conv_source.h"

#include <numeric>

namespace refactor::kernel::cuda {

namespace {

char const* const kArguments = R"cuda(
struct rg_conv_args {
    rg_u64 x, w, bias, residual, y, partial;
    rg_i64 batch, groups, group_in, group_out;
    rg_i64 in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], tap_step[3];
    rg_i64 row_tiles, column_tiles, splits, slabs_each;
};

// What an output reads along one axis: inputs first, first + step … through taps tap, tap + tap_step …
struct Window { int first, step, count, tap, tap_step; };

RG_FN Window window_of(rg_conv_args const& a, int axis, int output) {
    int stride = a.stride[axis], dilation = a.dilation[axis], taps = a.kernel[axis], pad = a.pad[axis];
    if (!kTransposed) return {output * stride - pad, dilation, taps, 0, 1};
    int tap = 0, every = a.tap_step[axis];
    while (tap < taps && (output + pad - tap * dilation) % stride != 0) ++tap;
    return {(output + pad - tap * dilation) / stride, -(dilation * every / stride), (taps - tap + every - 1) / every, tap, every};
}
RG_FN Index taps_of(rg_conv_args const& a) { return (Index)(a.kernel[0] * a.kernel[1] * a.kernel[2]); }
RG_FN Index in_plane_of(rg_conv_args const& a) { return (Index)(a.in[0] * a.in[1] * a.in[2]); }
RG_FN Index out_plane_of(rg_conv_args const& a) { return (Index)(a.out[0] * a.out[1] * a.out[2]); }
// Of the weights of a group's channel pair and a tap, without the group's first output channel.
RG_FN Index weight_at(rg_conv_args const& a, Index input, Index output, Index tap) {
    if (kTransposed) return (input * (Index)a.group_out + output) * taps_of(a) + tap;
    return (output * (Index)a.group_in + input) * taps_of(a) + tap;
}
RG_FN Index group_weights(rg_conv_args const& a, Index group) {
    return group * (Index)a.group_in * (Index)a.group_out * taps_of(a);
}
// Ends the output `target`, of channel `m` of all.
RG_FN void finish(rg_conv_args const& a, Index target, Index m, Sum value) {
    if (kBias) value += rg_load(((Element const*)a.bias)[m]);
    Sum residual = kResidual ? rg_load(((Element const*)a.residual)[target]) : Sum(0);
    if (!kResidualLast) value += residual;
    value = activate(value);
    if (kResidualLast) value += residual;
    rg_store(((Element*)a.y)[target], value);
}
)cuda";

char const* const kDirect = R"cuda(
RG_GLOBAL rg_conv(rg_conv_args a) {
    RG_WAIT();
    const Index plane = out_plane_of(a), channels = (Index)(a.groups * a.group_out), total = (Index)a.batch * channels * plane;
    const Index in_plane = in_plane_of(a);
    const int rows = a.in[1], columns = a.in[2];
    RG_FOR(Index, target, total) {
        Index position = target % plane, m = target / plane % channels, image = target / plane / channels;
        Index group = m / (Index)a.group_out, output = m % (Index)a.group_out;
        Window v0 = window_of(a, 0, position / (Index)a.out[2] / (Index)a.out[1]);
        Window v1 = window_of(a, 1, position / (Index)a.out[2] % (Index)a.out[1]);
        Window v2 = window_of(a, 2, position % (Index)a.out[2]);
        Element const* x = (Element const*)a.x + (image * (Index)a.groups + group) * (Index)a.group_in * in_plane;
        Element const* w = (Element const*)a.w + group_weights(a, group);
        Sum sum = Sum(0);
        for (Index c = 0; c < (Index)a.group_in; ++c, x += in_plane)
            for (int d = 0; d < v0.count; ++d) {
                int z = v0.first + d * v0.step;
                if (z < 0 || z >= (int)a.in[0]) continue;
                for (int h = 0; h < v1.count; ++h) {
                    int i = v1.first + h * v1.step;
                    if (i < 0 || i >= rows) continue;
                    Index tap = ((v0.tap + d * v0.tap_step) * (Index)a.kernel[1] + v1.tap + h * v1.tap_step) * (Index)a.kernel[2];
                    Element const* line = x + ((Index)z * rows + i) * columns;
                    Element const* weights = w + weight_at(a, c, output, tap + v2.tap);
                    for (int v = 0; v < v2.count; ++v) {
                        int j = v2.first + v * v2.step;
                        if (j >= 0 && j < columns) sum = rg_mad(rg_load(line[j]), rg_load(weights[v * v2.tap_step]), sum);
                    }
                }
            }
        finish(a, target, m, sum);
    }
}
)cuda";

// Threads that are neighbours have outputs of neighbouring channels.
char const* const kDirectLast = R"cuda(
RG_GLOBAL rg_conv(rg_conv_args a) {
    RG_WAIT();
    const Index plane = out_plane_of(a), channels = (Index)(a.groups * a.group_out), total = (Index)a.batch * channels * plane;
    const Index in_plane = in_plane_of(a), in_channels = (Index)(a.groups * a.group_in), each = (Index)a.group_in;
    const int rows = a.in[1], columns = a.in[2];
    RG_FOR(Index, target, total) {
        Index m = target % channels, position = target / channels % plane, image = target / channels / plane;
        Window v0 = window_of(a, 0, position / (Index)a.out[2] / (Index)a.out[1]);
        Window v1 = window_of(a, 1, position / (Index)a.out[2] % (Index)a.out[1]);
        Window v2 = window_of(a, 2, position % (Index)a.out[2]);
        Element const* x = (Element const*)a.x + image * in_plane * in_channels + m / (Index)a.group_out * each;
        // Of the group's first input channel, and steps between taps and between input channels.
        const Index output = m % (Index)a.group_out, tap_step = kTransposed ? (Index)a.group_out : each;
        const Index channel_step = kTransposed ? taps_of(a) * (Index)a.group_out : 1;
        Element const* w = (Element const*)a.w + group_weights(a, m / (Index)a.group_out) +
                           (kTransposed ? output : output * taps_of(a) * each);
        Sum sum = Sum(0);
        for (int d = 0; d < v0.count; ++d) {
            int z = v0.first + d * v0.step;
            if (z < 0 || z >= (int)a.in[0]) continue;
            for (int h = 0; h < v1.count; ++h) {
                int i = v1.first + h * v1.step;
                if (i < 0 || i >= rows) continue;
                for (int v = 0; v < v2.count; ++v) {
                    int j = v2.first + v * v2.step;
                    if (j < 0 || j >= columns) continue;
                    Element const* pixel = x + (((Index)z * rows + i) * columns + j) * in_channels;
                    Index tap = ((v0.tap + d * v0.tap_step) * (Index)a.kernel[1] + v1.tap + h * v1.tap_step) * (Index)a.kernel[2];
                    Element const* weights = w + (tap + v2.tap + v * v2.tap_step) * tap_step;
                    for (Index c = 0; c < each; ++c) sum = rg_mad(rg_load(pixel[c]), rg_load(weights[c * channel_step]), sum);
                }
            }
        }
        finish(a, target, m, sum);
    }
}
)cuda";

char const* const kImplicit = R"cuda(
// Further than any input, with the place of any tap added to it.
constexpr int kOutside = 1 << 29;

struct Shared {
    Tile::Shared tile;
    Index x_offset[2][Tile::depth], w_offset[2][Tile::depth];
    int at[2][3][Tile::depth];
};

// Where the inner index leads: to a channel, and from there to a tap.
struct Plan {
    rg_conv_args const& a;
    Shared& shared;
    Window const* window;
    int taps, inner;

    RG_MEMBER void plan(int slab) {
        int i = threadIdx.x, place = slab & 1;
        if (i >= Tile::depth) return;
        int k = slab * Tile::depth + i;
        bool inside = k < inner;
        int channel = inside ? k / taps : 0, tap = inside ? k % taps : 0;
        int v = tap % window[2].count, h = tap / window[2].count % window[1].count, d = tap / window[2].count / window[1].count;
        int z = d * window[0].step, y = h * window[1].step, x = v * window[2].step;
        shared.at[place][0][i] = z;
        shared.at[place][1][i] = y;
        shared.at[place][2][i] = inside ? x : kOutside;
        shared.x_offset[place][i] = channel * in_plane_of(a) + ((Index)z * (Index)a.in[1] + y) * (Index)a.in[2] + x;
        Index number = ((window[0].tap + d * window[0].tap_step) * (Index)a.kernel[1] + window[1].tap + h * window[1].tap_step) *
                           (Index)a.kernel[2] + window[2].tap + v * window[2].tap_step;
        shared.w_offset[place][i] = weight_at(a, channel, 0, number);
    }
};

struct Weights {
    Shared const& shared;
    Element const* row;
    bool inside;
    int inner;

    RG_MEMBER void fetch(int slab, Sum* to) {
        int first = Tile::a_first();
        if (kVector) {
            rg_vec<Element, Tile::a_run> run = {};
            int k = slab * Tile::depth + first;
            if (inside && k < inner) run = *(rg_vec<Element, Tile::a_run> const*)(row + k);
#pragma unroll
            for (int i = 0; i < Tile::a_run; ++i) to[i] = rg_load(run.v[i]);
            return;
        }
#pragma unroll
        for (int i = 0; i < Tile::a_run; ++i) {
            bool reads = inside && slab * Tile::depth + first + i < inner;
            to[i] = reads ? rg_load(row[shared.w_offset[slab & 1][first + i]]) : Sum(0);
        }
    }
};

struct Pixels {
    static constexpr bool runs = false;
    rg_conv_args const& a;
    Shared const& shared;
    Element const* image;
    Index offset;
    int place[3];

    RG_MEMBER Sum at(int slab, int i) {
        int const* z = shared.at[slab & 1][0];
        bool inside = (unsigned)(place[2] + z[2 * Tile::depth + i]) < (unsigned)a.in[2];
        if (kRank > 1) inside &= (unsigned)(place[1] + z[Tile::depth + i]) < (unsigned)a.in[1];
        if (kRank > 2) inside &= (unsigned)(place[0] + z[i]) < (unsigned)a.in[0];
        return inside ? rg_load(image[offset + shared.x_offset[slab & 1][i]]) : Sum(0);
    }
};

RG_GLOBAL rg_conv(rg_conv_args a) {
    RG_WAIT();
    __shared__ Shared shared;
    unsigned block = blockIdx.x;
    const int first_row = block % (unsigned)a.row_tiles * Tile::rows; block /= (unsigned)a.row_tiles;
    const Index first_column = (Index)(block % (unsigned)a.column_tiles) * Tile::columns; block /= (unsigned)a.column_tiles;
    const int split = block % (unsigned)a.splits; block /= (unsigned)a.splits;
    const Index group = block % (unsigned)a.groups;
    int phase = block / (unsigned)a.groups;

    // Transposed, the outputs of a phase are `stride` apart and neighbours read neighbours.
    Window window[3];
    int begin[3], count[3], out_step[3], in_step[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        int stride = a.stride[axis];
        out_step[axis] = kTransposed ? stride : 1, in_step[axis] = kTransposed ? 1 : stride;
        begin[axis] = phase % out_step[axis], phase /= out_step[axis];
        count[axis] = ((int)a.out[axis] - begin[axis] + out_step[axis] - 1) / out_step[axis];
        window[axis] = window_of(a, axis, begin[axis]);
    }
    const Index positions = (Index)count[0] * count[1] * count[2], columns = (Index)a.batch * positions;
    if (first_column >= columns) return;
    const int taps = window[0].count * window[1].count * window[2].count, inner = taps * (int)a.group_in;

    Tile tile;
    tile.clear();
    Plan plan{a, shared, window, taps, inner};
    int row = first_row + Tile::a_row();
    Weights weights{shared, (Element const*)a.w + group_weights(a, group) + weight_at(a, 0, row, 0), row < (int)a.group_out, inner};
    Index column = first_column + Tile::b_column(false), image = column / positions;
    int position = column % positions;
    Pixels pixels{a, shared, (Element const*)a.x + (image * (Index)a.groups + group) * (Index)a.group_in * in_plane_of(a), 0, {0, 0, 0}};
    pixels.place[0] = window[0].first + position / count[2] / count[1] * in_step[0];
    pixels.place[1] = window[1].first + position / count[2] % count[1] * in_step[1];
    pixels.place[2] = window[2].first + position % count[2] * in_step[2];
    pixels.offset = ((Index)pixels.place[0] * (Index)a.in[1] + pixels.place[1]) * (Index)a.in[2] + pixels.place[2];
    if (column >= columns) pixels.place[2] = -2 * kOutside;
    const int slabs = (inner + Tile::depth - 1) / Tile::depth, slab = split * (int)a.slabs_each;
    int end = slab + (int)a.slabs_each;
    tile.run(shared.tile, slab, end < slabs ? end : slabs, plan, weights, pixels);

    const Index plane = out_plane_of(a), total = (Index)a.batch * (Index)(a.groups * a.group_out) * plane;
#pragma unroll
    for (int j = 0; j < Tile::columns_each; ++j) {
        column = first_column + tile.column(j), image = column / positions, position = column % positions;
        if (column >= columns) continue;
        int z = begin[0] + position / count[2] / count[1] * out_step[0];
        int y = begin[1] + position / count[2] % count[1] * out_step[1], x = begin[2] + position % count[2] * out_step[2];
        Index at = ((Index)z * (Index)a.out[1] + y) * (Index)a.out[2] + x;
#pragma unroll
        for (int i = 0; i < Tile::rows_each; ++i) {
            row = first_row + tile.row(i);
            if (row >= (int)a.group_out) continue;
            Index m = group * (Index)a.group_out + row, target = (image * (Index)(a.groups * a.group_out) + m) * plane + at;
            if (a.splits > 1)
                ((Sum*)a.partial)[split * total + target] = tile.sum[i][j];
            else
                finish(a, target, m, tile.sum[i][j]);
        }
    }
}

RG_GLOBAL rg_conv_sum(rg_conv_args a) {
    RG_WAIT();
    const Index plane = out_plane_of(a), channels = (Index)(a.groups * a.group_out), total = (Index)a.batch * channels * plane;
    RG_FOR(Index, target, total) {
        Sum sum = Sum(0);
        for (int split = 0; split < (int)a.splits; ++split) sum += ((Sum const*)a.partial)[split * total + target];
        finish(a, target, target / plane % channels, sum);
    }
}
)cuda";

std::string constant(char const* name, bool value) {
    return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
}

std::string beginning(ConvKind const& kind) {
    auto const& after = kind.epilogue;
    return std::string("typedef ") + element_text(kind.dtype) + " Element;\ntypedef " + sum_text(kind.dtype) +
           " Sum;\ntypedef " + (kind.wide ? "rg_i64" : "int") +
           " Index;\nconstexpr int kRank = " + std::to_string(kind.rank) + ";\n" +
           constant("kTransposed", kind.transposed) + constant("kVector", kind.vector) + constant("kBias", after.bias) +
           constant("kResidual", after.residual) + constant("kResidualLast", after.residual_last) +
           activation_source(after.activation, "activate") + kArguments;
}

}  // namespace

std::string ConvKind::key() const { return std::to_string(rank) + (wide ? "w" : "n") + (vector ? "v" : "s"); }

ConvWords::ConvWords(Geometry const& g)
    : batch(g.batch), groups(g.group), group_in(g.in_channels / g.group), group_out(g.out_channels / g.group) {
    for (int axis = 0; axis < 3; ++axis) {
        in[axis] = g.in[axis], out[axis] = g.out[axis], kernel[axis] = g.kernel[axis];
        stride[axis] = g.stride[axis], dilation[axis] = g.dilation[axis], pad[axis] = g.pad[axis];
        tap_step[axis] = stride[axis] / std::gcd(stride[axis], dilation[axis]);
    }
}

std::string direct_conv_source(ConvKind const& kind) {
    return std::string(kPrelude) + kElementSource + beginning(kind) + (kind.channels_last ? kDirectLast : kDirect);
}

std::string implicit_conv_source(ConvKind const& kind, ConvTile const& tile) {
    std::string sizes;
    for (int size : {tile.rows, tile.columns, tile.depth, tile.rows_each, tile.columns_each})
        sizes += ", " + std::to_string(size);
    return std::string(kPrelude) + kElementSource + kTileSource + beginning(kind) + "typedef rg_tile<Sum" + sizes +
           "> Tile;\n" + kImplicit;
}

}  // namespace refactor::kernel::cuda
