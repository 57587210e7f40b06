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
           kCachedAttention;
}

}  // namespace refactor::kernel::cuda
