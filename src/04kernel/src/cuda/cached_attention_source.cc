#include "cuda/cached_attention_source.h"

#include "kernel/ops/cache.h"

#include <algorithm>
#include <bit>

namespace refactor::kernel::cuda {

namespace {

char const* const kOperands = R"cuda(
RG_FN Sum cached(rg_attention_args const& a, rg_u64 past, rg_u64 fresh, Index head, int key, Index width, int column) {
    const Index kv = head / kGroup, seen = (Index)a.past;
    if (key < (int)seen) return rg_load(((Past const*)past)[(kv * seen + key) * width + column]);
    return rg_load(((Fresh const*)fresh)[(kv * ((Index)a.keys - seen) + key - seen) * width + column]);
}
RG_FN Sum key_of(rg_attention_args const& a, Index head, int key, int d) {
    return cached(a, a.k, a.fresh_k, head, key, (Index)a.depth, d);
}
RG_FN Sum value_of(rg_attention_args const& a, Index head, int key, int column) {
    return cached(a, a.v, a.fresh_v, head, key, (Index)a.value_depth, column);
}
)cuda";

char const* const kWords = R"cuda(
constexpr int kKeyRows = 256 / kLanes, kStep = kKeySlots * kKeyRows, kValueRows = 256 / kValueWords;
constexpr int kKeyWidth = kKeyWords * kRun, kValueWidth = kValueWords * kRun;
template <class T> using Word = rg_vec<T, kRun>;

// Words of some rows that a thread has under way: nothing waits for them before they are used.
template <class T, int kSlots, int kWide> struct Words {
    rg_raw<Word<T>> raw[kSlots][kWide];
    RG_MEMBER Word<T> taken(int slot, int piece) const { return rg_taken<Word<T>>(raw[slot][piece]); }
    // Every `step`-th row from `row` on, below `count`; of each every 32nd word from `word` on. Zeros for what is not there.
    template <int kRowWords> RG_MEMBER void fetch(T const* rows, int row, int step, int count, int word) {
#pragma unroll
        for (int i = 0; i < kSlots; ++i)
#pragma unroll
            for (int p = 0; p < kWide; ++p) {
                raw[i][p] = {};
                if (row + i * step < count && word + p * 32 < kRowWords)
                    raw[i][p] = ((rg_raw<Word<T>> const*)rows)[(row + i * step) * (Index)kRowWords + word + p * 32];
            }
    }
};
template <class T> RG_FN Word<Present> kept(Word<T> word) {
    Word<Present> result;
#pragma unroll
    for (int e = 0; e < kRun; ++e) rg_store(result.v[e], (float)rg_load(word.v[e]));
    return result;
}
RG_FN Word<Present> kept(Word<Present> word) { return word; }
// Writes a word to the rows of a present cache.
template <int kRowWords, class T> RG_FN void keep(Present* rows, Index row, int word, Word<T> value) {
    Word<Present> converted = kept(value);
    rg_raw<Word<Present>> raw;
    memcpy(&raw, &converted, sizeof raw);
    ((rg_raw<Word<Present>>*)rows)[row * kRowWords + word] = raw;
}

// Of the sums of kRows rows, each of them over the lanes of a key, a lane is left with one: that of row `owned`.
template <int kRows> RG_FN int owned(int lane) {
    int row = 0, bit = 1;
#pragma unroll
    for (int half = kRows / 2; half > 0; half /= 2, bit *= 2) row += lane & bit ? half : 0;
    return row;
}
template <int kRows> RG_FN Sum owned_sum(Sum (&sums)[kRows], int lane) {
    if constexpr (kRows > 1) {
        constexpr int bit = kKeySlots / kRows, half = kRows / 2;
        Sum halves[half];
#pragma unroll
        for (int i = 0; i < half; ++i) {
            Sum mine = lane & bit ? sums[i + half] : sums[i], other = lane & bit ? sums[i] : sums[i + half];
            halves[i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
        }
        return owned_sum(halves, lane);
    } else {
        return sums[0];
    }
}
// Adds up over lanes whose numbers differ in bits from `first` on.
RG_FN Sum over_lanes(Sum sum, int first) {
#pragma unroll
    for (int bit = kLanes / 2; bit > 0; bit /= 2)
        if (bit >= first) sum += __shfl_xor_sync(0xffffffffu, sum, bit);
    return sum;
}
)cuda";

char const* const kKernel = R"cuda(
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
        __syncthreads();

        const int entries = joins ? kEntries : kStep;
        Sum top = maximum, part = Sum(0);
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

std::string number(char const* name, int64_t value) {
    return std::string("constexpr int ") + name + " = " + std::to_string(value) + ";\n";
}

}  // namespace

std::string CacheTile::make(int64_t depth, int64_t value_depth, int64_t run, CacheTile& tile) {
    constexpr int64_t kMostWords = 16;
    auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    auto key_words = depth / run, value_words = value_depth / run, pieces = up(key_words, 32);
    auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(32, key_words))));
    if (key_words == 0 || value_words == 0 || pieces > kMostWords || value_words > 256)
        return "rows of " + std::to_string(key_words) + " and " + std::to_string(value_words) +
               " words, expected 1 to " + std::to_string(32 * kMostWords) + " and 256";
    auto key_rows = 256 / lanes, value_rows = 256 / value_words, slots = int64_t{1};
    while (2 * slots <= lanes && 2 * slots * pieces <= kMostWords && 2 * slots * key_rows <= kMostWords * value_rows)
        slots *= 2;
    auto value_slots = up(slots * key_rows, value_rows);
    if (value_slots > 2 * kMostWords)
        return "rows of " + std::to_string(value_words) + " words of V, for keys of " + std::to_string(key_words);
    auto narrow = [](int64_t value) { return static_cast<int>(value); };
    tile = {narrow(run),    narrow(key_words), narrow(value_words), narrow(lanes),
            narrow(pieces), narrow(slots),     narrow(value_slots), narrow(up(kFewQueries, value_rows))};
    return {};
}

std::string CachedAttentionKind::key() const {
    return std::to_string(tile.run) + '/' + std::to_string(tile.key_words) + '/' + std::to_string(tile.value_words) +
           '/' + std::to_string(group) + (wide ? "w" : "n");
}

std::string cached_attention_source(CachedAttentionKind const& kind) {
    auto const& t = kind.tile;
    auto types = std::string("typedef ") + element_text(kind.past) + " Past;\ntypedef " + element_text(kind.fresh) +
                 " Fresh;\ntypedef " + element_text(kind.present) + " Present;\n";
    auto numbers = number("kRun", t.run) + number("kGroup", kind.group) + number("kKeyWords", t.key_words) +
                   number("kValueWords", t.value_words) + number("kLanes", t.lanes) + number("kPieces", t.pieces) +
                   number("kKeySlots", t.key_slots) + number("kValueSlots", t.value_slots) +
                   number("kValueFresh", t.value_fresh);
    return std::string(kPrelude) + kArgumentSource + kElementSource + types + numbers +
           attention_beginning(kind, ", fresh_k, fresh_v, present_k, present_v", kOperands) + kAttentionJoin + kWords +
           kKernel;
}

}  // namespace refactor::kernel::cuda
