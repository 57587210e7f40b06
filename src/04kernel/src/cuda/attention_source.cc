#include "cuda/attention_source.h"

#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

char const* const kArguments = R"cuda(
struct rg_attention_args {
    rg_u64 q, k, v, mask, sinks, y, partial;
    rg_i64 batch, heads, kv_heads, queries, keys, depth, value_depth;
    rg_i64 mask_step[4];
    rg_i64 query_tiles, value_tiles, splits, keys_each;
};
RG_FN Sum lowest() { return (Sum)rg_f32(0xff800000u); }
// Where batch and head (one number) begin.
RG_FN Index kv_row(rg_attention_args const& a, Index head) {
    Index h = head % (Index)a.heads, shared = (Index)(a.heads / a.kv_heads);
    return head / (Index)a.heads * (Index)a.kv_heads + h / shared;
}
// Keys that a query sees.
RG_FN int visible(rg_attention_args const& a, int query) {
    if (!kCausal) return a.keys;
    int seen = (int)(a.keys - a.queries) + query + 1;
    return seen < 0 ? 0 : seen < (int)a.keys ? seen : (int)a.keys;
}
RG_FN Sum masked(rg_attention_args const& a, Sum score, Index head, int query, int key) {
    score *= (Sum)kScale;
    if (kMask == 0) return score;
    Index at = head / (Index)a.heads * (Index)a.mask_step[0] + head % (Index)a.heads * (Index)a.mask_step[1] +
               query * (Index)a.mask_step[2] + key * (Index)a.mask_step[3];
    if (kMask == 2) return ((unsigned char const*)a.mask)[at] ? score : score + lowest();
    return score + (Sum)rg_load(((Mask const*)a.mask)[at]);
}
RG_FN Sum sink_of(rg_attention_args const& a, Index head) {
    return kSinks ? rg_load(((Element const*)a.sinks)[head % (Index)a.heads]) : lowest();
}
// Its share of the softmax's sum; NaN stays, even where nothing else has been seen.
RG_FN Sum weight_of(Sum score, Sum maximum) {
    if (maximum == lowest()) return score == score ? Sum(0) : score;
    return m_exp(score - maximum);
}
// By how much earlier sums shrink when the maximum rises.
RG_FN Sum shrink(Sum before, Sum maximum) { return before == maximum ? Sum(1) : m_exp(before - maximum); }
RG_FN Sum quotient(Sum value, Sum sum) {
    if (sum != Sum(0)) return value / sum;
    return kNanToZero ? Sum(0) : (Sum)rg_f32(0x7fc00000u);
}
)cuda";

char const* const kTiled = R"cuda(
typedef rg_tile<Sum, 64, 64, 16, 4, 4> Scores;
typedef rg_tile<Sum, 64, kValues, 16, 4, kValues / 16> Values;
struct Shared {
    union { Scores::Shared scores; Values::Shared values; } tile;
    Sum weights[64][64 + 1];
};

// A row of Q or of K in memory.
struct Row {
    static constexpr bool runs = true;
    Element const* row;
    bool inside;
    int depth, first;
    RG_MEMBER void fetch(int slab, Sum* to) {
        int k = slab * 16 + first;
        rg_vec<Element, 4> run = {};
        if (kVector) {
            if (inside && k < depth) run = *(rg_vec<Element, 4> const*)(row + k);
        } else {
            for (int i = 0; i < 4; ++i)
                if (inside && k + i < depth) run.v[i] = row[k + i];
        }
        for (int i = 0; i < 4; ++i) to[i] = rg_load(run.v[i]);
    }
};
// A column of a matrix in memory: of V, or of K that is stored [depth, keys].
struct Column {
    static constexpr bool runs = false;
    Element const* column;
    bool inside;
    int count;
    Index step;
    RG_MEMBER Sum at(int slab, int i) {
        int k = slab * 16 + i;
        return inside && k < count ? (Sum)rg_load(column[k * step]) : Sum(0);
    }
};
struct Weights {
    Shared const& shared;
    RG_MEMBER void fetch(int slab, Sum* to) {
        for (int i = 0; i < 4; ++i) to[i] = shared.weights[Values::a_row()][slab * 16 + Values::a_first() + i];
    }
};

RG_GLOBAL rg_attention(rg_attention_args a) {
    __shared__ Shared shared;
    unsigned block = blockIdx.x;
    const int first_query = block % (unsigned)a.query_tiles * 64; block /= (unsigned)a.query_tiles;
    const int first_value = block % (unsigned)a.value_tiles * kValues; block /= (unsigned)a.value_tiles;
    const Index head = block, kv = kv_row(a, head);
    const int queries = a.queries, keys = a.keys, depth = a.depth, value_depth = a.value_depth;
    Element const* k = (Element const*)a.k + kv * keys * depth;
    Element const* v = (Element const*)a.v + kv * keys * value_depth;

    rg_no_plan none;
    Scores scores;
    Values values;
    values.clear(), scores.clear();
    Sum maximum[4], sum[4];
    for (int i = 0; i < 4; ++i) {
        maximum[i] = sink_of(a, head);
        sum[i] = kSinks && maximum[i] != lowest() && scores.column_thread == 0 ? Sum(1) : Sum(0);
    }
    int query = first_query + Scores::a_row();
    Row q{(Element const*)a.q + (head * queries + query) * depth, query < queries, depth, Scores::a_first()};
    int last = first_query + 63 < queries ? first_query + 63 : queries - 1, end = visible(a, last);
    for (int first_key = 0; first_key < end; first_key += 64) {
        scores.clear();
        int key = first_key + Scores::b_column(!kKeysTransposed), slabs = (depth + 15) / 16;
        if constexpr (kKeysTransposed) {
            Column column{k + key, key < keys, depth, keys};
            scores.run(shared.tile.scores, 0, slabs, none, q, column);
        } else {
            Row row{k + key * (Index)depth, key < keys, depth, Scores::b_place(true, 0)};
            scores.run(shared.tile.scores, 0, slabs, none, q, row);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            query = first_query + scores.row(i);
            int seen = query < queries ? visible(a, query) : 0;
            Sum top = maximum[i];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                key = first_key + scores.column(j);
                Sum& score = scores.sum[i][j];
                score = key < seen ? masked(a, score, head, query, key) : lowest();
                top = score > top ? score : top;
            }
            for (int lane = 8; lane > 0; lane /= 2) {
                Sum other = __shfl_xor_sync(0xffffffffu, top, lane);
                top = other > top ? other : top;
            }
            Sum factor = shrink(maximum[i], top);
            maximum[i] = top, sum[i] *= factor;
#pragma unroll
            for (int j = 0; j < Values::columns_each; ++j) values.sum[i][j] *= factor;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                Sum weight = weight_of(scores.sum[i][j], top);
                sum[i] += weight;
                shared.weights[scores.row(i)][scores.column(j)] = weight;
            }
        }
        Weights weights{shared};
        int column = first_value + Values::b_column(false);
        Column of_v{v + first_key * (Index)value_depth + column, column < value_depth, keys - first_key, value_depth};
        values.run(shared.tile.values, 0, 4, none, weights, of_v);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        for (int lane = 8; lane > 0; lane /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], lane);
        query = first_query + scores.row(i);
        if (query >= queries) continue;
        Element* y = (Element*)a.y + (head * queries + query) * value_depth;
#pragma unroll
        for (int j = 0; j < Values::columns_each; ++j) {
            int column = first_value + values.column(j);
            if (column < value_depth) rg_store(y[column], quotient(values.sum[i][j], sum[i]));
        }
    }
}
)cuda";

char const* const kRows = R"cuda(
// 256 keys a step: a warp works on a key at a time, 4 keys in flight, then a thread on a column of V.
constexpr int kKeys = 256;

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

struct Shared { Sum q[kMostDepth], scores[kKeys], tops[8], totals[8], values[256]; };

// Scores of the keys [first, first + count) for the query in shared memory.
RG_FN void score_keys(rg_attention_args const& a, Shared& shared, Element const* k, int first, int count) {
    const int depth = a.depth, lane = threadIdx.x % 32;
    if (kKeysTransposed) {
        Sum sum = Sum(0);
        if ((int)threadIdx.x < count)
            for (int d = 0; d < depth; ++d)
                sum = rg_mad(shared.q[d], (Sum)rg_load(k[d * (Index)a.keys + first + (int)threadIdx.x]), sum);
        shared.scores[threadIdx.x] = sum;
        return;
    }
    for (int key = threadIdx.x / 32 * 4; key < count; key += 32) {
        Sum sum[4] = {};
        for (int d = lane; d < depth; d += 32)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key + i < count)
                    sum[i] = rg_mad(shared.q[d], (Sum)rg_load(k[(first + key + i) * (Index)depth + d]), sum[i]);
        for (int i = 0; i < 4; ++i) sum[i] = total(sum[i]);
        if (lane < 4) shared.scores[key + lane] = lane == 0 ? sum[0] : lane == 1 ? sum[1] : lane == 2 ? sum[2] : sum[3];
    }
}

RG_GLOBAL rg_attention(rg_attention_args a) {
    __shared__ Shared shared;
    const int thread = threadIdx.x, depth = a.depth, value_depth = a.value_depth, split = blockIdx.x % (unsigned)a.splits;
    const Index row = blockIdx.x / (unsigned)a.splits, head = row / (Index)a.queries, kv = kv_row(a, head);
    const int query = row % (Index)a.queries;
    Element const* k = (Element const*)a.k + kv * (Index)a.keys * depth;
    Element const* v = (Element const*)a.v + kv * (Index)a.keys * value_depth;
    for (int d = thread; d < depth; d += 256) shared.q[d] = rg_load(((Element const*)a.q)[row * depth + d]);

    int begin = split * (int)a.keys_each, end = begin + (int)a.keys_each, seen = visible(a, query);
    end = end < seen ? end : seen;
    // A thread adds up every `parts`-th key of its columns.
    const int width = value_depth < 256 ? value_depth : 256, parts = 256 / width, part = thread / width;
    Sum maximum = lowest(), sum = Sum(0), values[kValues] = {};
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
        for (int j = 0; j < kValues; ++j) values[j] *= factor;
        if (part < parts)
            for (int key = part; key < count; key += parts)
#pragma unroll
                for (int j = 0; j < kValues; ++j) {
                    int column = thread % width + j * 256;
                    if (column < value_depth)
                        values[j] = rg_mad(shared.scores[key], (Sum)rg_load(v[(first + key) * (Index)value_depth + column]), values[j]);
                }
    }
    if (split == 0 && kSinks && sink_of(a, head) != lowest()) {
        Sum sink = sink_of(a, head), top = sink > maximum ? sink : maximum, factor = shrink(maximum, top);
        sum = sum * factor + m_exp(sink - top), maximum = top;
        for (int j = 0; j < kValues; ++j) values[j] *= factor;
    }
    for (int j = 0; j < kValues; ++j) {
        __syncthreads();
        shared.values[thread] = values[j];
        __syncthreads();
        int column = thread + j * 256;
        if (thread >= width || column >= value_depth) continue;
        Sum value = Sum(0);
        for (int i = 0; i < parts; ++i) value += shared.values[thread + i * width];
        if (a.splits == 1)
            rg_store(((Element*)a.y)[row * value_depth + column], quotient(value, sum));
        else
            ((Sum*)a.partial)[(row * (Index)a.splits + split) * (value_depth + 2) + column] = value;
    }
    if (a.splits > 1 && thread < 2)
        ((Sum*)a.partial)[(row * (Index)a.splits + split) * (value_depth + 2) + value_depth + thread] = thread ? sum : maximum;
}

RG_GLOBAL rg_attention_join(rg_attention_args a) {
    const Index count = (Index)a.batch * (Index)a.heads * (Index)a.queries * (Index)a.value_depth, width = (Index)a.value_depth + 2;
    RG_FOR(Index, target, count) {
        Sum const* parts = (Sum const*)a.partial + target / (Index)a.value_depth * (Index)a.splits * width;
        Sum maximum = lowest(), value = Sum(0), sum = Sum(0);
        for (int i = 0; i < (int)a.splits; ++i) {
            Sum top = parts[i * width + (Index)a.value_depth];
            maximum = top > maximum ? top : maximum;
        }
        for (int i = 0; i < (int)a.splits; ++i) {
            Sum factor = shrink(parts[i * width + (Index)a.value_depth], maximum);
            value += parts[i * width + target % (Index)a.value_depth] * factor;
            sum += parts[i * width + (Index)a.value_depth + 1] * factor;
        }
        rg_store(((Element*)a.y)[target], quotient(value, sum));
    }
}
)cuda";

std::string constant(char const* name, bool value) {
    return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
}

std::string beginning(AttentionKind const& kind) {
    auto const& info = kind.info;
    auto mask = kind.mask == DataType::Undefined ? 0 : kind.mask == DataType::Bool ? 2 : 1;
    char scale[40];
    std::snprintf(scale, sizeof scale, "%.17g", static_cast<double>(info.scale));
    return std::string("typedef ") + element_text(kind.dtype) + " Element;\ntypedef " + sum_text(kind.dtype) +
           " Sum;\ntypedef " + (mask == 1 ? element_text(kind.mask) : "float") + " Mask;\ntypedef " +
           (kind.wide ? "rg_i64" : "int") + " Index;\nconstexpr int kMask = " + std::to_string(mask) +
           ", kValues = " + std::to_string(kind.values) + ", kMostDepth = " + std::to_string(kMostDepth) +
           ";\nconstexpr double kScale = " + scale + ";\n" + constant("kCausal", info.causal) +
           constant("kSinks", info.has_sinks) + constant("kKeysTransposed", info.k_transposed) +
           constant("kNanToZero", info.nan_to_zero || info.has_sinks) + constant("kVector", kind.vector) + kArguments;
}

}  // namespace

std::string AttentionKind::key() const { return std::to_string(values) + (wide ? "w" : "n") + (vector ? "v" : "s"); }

AttentionWords::AttentionWords(AttentionShape const& s)
    : batch(s.batch),
      heads(s.heads),
      kv_heads(s.kv_heads),
      queries(s.queries),
      keys(s.keys),
      depth(s.depth),
      value_depth(s.value_depth) {
    for (int i = 0; i < 4; ++i) mask_step[i] = s.mask_step[i];
}

std::string tiled_attention_source(AttentionKind const& kind) {
    return std::string(kPrelude) + kElementSource + kTileSource + beginning(kind) + kTiled;
}

std::string row_attention_source(AttentionKind const& kind) {
    return std::string(kPrelude) + kElementSource + beginning(kind) + kRows;
}

}  // namespace refactor::kernel::cuda
