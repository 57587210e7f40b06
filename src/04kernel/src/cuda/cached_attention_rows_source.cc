#include "cuda/cached_attention_source.h"

namespace refactor::kernel::cuda {

char const* const kCachedAttention = R"cuda(
// One block for each processor: no register is saved for others.
#undef RG_GLOBAL
#define RG_GLOBAL extern "C" __global__ void __launch_bounds__(256, 1)
constexpr int kEntries = kStep + kKeyRows;
struct Shared { Sum scores[kEntries], weights[kEntries], totals[8], values[256 * kRun]; };
typedef rg_raw<rg_vec<Mask, 1>> RawMask;

RG_FN RawMask fetch_mask(rg_attention_args const& a, Index head, int query, int key, bool there) {
    RawMask raw = {};
    if (kMask && there) raw = *(RawMask const*)mask_at(a, head, query, key);
    return raw;
}
RG_FN Sum score_of(Sum sum, RawMask raw) { return masked_by(sum, kMask ? mask_value(rg_taken<rg_vec<Mask, 1>>(raw).v[0]) : Sum(0)); }

// The product with q of what a thread has of a row, which it also writes to a present cache.
template <class T, int kSlots>
RG_FN Sum product(Words<T, kSlots, kPieces> const& keys, int slot, Sum const (&q)[kPieces][kRun], Present* rows, Index row, bool writes) {
    const int lane = threadIdx.x % kLanes;
    Sum sum = Sum(0);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
        Word<T> word = keys.taken(slot, p);
        if (writes && lane + p * 32 < kKeyWords) keep<kKeyWords>(rows, row, lane + p * 32, word);
#pragma unroll
        for (int e = 0; e < kRun; ++e) sum = rg_mad(q[p][e], (Sum)rg_load(word.v[e]), sum);
    }
    return sum;
}
// Scores become weights. Returns by how much what was added up before shrinks, as `sum` does here.
RG_FN Sum weigh(Shared& shared, int entries, Sum& maximum, Sum& sum) {
    const int thread = threadIdx.x;
    Sum top = maximum, part = Sum(0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (kEntries + 31) / 32; ++i) {
        const int entry = thread % 32 + i * 32;
        const Sum each = entry < entries ? shared.scores[entry] : lowest();
        top = each > top ? each : top;
    }
    top = largest(top);
#pragma unroll
    for (int i = 0; i < (kEntries + 255) / 256; ++i)
        if (const int entry = thread + i * 256; entry < entries) {
            const Sum weight = weight_of(shared.scores[entry], top);
            shared.weights[entry] = weight;
            part += weight;
        }
    part = total(part);
    if (thread % 32 == 0) shared.totals[thread / 32] = part;
    const Sum factor = shrink(maximum, top);
    maximum = top;
    __syncthreads();
    sum *= factor;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) sum += shared.totals[warp];
    return factor;
}
// Adds values to columns; those that are not seen count for nothing, whatever they are.
template <class T, int kSlots>
RG_FN void add(Words<T, kSlots, 1> const& values, Sum (&columns)[kRun], Sum const* weights, int row, int count, int seen) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
        const int at = row + i * kValueRows;
        const Sum weight = at < count ? weights[at] : Sum(0);
        Word<T> word = values.taken(i, 0);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
            const Sum sum = rg_mad(weight, (Sum)rg_load(word.v[e]), columns[e]);
            columns[e] = !kCausal || at < seen ? sum : columns[e];
        }
    }
}
template <class T, int kSlots> RG_FN void keep_values(Words<T, kSlots, 1> const& values, Present* rows, int row, int count) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
        if (row + i * kValueRows < count)
            keep<kValueWords>(rows, row + i * kValueRows, (int)(threadIdx.x % kValueWords), values.taken(i, 0));
}

// Keys of the past, then, in the step that begins a query's last part, the new ones behind them. All loads of a step are
// under way before the first is used, and those of the next one as soon as their registers are free.
RG_GLOBAL rg_attention(RG_ARGUMENT rg_attention_args a) {
    RG_WAIT();
    __shared__ Shared shared;
    const int thread = threadIdx.x, lane = thread % kLanes;
    const Index row = divided(blockIdx.x, (Index)a.splits), head = divided(row, (Index)a.queries), kv = head / kGroup;
    const int split = blockIdx.x - row * (Index)a.splits, query = row - head * (Index)a.queries;
    const int past = a.past, keys = a.keys, seen = visible(a, query);
    const bool writes = query == (int)a.queries - 1 && head % kGroup == 0;
    const int begin = split * (int)a.keys_each, end = begin + (int)a.keys_each < past ? begin + (int)a.keys_each : past;
    const int fresh = split == (int)a.splits - 1 ? keys - past : 0;
    const int key_row = thread / kLanes, own = key_row + owned<kKeySlots>(lane) * kKeyRows;
    const int value_row = thread / kValueWords, value_word = thread % kValueWords;
    Past const* past_k = (Past const*)a.k + kv * past * kKeyWidth;
    Past const* past_v = (Past const*)a.v + kv * past * kValueWidth;
    Present* present_k = (Present*)a.present_k + kv * keys * kKeyWidth;
    Present* present_v = (Present*)a.present_v + kv * keys * kValueWidth;

    Words<Element, 1, kPieces> raw_q;
    Words<Past, kKeySlots, kPieces> past_keys;
    Words<Fresh, 1, kPieces> fresh_keys;
    Words<Past, kValueSlots, 1> past_values;
    Words<Fresh, kValueFresh, 1> fresh_values;
    auto fetch_keys = [&](int first) {
        past_keys.template fetch<kKeyWords>(past_k + first * (Index)kKeyWidth, key_row, kKeyRows, end - first, lane);
    };
    auto fetch_values = [&](int first) {
        const int count = end - first < kStep ? end - first : kStep;
        past_values.template fetch<kValueWords>(past_v + first * (Index)kValueWidth, value_row, kValueRows,
                                                value_row < kValueRows ? count : 0, value_word);
    };
    raw_q.template fetch<kKeyWords>((Element const*)a.q + begin_of(a, a.at_q, head, 1) + query * (Index)a.at_q.row, 0, 1, 1, lane);
    fetch_keys(begin);
    fresh_keys.template fetch<kKeyWords>((Fresh const*)a.fresh_k + kv * (keys - past) * kKeyWidth, key_row, kKeyRows, fresh, lane);
    RawMask mask = fetch_mask(a, head, query, begin + own, begin + own < end);
    RawMask fresh_mask = fetch_mask(a, head, query, past + key_row, key_row < fresh);
    fetch_values(begin);
    fresh_values.template fetch<kValueWords>((Fresh const*)a.fresh_v + kv * (keys - past) * kValueWidth, value_row, kValueRows,
                                             value_row < kValueRows ? fresh : 0, value_word);
    Sum q[kPieces][kRun];
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
#pragma unroll
        for (int e = 0; e < kRun; ++e) q[p][e] = rg_load(raw_q.taken(0, p).v[e]);
    Sum maximum = lowest(), sum = Sum(0), columns[kRun] = {};
    for (int first = begin;; first += kStep) {
        const int count = end - first < kStep ? end - first : kStep, next = first + kStep;
        const bool joins = fresh > 0 && first == begin;
        Sum sums[kKeySlots];
#pragma unroll
        for (int i = 0; i < kKeySlots; ++i) {
            const int at = key_row + i * kKeyRows;
            sums[i] = product(past_keys, i, q, present_k, first + at, writes && at < count);
        }
        const Sum score = over_lanes(owned_sum(sums, lane), kKeySlots);
        if (lane < kKeySlots)
            shared.scores[own] = own < count && first + own < seen ? score_of(score, mask) : lowest();
        if (joins) {
            const Sum last = over_lanes(product(fresh_keys, 0, q, present_k, past + key_row, writes && key_row < fresh), 1);
            if (lane == 0)
                shared.scores[kStep + key_row] = key_row < fresh && past + key_row < seen ? score_of(last, fresh_mask) : lowest();
        }
        if (next < end) {
            fetch_keys(next);
            mask = fetch_mask(a, head, query, next + own, next + own < end);
        }
        const Sum factor = weigh(shared, joins ? kEntries : kStep, maximum, sum);
#pragma unroll
        for (int e = 0; e < kRun; ++e) columns[e] *= factor;
        add(past_values, columns, shared.weights, value_row, value_row < kValueRows ? count : 0, seen - first);
        if (writes)
            keep_values(past_values, present_v + first * (Index)kValueWidth, value_row, value_row < kValueRows ? count : 0);
        if (joins) {
            add(fresh_values, columns, shared.weights + kStep, value_row, value_row < kValueRows ? fresh : 0, seen - past);
            if (writes)
                keep_values(fresh_values, present_v + past * (Index)kValueWidth, value_row, value_row < kValueRows ? fresh : 0);
        }
        if (next >= end) break;
        fetch_values(next);
    }
    if (split == 0 && kSinks && sink_of(a, head) != lowest()) {
        Sum sink = sink_of(a, head), top = sink > maximum ? sink : maximum, factor = shrink(maximum, top);
        sum = sum * factor + m_exp(sink - top), maximum = top;
        for (int e = 0; e < kRun; ++e) columns[e] *= factor;
    }
    if (value_row < kValueRows)
#pragma unroll
        for (int e = 0; e < kRun; ++e) shared.values[thread * kRun + e] = columns[e];
    __syncthreads();
    Sum* partial = (Sum*)a.partial + (row * (Index)a.splits + split) * (kValueWidth + 2);
    Element* y = (Element*)a.y + begin_of(a, a.at_y, head, 1) + query * (Index)a.at_y.row;
    for (int column = thread; column < kValueWidth; column += 256) {
        Sum value = Sum(0);
#pragma unroll
        for (int i = 0; i < kValueRows; ++i) value += shared.values[column + i * kValueWidth];
        if (a.splits == 1)
            rg_store(y[column], quotient(a, value, sum, head, query, column));
        else
            partial[column] = value;
    }
    if (a.splits > 1 && thread < 2) partial[kValueWidth + thread] = thread ? sum : maximum;
}
)cuda";

}  // namespace refactor::kernel::cuda
