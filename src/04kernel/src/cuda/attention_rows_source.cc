#include "cuda/attention_source.h"

namespace refactor::kernel::cuda {

char const* const kAttentionJoin = R"cuda(
RG_FN Sum largest(Sum x) {
    for (int lane = 16; lane > 0; lane /= 2) {
        Sum other = __shfl_xor_sync(0xffffffffu, x, lane);
        x = other > x ? other : x;
    }
    return x;
}
RG_FN Sum total(Sum x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}
RG_GLOBAL rg_attention_join(RG_ARGUMENT rg_attention_args a) {
    RG_WAIT();
    const Index count = (Index)a.batch * (Index)a.heads * (Index)a.queries * (Index)a.value_depth, width = (Index)a.value_depth + 2;
    RG_FOR(Index, target, count) {
        const Index row = target / (Index)a.value_depth, column = target % (Index)a.value_depth;
        Sum const* parts = (Sum const*)a.partial + row * (Index)a.splits * width;
        Sum maximum = lowest(), value = Sum(0), sum = Sum(0);
        for (int i = 0; i < (int)a.splits; ++i) {
            Sum top = parts[i * width + (Index)a.value_depth];
            maximum = top > maximum ? top : maximum;
        }
        for (int i = 0; i < (int)a.splits; ++i) {
            Sum factor = shrink(parts[i * width + (Index)a.value_depth], maximum);
            value += parts[i * width + column] * factor;
            sum += parts[i * width + (Index)a.value_depth + 1] * factor;
        }
        const Index head = row / (Index)a.queries, query = row % (Index)a.queries;
        const Index at = begin_of(a, a.at_y, head, 1) + query * (Index)a.at_y.row;
        rg_store(((Element*)a.y)[at + column], quotient(a, value, sum, head, (int)query, (int)column));
    }
}
)cuda";

char const* const kAttentionRows = R"cuda(
// 256 keys a step. Some lanes of a warp work on a key, so that they read a row of K 16 bytes at a time, 4 keys of each in
// flight; then a thread on as many columns of V. Where rows allow no vectors, a warp has a key, a thread has columns.
constexpr int kKeys = 256, kRun = kVector ? 16 / sizeof(Element) : 1;
typedef rg_vec<Element, kRun> Run;

// Of all threads of the block; `room` may be used again after the next barrier but one.
template <class F> RG_FN Sum of_block(Sum x, Sum* room, F reduce) {
    x = reduce(x);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[threadIdx.x % 8];
    for (int lane = 4; lane > 0; lane /= 2) {
        Sum other = __shfl_xor_sync(0xffffffffu, x, lane);
        x = reduce.two(x, other);
    }
    return x;
}
struct Largest {
    RG_MEMBER Sum operator()(Sum x) const { return largest(x); }
    RG_MEMBER Sum two(Sum x, Sum y) const { return y > x ? y : x; }
};
struct Total {
    RG_MEMBER Sum operator()(Sum x) const { return total(x); }
    RG_MEMBER Sum two(Sum x, Sum y) const { return x + y; }
};

struct Shared { Sum q[kMostDepth], scores[kKeys], tops[8], totals[8], values[256 * kRun]; };

// Scores of the keys [first, first + count) for the query in shared memory.
RG_FN void score_keys(rg_attention_args const& a, Shared& shared, Element const* k, int first, int count) {
    const int depth = a.depth, lane = threadIdx.x % 32;
    if (kKeysTransposed) {
        Sum sum = Sum(0);
        if ((int)threadIdx.x < count)
            for (int d = 0; d < depth; ++d)
                sum = rg_mad(shared.q[d], (Sum)rg_load(k[d * (Index)a.at_k.row + first + (int)threadIdx.x]), sum);
        shared.scores[threadIdx.x] = sum;
        return;
    }
    const int place = lane % kKeyLanes, groups = 32 / kKeyLanes;
    for (int start = threadIdx.x / 32 * 4 * groups; start < count; start += 32 * groups) {
        const int key = start + lane / kKeyLanes;
        Sum sum[4] = {};
        for (int d = place * kRun; d < depth; d += kKeyLanes * kRun) {
            rg_raw<Run> raw[4] = {};
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key + i * groups < count)
                    raw[i] = *(rg_raw<Run> const*)(k + (first + key + i * groups) * (Index)a.at_k.row + d);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Run run = rg_taken<Run>(raw[i]);
#pragma unroll
                for (int e = 0; e < kRun; ++e) sum[i] = rg_mad(shared.q[d + e], (Sum)rg_load(run.v[e]), sum[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int other = kKeyLanes / 2; other > 0; other /= 2)
                sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], other);
            if (place == 0 && key + i * groups < count) shared.scores[key + i * groups] = sum[i];
        }
    }
}

RG_GLOBAL rg_attention(RG_ARGUMENT rg_attention_args a) {
    RG_WAIT();
    __shared__ Shared shared;
    const int thread = threadIdx.x, depth = a.depth, value_depth = a.value_depth;
    const Index row = divided(blockIdx.x, (Index)a.splits), head = divided(row, (Index)a.queries);
    const int split = blockIdx.x - row * (Index)a.splits, query = row - head * (Index)a.queries;
    Element const* q = (Element const*)a.q + begin_of(a, a.at_q, head, 1) + query * (Index)a.at_q.row;
    Element const* k = (Element const*)a.k + kv_begin(a, a.at_k, head);
    Element const* v = (Element const*)a.v + kv_begin(a, a.at_v, head);
    Element* y = (Element*)a.y + begin_of(a, a.at_y, head, 1) + query * (Index)a.at_y.row;
    for (int d = thread; d < depth; d += 256) shared.q[d] = rg_load(q[d]);

    int begin = split * (int)a.keys_each, end = begin + (int)a.keys_each, seen = visible(a, query);
    end = end < seen ? end : seen;
    // A thread adds up every `parts`-th key of its columns: a run of them, or kValues with 256 between them.
    constexpr int each = kVector ? kRun : kValues;
    const int width = kVector ? value_depth / kRun : value_depth < 256 ? value_depth : 256;
    const int parts = 256 / width, part = thread / width;
    Sum maximum = lowest(), sum = Sum(0), values[each] = {};
    for (int first = begin; first < end; first += kKeys) {
        int count = end - first < kKeys ? end - first : kKeys;
        __syncthreads();
        score_keys(a, shared, k, first, count);
        __syncthreads();
        Sum score = thread < count ? masked(a, shared.scores[thread], head, query, first + thread) : lowest();
        Sum top = of_block(score > maximum ? score : maximum, shared.tops, Largest());
        Sum weight = weight_of(score, top), factor = shrink(maximum, top);
        maximum = top;
        shared.scores[thread] = weight;
        sum = sum * factor + of_block(weight, shared.totals, Total());
        for (int j = 0; j < each; ++j) values[j] *= factor;
        if (part < parts)
#pragma unroll 4
            for (int key = part; key < count; key += parts) {
                Element const* row = v + (first + key) * (Index)a.at_v.row + thread % width * kRun;
                Run run;
                if (kVector) run = *(Run const*)row;
#pragma unroll
                for (int j = 0; j < each; ++j)
                    if (kVector || thread % width + j * 256 < value_depth)
                        values[j] = rg_mad(shared.scores[key], (Sum)rg_load(kVector ? run.v[j % kRun] : row[j * 256]), values[j]);
            }
    }
    if (split == 0 && kSinks && sink_of(a, head) != lowest()) {
        Sum sink = sink_of(a, head), top = sink > maximum ? sink : maximum, factor = shrink(maximum, top);
        sum = sum * factor + m_exp(sink - top), maximum = top;
        for (int j = 0; j < each; ++j) values[j] *= factor;
    }
    auto put = [&](int column, Sum value) {
        if (a.splits == 1)
            rg_store(y[column], quotient(a, value, sum, head, query, column));
        else
            ((Sum*)a.partial)[(row * (Index)a.splits + split) * (value_depth + 2) + column] = value;
    };
    if (kVector) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < each; ++j) shared.values[thread * kRun + j % kRun] = values[j];
        __syncthreads();
        for (int column = thread; column < value_depth; column += 256) {
            Sum value = Sum(0);
            for (int i = 0; i < parts; ++i) value += shared.values[column + i * value_depth];
            put(column, value);
        }
    }
    for (int j = 0; !kVector && j < kValues; ++j) {
        __syncthreads();
        shared.values[thread] = values[j];
        __syncthreads();
        int column = thread + j * 256;
        if (thread >= width || column >= value_depth) continue;
        Sum value = Sum(0);
        for (int i = 0; i < parts; ++i) value += shared.values[thread + i * width];
        put(column, value);
    }
    if (a.splits > 1 && thread < 2)
        ((Sum*)a.partial)[(row * (Index)a.splits + split) * (value_depth + 2) + value_depth + thread] = thread ? sum : maximum;
}
)cuda";

}  // namespace refactor::kernel::cuda
