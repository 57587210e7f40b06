#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

// Source of the instructions: PTX ISA, barrier.cluster, mapa and st.shared::cluster (from sm_90 on).
char const* const kRecurrentResidentSource = R"cuda(
#if !defined(RG_HOST) && __CUDA_ARCH__ >= 900
#define RG_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
// All threads of the cluster arrive; what they wrote before is seen behind it, in the shared memory of every block.
RG_FN void rg_wait_for_cluster() {
    asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
}
// Writes to where `p`, in shared memory, lies in another block of the cluster.
RG_FN void rg_store_in_block(float* p, unsigned block, float x) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(x) : "memory");
}
#elif !defined(RG_HOST)
// The host asks for one block.
#define RG_CLUSTER(blocks)
RG_FN void rg_wait_for_cluster() { __trap(); }
RG_FN void rg_store_in_block(float*, unsigned, float) { __trap(); }
#endif

template <int kBlocks> RG_FN void rg_wait_for_blocks() {
    if constexpr (kBlocks > 1) rg_wait_for_cluster();
    else __syncthreads();
}

// What a lane has of a tile's states: h is in the shared memory of every block, c and the update gate where they are
// needed.
template <int kBlocks> struct rg_resident_state {
    float const* h;
    float *next, *reset_states;
    float cell, gate;
    RG_MEMBER float old(unsigned at) const { return h[at]; }
    RG_MEMBER float& c(unsigned) { return cell; }
    RG_MEMBER float& update(unsigned) { return gate; }
    RG_MEMBER static void put(float* p, float x) {
        if constexpr (kBlocks == 1) {
            *p = x;
        } else {
#pragma unroll
            for (unsigned block = 0; block < kBlocks; ++block) rg_store_in_block(p, block, x);
        }
    }
    RG_MEMBER void put_next(unsigned at, float x) { put(next + at, x); }
    RG_MEMBER void put_reset(unsigned at, float x) { put(reset_states + at, x); }
};

// Adds up `kCount` (a power of two) sums of each lane over the warp, in kCount - 1 + log2(32 / kCount) exchanges: with each
// one a lane hands over the half of its sums that its partner keeps. Lane i gets number i / (32 / kCount).
template <int kCount, int kMask = 16> RG_FN float rg_transposed_sum(float (&sums)[kCount]) {
    if constexpr (kMask == 0) {
        return sums[0];
    } else if constexpr (kCount == 1) {
        sums[0] += rg_exchanged(sums[0], kMask);
        return rg_transposed_sum<1, kMask / 2>(sums);
    } else {
        bool upper = threadIdx.x & kMask;
        float kept[kCount / 2];
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) {
            float low = sums[i], high = sums[i + kCount / 2];
            kept[i] = (upper ? high : low) + rg_exchanged(upper ? low : high, kMask);
        }
        return rg_transposed_sum<kCount / 2, kMask / 2>(kept);
    }
}

// Rows of R in the registers of a warp: `kRows` of them, of each `kDepth` elements a lane, in vectors of `kPart`.
template <int kRows, int kDepth> struct rg_resident_rows {
    static constexpr int kPart = kDepth % 4 == 0 ? 4 : kDepth % 2 == 0 ? 2 : 1;
    float of[kRows][kDepth];
    RG_MEMBER static unsigned column(int d) { return (d / kPart * 32 + threadIdx.x % 32) * kPart + d % kPart; }
    // Products of the rows [kFirst, kEnd) with x.
    template <int kFirst, int kEnd> RG_MEMBER void multiply(float const (&x)[kDepth], float* products) const {
        constexpr int kCount = kEnd - kFirst < 32 ? kEnd - kFirst : 32;
        constexpr int kSums = kCount > 16 ? 32 : kCount > 8 ? 16 : kCount > 4 ? 8 : kCount > 2 ? 4 : kCount;
        float sums[kSums];
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] = 0;
#pragma unroll
            for (int d = 0; d < kDepth; ++d)
                if (i < kCount) sums[i] = m_fma(of[kFirst + (i < kCount ? i : 0)][d], x[d], sums[i]);
        }
        float sum = rg_transposed_sum(sums);
        unsigned lane = threadIdx.x % 32, row = lane / (32 / kSums);
        if (lane % (32 / kSums) == 0 && row < kCount) products[kFirst + row] = sum;
        if constexpr (kEnd - kFirst > 32) multiply<kFirst + 32, kEnd>(x, products);
    }
};

// The products of one part's gates with the states of all sequences of a tile, then a lane for the cell of each unit of the
// warp and sequence.
template <int part, int kUnits, int kDepth, class T, int cell, int kBlocks>
RG_FN void rg_resident_step(rg_layer<T, cell> const& layer,
                            rg_resident_rows<rg_layer<T, cell>::gates * kUnits, kDepth> const& r,
                            rg_resident_state<kBlocks>& s, rg_step_inputs<T, cell, part>& in, float* products, unsigned t,
                            unsigned first, unsigned rows, unsigned unit, unsigned end) {
    typedef rg_part_gates<T, cell, part> Gates;
    typedef rg_resident_rows<rg_layer<T, cell>::gates * kUnits, kDepth> Rows;
    constexpr int kRows = rg_layer<T, cell>::gates * kUnits, kPart = Rows::kPart, kPitch = 32 * kDepth;
    float const* states = part == rg_part_state ? s.reset_states : s.h;
#pragma unroll 1
    for (unsigned n = 0; n < rows; ++n) {
        float x[kDepth];
#pragma unroll
        for (int d = 0; d < kDepth; d += kPart) {
            rg_vec<float, kPart> values = *(rg_vec<float, kPart> const*)(states + n * kPitch + r.column(d));
#pragma unroll
            for (int i = 0; i < kPart; ++i) x[d + i] = values.v[i];
        }
        r.template multiply<Gates::first * kUnits, (Gates::first + Gates::count) * kUnits>(x, products + n * kRows);
    }
    __syncwarp();
    unsigned lane = threadIdx.x % 32, n = lane / kUnits;
    if (n >= rows || unit >= end) return;
    float own[Gates::count];
#pragma unroll
    for (int g = 0; g < Gates::count; ++g) own[g] = products[n * kRows + (Gates::first + g) * kUnits + lane % kUnits];
    rg_cell_step<part>(layer, s, in, own, first + n, unit, n * kPitch + unit);
    if (t + 1 < layer.steps()) in.load(layer, t + 1, first + n, unit);
}

// All steps of a tile of sequences and a direction by a cluster of `kBlocks` blocks. R stays in registers: a warp has
// `kUnits` units with all their gates, a lane `kDepth` elements of each of their rows. Word 14: sequences of a tile, at most
// 32 / kUnits. f64 has no such kernel.
template <class T, int cell, bool split, int kBlocks, int kUnits, int kDepth>
RG_FN void rg_recurrent_resident(rg_u64 const* w) {
    constexpr int kRows = rg_layer<T, cell>::gates * kUnits, kPitch = 32 * kDepth, kMost = 32 / kUnits;
    struct alignas(16) States { float values[kMost * kPitch]; };
    __shared__ States h[split ? 3 : 2];
    __shared__ float products[8][kMost * kRows];
    unsigned cluster = blockIdx.x / kBlocks, tile = (unsigned)w[14], tiles = ((unsigned)w[16] + tile - 1) / tile;
    unsigned first = cluster % tiles * tile, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    rg_layer<T, cell> layer(w, cluster / tiles);
    unsigned rows = layer.sequences() - first < tile ? layer.sequences() - first : tile;
    unsigned begin = (blockIdx.x % kBlocks * 8 + warp) * kUnits, unit = begin + lane % kUnits, n = lane / kUnits;
    unsigned end = layer.hidden;

    rg_resident_rows<kRows, kDepth> r;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
            unsigned row = begin + i % kUnits, column = r.column(d);
            bool exists = row < end && column < end;
            r.of[i][d] = exists ? rg_widen(layer.weights()[((rg_u64)(i / kUnits) * end + row) * end + column]) : 0.f;
        }
    for (unsigned i = threadIdx.x; i < rows * kPitch; i += 256) {
        unsigned column = i % kPitch;
        h[0].values[i] = column < end ? layer.initial(5, first + i / kPitch, column) : 0.f;
        for (int buffer = 1; buffer < (split ? 3 : 2); ++buffer) h[buffer].values[i] = 0;
    }
    rg_resident_state<kBlocks> s;
    s.reset_states = h[split ? 2 : 0].values, s.cell = s.gate = 0;
    rg_step_inputs<T, cell, split ? rg_part_reset : rg_part_all> in;
    rg_step_inputs<T, cell, split ? rg_part_state : rg_part_all> behind;
    if (n < rows && unit < end && layer.steps() > 0) {
        in.load(layer, 0, first + n, unit);
        if (split) behind.load(layer, 0, first + n, unit);
    }
    if (n < rows && unit < end && cell == rg_cell_lstm) s.cell = layer.initial(6, first + n, unit);
    rg_wait_for_blocks<kBlocks>();
    for (unsigned t = 0; t < layer.steps(); ++t) {
        s.h = h[t % 2].values, s.next = h[1 - t % 2].values;
        rg_resident_step<split ? rg_part_reset : rg_part_all, kUnits, kDepth>(layer, r, s, in, products[warp], t, first, rows,
                                                                             unit, end);
        rg_wait_for_blocks<kBlocks>();
        if constexpr (split) {
            rg_resident_step<rg_part_state, kUnits, kDepth>(layer, r, s, behind, products[warp], t, first, rows, unit, end);
            rg_wait_for_blocks<kBlocks>();
        }
    }
    if (n >= rows || unit >= end) return;
    rg_u64 at = layer.state_at(first + n, unit);
    if (w[12]) ((T*)w[12])[at] = rg_narrow<T>(h[layer.steps() % 2].values[n * kPitch + unit]);
    if (w[13]) ((T*)w[13])[at] = rg_narrow<T>(s.cell);
}
)cuda";

}  // namespace refactor::kernel::cuda
