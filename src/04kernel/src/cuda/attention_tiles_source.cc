#include "cuda/attention_source.h"

namespace refactor::kernel::cuda {

char const* const kAttentionTiles = R"cuda(
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

RG_GLOBAL rg_attention(RG_ARGUMENT rg_attention_args a) {
    RG_WAIT();
    __shared__ Shared shared;
    unsigned block = blockIdx.x;
    const int first_query = block % (unsigned)a.query_tiles * 64; block /= (unsigned)a.query_tiles;
    const int first_value = block % (unsigned)a.value_tiles * kValues; block /= (unsigned)a.value_tiles;
    const Index head = block;
    const int queries = a.queries, keys = a.keys, depth = a.depth, value_depth = a.value_depth;
    Element const* k = (Element const*)a.k + kv_begin(a, a.at_k, head);
    Element const* v = (Element const*)a.v + kv_begin(a, a.at_v, head);
    const Index k_row = a.at_k.row, v_row = a.at_v.row;

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
    Row q{(Element const*)a.q + begin_of(a, a.at_q, head, 1) + query * (Index)a.at_q.row, query < queries, depth, Scores::a_first()};
    int last = first_query + 63 < queries ? first_query + 63 : queries - 1, end = visible(a, last);
    for (int first_key = 0; first_key < end; first_key += 64) {
        scores.clear();
        int key = first_key + Scores::b_column(!kKeysTransposed), slabs = (depth + 15) / 16;
        if constexpr (kKeysTransposed) {
            Column column{k + key, key < keys, depth, k_row};
            scores.run(shared.tile.scores, 0, slabs, none, q, column);
        } else {
            Row row{k + key * k_row, key < keys, depth, Scores::b_place(true, 0)};
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
        Column of_v{v + first_key * v_row + column, column < value_depth, keys - first_key, v_row};
        values.run(shared.tile.values, 0, 4, none, weights, of_v);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        for (int lane = 8; lane > 0; lane /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], lane);
        query = first_query + scores.row(i);
        if (query >= queries) continue;
        Element* y = (Element*)a.y + begin_of(a, a.at_y, head, 1) + query * (Index)a.at_y.row;
#pragma unroll
        for (int j = 0; j < Values::columns_each; ++j) {
            int column = first_value + values.column(j);
            if (column < value_depth)
                rg_store(y[column], quotient(a, values.sum[i][j], sum[i], head, query, column));
        }
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
