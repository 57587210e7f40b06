#include "cuda/conv_depthwise_source.h"

#include "cuda/generated.h"
#include "cuda/source_text.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Registers of a thread for inputs that are under way: with as many again for sums and addresses, three blocks or four
/// share a processor.
constexpr int kAheadRegisters = 64;
/// Taps up to which the loop over rows is unrolled: a launch of few microseconds fetches its code as it goes.
constexpr int kUnrolledTaps = 32;

char const* const kWindow = R"cuda(
// Inputs that a thread reads in a row of its window, and weights of a channel.
constexpr int kColumns = (kOutputs - 1) * kStep + kTaps, kWeights = kRows * kTaps;
constexpr int kPlaces = kThreads / kLanes, kChannels = kLanes * kVector;
typedef rg_vec<Element, kVector> Vector;
// An element of a vector as it was loaded.
template <class T, class Words> RG_FN T element(Words const& words, int i) {
    if constexpr (sizeof(T) == 4) {
        return rg_f32(words.v[i]);
    } else {
        constexpr int kEach = sizeof(words.v[0]) / 2;
        T result;
        result.bits = (unsigned short)(words.v[i / kEach] >> i % kEach * 16);
        return result;
    }
}
typedef rg_raw<Vector> Loaded;

// Strips are those of all images, a block has one of the groups of channels; the axes are those of Y.
struct rg_depthwise_args {
    rg_u64 x, w, bias, residual, y;
    rg_i64 channels, strips, in_rows, in_columns, out_columns;
    rg_i64 row_stride, row_dilation, row_pad, column_stride, column_dilation, column_pad;
    rg_axis groups, row_strips, rows;
};

struct Window {
    Element const* x;  // its first element, which may lie outside
    int row, column;
    bool reads;

    RG_MEMBER void load(rg_depthwise_args const& a, int tap, Loaded (&to)[kColumns]) const {
        const Signed row_step = (Signed)a.row_dilation * (Signed)a.in_columns * (Signed)a.channels;
        const Signed step = (Signed)a.column_dilation * (Signed)a.channels;
        const bool inside = reads && (unsigned)(row + tap * (int)a.row_dilation) < (unsigned)a.in_rows;
        Element const* first = x + tap * row_step;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            to[i] = Loaded{};
            if (inside && (unsigned)(column + i * (int)a.column_dilation) < (unsigned)a.in_columns)
                to[i] = *(Loaded const*)(first + i * step);
        }
    }
};

// The weights of the channels of a block. Rows begin 16 bytes further in a bank than those before them, so that the taps
// of a channel, which are neighbours in memory, are written to different banks.
struct Weights {
    static constexpr int kRuns = kChannels * kWeights / kRun, kTurns = (kRuns + kThreads - 1) / kThreads;
    static constexpr int kEach = kTurns < 4 ? kTurns : 4, kGap = sizeof(Vector) < 16 ? 16 / sizeof(Vector) : 1;
    typedef rg_raw<rg_vec<Element, kRun>> Run;
    typedef Vector Shared[kWeights][kLanes + kGap];

    Run const* from;
    int count;
    Run runs[kEach];

    RG_MEMBER Weights(rg_depthwise_args const& a, unsigned first) : from((Run const*)((Element const*)a.w + (Index)first * kWeights)) {
        const unsigned left = (unsigned)a.channels - first;
        count = (int)(left < kChannels ? left : kChannels) * kWeights / kRun;
    }
    RG_MEMBER void fetch(int begin) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int at = begin + i * kThreads + (int)threadIdx.x;
            if (at < count) runs[i] = from[at];
        }
    }
    RG_MEMBER void put(int begin, Shared& to) const {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int at = begin + i * kThreads + (int)threadIdx.x;
            if (at >= count) continue;
#pragma unroll
            for (int j = 0; j < kRun; ++j) {
                const unsigned weight = (unsigned)(at * kRun + j), channel = weight / kWeights;
                to[weight % kWeights][channel / kVector].v[channel % kVector] = element<Element>(runs[i], j);
            }
        }
    }
};
)cuda";

char const* const kKernel = R"cuda(
RG_FN void multiply(Loaded const (&x)[kColumns], Weights::Shared const& shared, int row, int lane, Sum (&sum)[kOutputs][kVector]) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        const Vector w = shared[row * kTaps + tap][lane];
#pragma unroll
        for (int i = 0; i < kOutputs; ++i)
#pragma unroll
            for (int j = 0; j < kVector; ++j) sum[i][j] = rg_mad(rg_load(element<Element>(x[i * kStep + tap], j)), rg_load(w.v[j]), sum[i][j]);
    }
}

#undef RG_GLOBAL
#define RG_GLOBAL extern "C" __global__ void __launch_bounds__(kThreads, 3)
RG_GLOBAL rg_depthwise(rg_depthwise_args a) {
    __shared__ Weights::Shared shared;
    unsigned block = blockIdx.x;
    const unsigned first = rg_split(block, a.groups) * kChannels;
    const int lane = threadIdx.x % kLanes, place = threadIdx.x / kLanes;
    const unsigned channel = first + (unsigned)(lane * kVector);
    // Constants are fetched before X is there.
    if (!kConstant) RG_WAIT();
    Weights weights(a, first);
    weights.fetch(0);
    Loaded bias = {};
    if (kBias && channel < (unsigned)a.channels) bias = *(Loaded const*)((Element const*)a.bias + channel);

    Index strip = (Index)block * kPlaces + (Index)place;
    const bool active = place < kPlaces && channel < (unsigned)a.channels && strip < (Index)a.strips;
    const int column = (int)rg_split(strip, a.row_strips) * kOutputs;
    const Index target = (strip * (Index)a.out_columns + (Index)column) * (Index)a.channels + channel;
    const int row = (int)rg_split(strip, a.rows) * (int)a.row_stride - (int)a.row_pad;
    const int in_column = column * (int)a.column_stride - (int)a.column_pad;
    Element const* image = (Element const*)a.x + strip * (Index)(a.in_rows * a.in_columns * a.channels) + channel;
    const Window window{image + (row * a.in_columns + in_column) * a.channels, row, in_column, active};
    if (kConstant) RG_WAIT();
    Loaded x[kAhead][kColumns], residual[kOutputs];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) window.load(a, i, x[i]);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
        residual[i] = Loaded{};
        if (kResidual && active && column + i < (int)a.out_columns)
            residual[i] = *(Loaded const*)((Element const*)a.residual + target + (Index)i * (Index)a.channels);
    }

    weights.put(0, shared);
    for (int begin = Weights::kEach * kThreads; begin < Weights::kRuns; begin += Weights::kEach * kThreads)
        weights.fetch(begin), weights.put(begin, shared);
    __syncthreads();
    if (!active) return;

    Sum sum[kOutputs][kVector];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i)
#pragma unroll
        for (int j = 0; j < kVector; ++j) sum[i][j] = rg_load(element<Element>(bias, j));
#pragma unroll kTurnsUnrolled
    for (int begin = 0; begin < kRows; begin += kAhead)
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            if (begin + i >= kRows) break;
            multiply(x[i], shared, begin + i, lane, sum);
            if (begin + i + kAhead < kRows) window.load(a, begin + i + kAhead, x[i]);
        }

#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
        if (column + i >= (int)a.out_columns) break;
        Vector result;
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
            const Sum more = kResidual ? rg_load(element<Element>(residual[i], j)) : Sum(0);
            const Sum value = activate(kResidualLast ? sum[i][j] : sum[i][j] + more);
            rg_store(result.v[j], kResidualLast ? value + more : value);
        }
        *(Vector*)((Element*)a.y + target + (Index)i * (Index)a.channels) = result;
    }
}
)cuda";

}  // namespace

int DepthwiseKind::row_registers() const {
    auto bytes = vector * static_cast<int>(bits_of(dtype)) / 8;
    return columns() * std::max(1, bytes / 4);
}

int DepthwiseKind::ahead() const { return std::min(rows, std::max(2, kAheadRegisters / row_registers())); }

std::string DepthwiseKind::key() const {
    std::string text = wide ? "w" : "n";
    for (int size : {rows, taps, vector, lanes, outputs, step, run}) text += std::to_string(size) + '.';
    return text;
}

std::string depthwise_source(DepthwiseKind const& kind) {
    auto const& after = kind.epilogue;
    auto constants = constant_kind("kThreads", kDepthwiseThreads) + constant_kind("kRows", kind.rows) +
                     constant_kind("kTaps", kind.taps) + constant_kind("kVector", kind.vector) +
                     constant_kind("kLanes", kind.lanes) + constant_kind("kOutputs", kind.outputs) +
                     constant_kind("kStep", kind.step) + constant_kind("kRun", kind.run) +
                     constant_kind("kAhead", kind.ahead()) +
                     constant_kind("kTurnsUnrolled", kind.rows * kind.taps > kUnrolledTaps ? 1 : kind.rows) +
                     constant_kind("kConstant", kind.constant) + constant_kind("kBias", after.bias) +
                     constant_kind("kResidual", after.residual) + constant_kind("kResidualLast", after.residual_last);
    return std::string(kPrelude) + kMovementPrelude + kElementSource + index_kind(!kind.wide) + "typedef " +
           element_text(kind.dtype) + " Element;\ntypedef " + sum_text(kind.dtype) + " Sum;\n" + constants +
           activation_source(after.activation, "activate") + kWindow + kKernel;
}

}  // namespace refactor::kernel::cuda
