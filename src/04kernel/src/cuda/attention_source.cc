#include "cuda/attention_source.h"

#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

char const* const kArguments = R"cuda(
// The first element of a tensor, and steps from one batch, head and row to the next.
struct rg_place { rg_i64 first, batch, head, row; };
struct rg_attention_args {
    rg_u64 q, k, v, mask, sinks, y, partial;
    rg_i64 batch, heads, kv_heads, queries, keys, depth, value_depth;
    rg_place at_q, at_k, at_v, at_y;
    rg_i64 mask_step[4];
    rg_i64 query_tiles, value_tiles, splits, keys_each;
};
RG_FN Sum lowest() { return (Sum)rg_f32(0xff800000u); }
// Where batch and head (one number) begin; `shared` heads are one in the tensor.
RG_FN Index begin_of(rg_attention_args const& a, rg_place const& p, Index head, Index shared) {
    return (Index)p.first + head / (Index)a.heads * (Index)p.batch + head % (Index)a.heads / shared * (Index)p.head;
}
RG_FN Index kv_begin(rg_attention_args const& a, rg_place const& p, Index head) {
    return begin_of(a, p, head, (Index)(a.heads / a.kv_heads));
}
// Keys that a query sees.
RG_FN int visible(rg_attention_args const& a, int query) {
    if (!kCausal) return a.keys;
    int seen = (int)(a.keys - a.queries) + query + 1;
    return seen < 0 ? 0 : seen < (int)a.keys ? seen : (int)a.keys;
}
RG_FN Sum mask_of(rg_attention_args const& a, Index head, int query, int key) {
    Index at = head / (Index)a.heads * (Index)a.mask_step[0] + head % (Index)a.heads * (Index)a.mask_step[1] +
               query * (Index)a.mask_step[2] + key * (Index)a.mask_step[3];
    if (kMask == 2) return ((unsigned char const*)a.mask)[at] ? Sum(0) : lowest();
    return (Sum)rg_load(((Mask const*)a.mask)[at]);
}
RG_FN bool hides(Sum mask) { return mask <= (Sum)kHiddenBelow; }
RG_FN Sum masked(rg_attention_args const& a, Sum score, Index head, int query, int key) {
    score *= (Sum)kScale;
    if (kSoftcap > 0) score = (Sum)kSoftcap * m_tanh(score / (Sum)kSoftcap);
    if (kMask == 0) return score;
    Sum mask = mask_of(a, head, query, key);
    return kHides && hides(mask) ? mask : score + mask;
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
// An element of the result by its definition, in two walks over the keys; seldom called, and not to cost registers.
static __device__ __noinline__ Sum element_of(rg_attention_args const& a, Index head, int query, int column) {
    Element const* q = (Element const*)a.q + begin_of(a, a.at_q, head, 1) + query * (Index)a.at_q.row;
    Element const* k = (Element const*)a.k + kv_begin(a, a.at_k, head);
    Element const* v = (Element const*)a.v + kv_begin(a, a.at_v, head) + column;
    const Index key_step = kKeysTransposed ? Index(1) : (Index)a.at_k.row, step = kKeysTransposed ? (Index)a.at_k.row : Index(1);
    const int seen = visible(a, query);
    Sum top = sink_of(a, head), sum = Sum(0), value = Sum(0);
    for (int walk = 0; walk < 2; ++walk) {
        if (walk == 1) sum = weight_of(sink_of(a, head), top);
        for (int key = 0; key < seen; ++key) {
            Sum score = Sum(0);
            for (int d = 0; d < (int)a.depth; ++d)
                score = rg_mad((Sum)rg_load(q[d]), (Sum)rg_load(k[key * key_step + d * step]), score);
            score = masked(a, score, head, query, key);
            if (walk == 0) {
                top = score > top ? score : top;
                continue;
            }
            Sum weight = weight_of(score, top);
            sum += weight;
            if (weight != Sum(0) || kMask == 0 || !kLeavesOut || !hides(mask_of(a, head, query, key)))
                value = rg_mad(weight, (Sum)rg_load(v[key * (Index)a.at_v.row]), value);
        }
    }
    return value / sum;
}
// The result, unless something that is not finite reached a row that does not see it.
RG_FN Sum quotient(rg_attention_args const& a, Sum value, Sum sum, Index head, int query, int column) {
    if (sum == Sum(0)) return kUnseenToZero ? Sum(0) : (Sum)rg_f32(0x7fc00000u);
    if (sum != sum) return kNanToZero ? Sum(0) : sum;
    if ((kLeavesOut || kCausal) && value - value != Sum(0)) return element_of(a, head, query, column);
    return value / sum;
}
)cuda";

std::string constant(char const* name, bool value) {
    return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
}

std::string beginning(AttentionKind const& kind) {
    auto const& info = kind.info;
    auto mask = kind.mask == DataType::Undefined ? 0 : kind.mask == DataType::Bool ? 2 : 1;
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, "constexpr double kScale = %.17g, kSoftcap = %.17g, kHiddenBelow = %.17g;\n",
                  static_cast<double>(info.scale), static_cast<double>(info.softcap),
                  static_cast<double>(kHiddenBelow));
    return std::string("typedef ") + element_text(kind.dtype) + " Element;\ntypedef " + sum_text(kind.dtype) +
           " Sum;\ntypedef " + (mask == 1 ? element_text(kind.mask) : "float") + " Mask;\ntypedef " +
           (kind.wide ? "rg_i64" : "int") + " Index;\nconstexpr int kMask = " + std::to_string(mask) +
           ", kValues = " + std::to_string(kind.values) + ", kMostDepth = " + std::to_string(kMostDepth) +
           ", kKeyLanes = " + std::to_string(kind.key_lanes) + ";\n" + numbers + constant("kCausal", info.causal) +
           constant("kSinks", info.has_sinks) + constant("kKeysTransposed", info.k_transposed) +
           constant("kNanToZero", info.nan_to_zero) +
           constant("kUnseenToZero", info.unseen_to_zero || info.nan_to_zero || info.has_sinks) +
           constant("kHides", mask == 2 || info.hidden != HiddenKeys::Added) +
           constant("kLeavesOut", mask == 2 || info.hidden == HiddenKeys::Absent) + constant("kVector", kind.vector) +
           kArguments;
}

}  // namespace

std::string AttentionKind::key() const {
    return std::to_string(values) + '/' + std::to_string(key_lanes) + (wide ? "w" : "n") + (vector ? "v" : "s");
}

AttentionWords::AttentionWords(AttentionShape const& s)
    : batch(s.batch),
      heads(s.heads),
      kv_heads(s.kv_heads),
      queries(s.queries),
      keys(s.keys),
      depth(s.depth),
      value_depth(s.value_depth),
      q(s.q),
      k(s.k),
      v(s.v),
      y(s.y) {
    for (int i = 0; i < 4; ++i) mask_step[i] = s.mask_step[i];
}

std::string tiled_attention_source(AttentionKind const& kind) {
    return std::string(kPrelude) + kArgumentSource + kElementSource + kTileSource + beginning(kind) + kAttentionTiles;
}

std::string row_attention_source(AttentionKind const& kind) {
    return std::string(kPrelude) + kArgumentSource + kElementSource + beginning(kind) + kAttentionRows;
}

}  // namespace refactor::kernel::cuda
