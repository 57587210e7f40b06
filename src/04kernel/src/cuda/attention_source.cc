#include "cuda/attention_source.h"

#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

char const* const kPlaces = R"cuda(
// The first element of a tensor, and steps from one batch, head and row to the next.
struct rg_place { rg_i64 first, batch, head, row; };
)cuda";

// Behind its addresses.
char const* const kArguments = R"cuda(
    rg_i64 batch, heads, kv_heads, queries, keys, depth, value_depth;
    rg_place at_q, at_k, at_v, at_y;
    rg_i64 mask_step[4];
    rg_i64 query_tiles, value_tiles, splits, keys_each, past;
};
RG_FN Sum lowest() { return (Sum)rg_f32(0xff800000u); }
// Mostly by 1: a division takes as long as a load of what is in the cache.
RG_FN Index divided(Index number, Index by) { return by == Index(1) ? number : number / by; }
RG_FN Index batch_of(rg_attention_args const& a, Index head) { return a.batch == 1 ? Index(0) : head / (Index)a.heads; }
// Where batch and head (one number) begin; `shared` heads are one in the tensor.
RG_FN Index begin_of(rg_attention_args const& a, rg_place const& p, Index head, Index shared) {
    const Index batch = batch_of(a, head);
    return (Index)p.first + batch * (Index)p.batch + divided(head - batch * (Index)a.heads, shared) * (Index)p.head;
}
RG_FN Index kv_begin(rg_attention_args const& a, rg_place const& p, Index head) {
    return begin_of(a, p, head, a.heads == a.kv_heads ? Index(1) : (Index)a.heads / (Index)a.kv_heads);
}
// Keys that a query sees.
RG_FN int visible(rg_attention_args const& a, int query) {
    if (!kCausal) return a.keys;
    int seen = (int)(a.keys - a.queries) + query + 1;
    return seen < 0 ? 0 : seen < (int)a.keys ? seen : (int)a.keys;
}
RG_FN Mask const* mask_at(rg_attention_args const& a, Index head, int query, int key) {
    const Index batch = batch_of(a, head);
    return (Mask const*)a.mask + batch * (Index)a.mask_step[0] + (head - batch * (Index)a.heads) * (Index)a.mask_step[1] +
           query * (Index)a.mask_step[2] + key * (Index)a.mask_step[3];
}
RG_FN Sum mask_value(unsigned char x) { return x ? Sum(0) : lowest(); }
template <class T> RG_FN Sum mask_value(T x) { return (Sum)rg_load(x); }
RG_FN Sum mask_of(rg_attention_args const& a, Index head, int query, int key) {
    return mask_value(*mask_at(a, head, query, key));
}
RG_FN bool hides(Sum mask) { return mask <= (Sum)kHiddenBelow; }
RG_FN Sum masked_by(Sum score, Sum mask) {
    score *= (Sum)kScale;
    if (kSoftcap > 0) score = (Sum)kSoftcap * m_tanh(score / (Sum)kSoftcap);
    if (kMask == 0) return score;
    return kHides && hides(mask) ? mask : score + mask;
}
RG_FN Sum masked(rg_attention_args const& a, Sum score, Index head, int query, int key) {
    return masked_by(score, kMask ? mask_of(a, head, query, key) : Sum(0));
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
)cuda";

char const* const kOperands = R"cuda(
RG_FN Sum key_of(rg_attention_args const& a, Index head, int key, int d) {
    const int row = kKeysTransposed ? d : key, column = kKeysTransposed ? key : d;
    return (Sum)rg_load(((Element const*)a.k)[kv_begin(a, a.at_k, head) + row * (Index)a.at_k.row + column]);
}
RG_FN Sum value_of(rg_attention_args const& a, Index head, int key, int column) {
    return (Sum)rg_load(((Element const*)a.v)[kv_begin(a, a.at_v, head) + key * (Index)a.at_v.row + column]);
}
)cuda";

char const* const kDefinition = R"cuda(
// An element of the result by its definition, in two walks over the keys; seldom called, and not to cost registers.
static __device__ __noinline__ Sum element_of(rg_attention_args const& a, Index head, int query, int column) {
    Element const* q = (Element const*)a.q + begin_of(a, a.at_q, head, 1) + query * (Index)a.at_q.row;
    const int seen = visible(a, query);
    Sum top = sink_of(a, head), sum = Sum(0), value = Sum(0);
    for (int walk = 0; walk < 2; ++walk) {
        if (walk == 1) sum = weight_of(sink_of(a, head), top);
        for (int key = 0; key < seen; ++key) {
            Sum score = Sum(0);
            for (int d = 0; d < (int)a.depth; ++d)
                score = rg_mad((Sum)rg_load(q[d]), key_of(a, head, key, d), score);
            score = masked(a, score, head, query, key);
            if (walk == 0) {
                top = score > top ? score : top;
                continue;
            }
            Sum weight = weight_of(score, top);
            sum += weight;
            if (weight != Sum(0) || kMask == 0 || !kLeavesOut || !hides(mask_of(a, head, query, key)))
                value = rg_mad(weight, value_of(a, head, key, column), value);
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

}  // namespace

std::string attention_beginning(AttentionKind const& kind, char const* addresses, char const* operands) {
    auto const& info = kind.info;
    auto mask = kind.mask == DataType::Undefined ? 0 : kind.mask == DataType::Bool ? 2 : 1;
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, "constexpr double kScale = %.17g, kSoftcap = %.17g, kHiddenBelow = %.17g;\n",
                  static_cast<double>(info.scale), static_cast<double>(info.softcap),
                  static_cast<double>(kHiddenBelow));
    return std::string("typedef ") + element_text(kind.dtype) + " Element;\ntypedef " + sum_text(kind.dtype) +
           " Sum;\ntypedef " +
           (mask == 2   ? "unsigned char"
            : mask == 1 ? element_text(kind.mask)
                        : "float") +
           " Mask;\ntypedef " + (kind.wide ? "rg_i64" : "int") +
           " Index;\nconstexpr int kMask = " + std::to_string(mask) + ", kValues = " + std::to_string(kind.values) +
           ", kMostDepth = " + std::to_string(kMostDepth) + ", kKeyLanes = " + std::to_string(kind.key_lanes) + ";\n" +
           numbers + constant("kCausal", info.causal) + constant("kSinks", info.has_sinks) +
           constant("kKeysTransposed", info.k_transposed) + constant("kNanToZero", info.nan_to_zero) +
           constant("kUnseenToZero", info.unseen_to_zero || info.nan_to_zero || info.has_sinks) +
           constant("kHides", mask == 2 || info.hidden != HiddenKeys::Added) +
           constant("kLeavesOut", mask == 2 || info.hidden == HiddenKeys::Absent) + constant("kVector", kind.vector) +
           kPlaces + "struct rg_attention_args {\n    rg_u64 q, k, v, mask, sinks, y, partial" + addresses + ";" +
           kArguments + operands + kDefinition;
}

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
    return std::string(kPrelude) + kArgumentSource + kElementSource + kTileSource +
           attention_beginning(kind, "", kOperands) + kAttentionTiles;
}

std::string row_attention_source(AttentionKind const& kind) {
    return std::string(kPrelude) + kArgumentSource + kElementSource + attention_beginning(kind, "", kOperands) +
           kAttentionJoin + kAttentionRows;
}

}  // namespace refactor::kernel::cuda
