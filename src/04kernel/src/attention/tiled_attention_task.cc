#include "attention/tiled_attention_task.h"

#include "attention/attention_row.h"
#include "attention/shown_keys.h"
#include "common/cpu_features.h"
#include "common/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace refactor::kernel {
namespace {

/// Rows (queries of all heads that share keys) of a block; a multiple of the register tile.
constexpr int64_t kMostRows = 48;
/// Rows that share a block of packed keys and values, unless one thread has them all: packing costs as much as 4 rows
/// of products, more where keys come from memory.
constexpr int64_t kMostSharing = 8 * kMostRows;
/// The same where products are by tiles (AMX) of 16 rows, two at a time.
constexpr int64_t kMostTileRows = 64, kTile = 16, kTileRows = 2 * kTile;

/// Floats of a cache line: rows of scores a power of two apart would meet in few sets of L1.
constexpr int64_t kLine = 16;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

class TiledAttention final : public runtime::Task {
    AttentionFunctions functions_;
    AttentionInfo info_;
    AttentionShape shape_;
    NarrowAttention narrow_;
    ShownKeys shown_keys_;
    int64_t heads_, rows_;         // of a set: heads that share K, and their queries
    int64_t q_step_, y_step_;      // between rows of a set
    int64_t result_step_;          // between rows of results so far
    int64_t sets_, part_, parts_;  // rows of a part of a set, parts of each set
    int64_t block_, keys_;         // rows and keys that are worked on at a time
    int64_t score_step_;           // between rows of scores
    int64_t query_step_;           // between rows of rounded queries
    int64_t scores_floats_;        // of a block of scores
    int64_t keys_floats_;          // of packed keys
    int64_t queries_floats_;       // of rounded queries, 0 if they are not
    int64_t results_floats_;       // of results so far, 0 if they are made in Y
    size_t state_bytes_, packed_bytes_;
    int threads_;
    bool leaves_out_;  ///< keys that some rows see and others do not

    /// A part, then a block of its rows.
    struct Place {
        void const *q, *k, *v, *mask;
        void* y;
        float* results;       // so far
        int64_t batch, head;  // first head
        int64_t row, rows;    // within the set
        float *scores, *maxima, *sums, *packed_queries, *packed_keys, *packed_values;
        float* lanes;  // a vector for each row of a block, of which its largest score is one

        MaskedRows masked() const { return {mask, batch, head, row, rows, maxima}; }
    };
    /// So many elements of Q, K or V, or of Y, further on.
    void const* operand_at(void const* p, int64_t elements) const {
        return static_cast<std::byte const*>(p) + elements * (narrow_.qkv ? 2 : 4);
    }
    void* y_at(void* p, int64_t elements) const { return static_cast<std::byte*>(p) + elements * (narrow_.y ? 2 : 4); }
    Place block(Place p, int64_t first, int64_t count) const {
        p.q = operand_at(p.q, first * q_step_), p.y = y_at(p.y, first * y_step_), p.row += first, p.rows = count;
        p.results += first * result_step_, p.maxima += first, p.sums += first;
        p.packed_queries += first * query_step_;
        return p;
    }

    bool reads_in_place(Place const& p) const { return p.rows <= kFewRows && !narrow_.qkv; }
    void const* keys_from(Place const& p, int64_t first) const {
        return operand_at(p.k, first * (info_.k_transposed ? 1 : shape_.k.row));
    }
    void const* values_from(Place const& p, int64_t first) const { return operand_at(p.v, first * shape_.v.row); }

    ProductFunctions const& packed_product() const {
        return functions_.rounded ? functions_.rounded->product : functions_.product;
    }
    bool has_tiles() const { return packed_product().tiles.multiply; }
    /// Whether so many rows are multiplied with what is packed by tiles.
    bool takes_tiles(int64_t rows) const { return has_tiles() && rows > kFewRows; }
    /// Steps of a sum over `n`.
    int64_t steps_of(int64_t n) const { return functions_.rounded ? pairs_of(n) : n; }
    void pack(Place const& p, int64_t first, int64_t count) const {
        auto pack_both = [&]<class T>(void (*into_panels)(float*, T const*, int64_t, bool, int64_t, int64_t)) {
            into_panels(p.packed_keys, static_cast<T const*>(keys_from(p, first)), shape_.k.row, !info_.k_transposed,
                        count, shape_.depth);
            into_panels(p.packed_values, static_cast<T const*>(values_from(p, first)), shape_.v.row, false,
                        shape_.value_depth, count);
        };
        if (narrow_.qkv)
            pack_both(functions_.rounded->pack_narrow);
        else
            pack_both(packed_product().pack);
    }
    void multiply(Place const& p, ProductBlock t, bool in_place) const {
        bool tiles = t.in_rows = !in_place && takes_tiles(p.rows);
        if (!in_place) t.k = steps_of(t.k);
        t.block_k = std::max<int64_t>(1, t.k);
        auto const& product = in_place ? functions_.product : packed_product();
        (tiles ? product.tiles.multiply : product.multiply)(t);
    }

    void multiply_keys(Place const& p, int64_t first, int64_t count, bool in_place) const {
        ProductBlock t{};
        t.m = p.rows, t.n = count, t.k = shape_.depth;
        t.a = static_cast<float const*>(p.q), t.a_row = q_step_, t.a_k = 1;
        t.b = in_place ? static_cast<float const*>(keys_from(p, first)) : p.packed_keys, t.b_row = shape_.k.row;
        t.source = in_place ? ProductSource::Rows : ProductSource::Packed;
        t.y = p.scores, t.y_row = score_step_, t.alpha = info_.scale > 0 ? 1 : info_.scale;
        t.near = true, t.block_m = p.rows, t.room_in_y = true;
        if (finds_maxima(p, in_place)) t.maxima = p.lanes, std::fill_n(p.lanes, p.rows * kLine, -INFINITY);
        if (rounds(in_place)) t.a = p.packed_queries, t.a_row = query_step_;
        if (in_place && !info_.k_transposed)
            functions_.product.multiply_dots(t);
        else
            multiply(p, t, in_place);
    }
    /// Whether products are of pairs.
    bool rounds(bool in_place) const { return functions_.rounded && !in_place; }
    /// Whether tiles tell the largest of the scores, which nothing changes and of which all are seen.
    bool finds_maxima(Place const& p, bool in_place) const {
        bool as_they_are = info_.scale > 0 && !(info_.softcap > 0) && !info_.has_mask && !info_.causal;
        return as_they_are && !in_place && takes_tiles(p.rows);
    }
    /// The first `seen` of the `count` values from `first`; `adds`: to what is there.
    void multiply_values(Place const& p, int64_t first, int64_t count, int64_t seen, bool in_place, bool adds) const {
        ProductBlock t{};
        t.m = p.rows, t.n = shape_.value_depth, t.k = seen;
        t.a = p.scores, t.a_row = score_step_, t.a_k = 1;
        t.b = in_place ? static_cast<float const*>(values_from(p, first)) : p.packed_values, t.b_row = shape_.v.row;
        t.panel_rows = steps_of(count);
        t.source = in_place ? ProductSource::Rows : ProductSource::Packed;
        t.y = p.results, t.y_row = result_step_, t.alpha = 1;
        t.residual = adds ? p.results : nullptr;
        t.near = true, t.block_m = p.rows;
        multiply(p, t, in_place);
    }
    void update_scores(Place const& p, int64_t first, int64_t count, bool in_place, bool adds) const {
        auto const key_step = shape_.mask_step[3];
        auto head = p.head + p.row / shape_.queries, query = p.row % shape_.queries;
        ScoreRows r{};
        r.step = score_step_, r.scale = info_.scale > 0 ? info_.scale : 1, r.softcap = info_.softcap;
        r.count = count, r.one_mask = key_step == 0, r.hides = shape_.hides(info_), r.y_step = result_step_,
        r.value_depth = shape_.value_depth;
        for (int64_t i = 0; i < p.rows; i += kScoreRows) {
            r.rows = static_cast<int>(std::min<int64_t>(kScoreRows, p.rows - i));
            r.scores = p.scores + i * score_step_, r.maxima = p.maxima + i, r.sums = p.sums + i;
            r.lanes = finds_maxima(p, in_place) ? p.lanes + i * kLine : nullptr;
            r.y = adds ? p.results + i * result_step_ : nullptr;
            for (int n = 0; n < r.rows; ++n) {
                r.visible[n] = std::max<int64_t>(0, std::min(count, shape_.visible(info_, query) - first));
                auto at = shape_.mask_at(p.batch, head, query) + first * key_step;
                if (p.mask && shape_.bool_mask)
                    r.allowed[n] = static_cast<unsigned char const*>(p.mask) + at;
                else if (p.mask)
                    r.mask[n] = static_cast<float const*>(p.mask) + at;
                if (++query == shape_.queries) query = 0, ++head;
            }
            (rounds(in_place) ? functions_.scores.update_to_pairs : functions_.scores.update)(r);
        }
    }
    /// The last key that any of the rows may see.
    int64_t end_of_keys(Place const& p) const {
        auto query = p.row % shape_.queries;
        return shape_.visible(info_, query + p.rows > shape_.queries ? shape_.queries - 1 : query + p.rows - 1);
    }
    Place place(void* const* arguments, int64_t task, std::byte* workspace) const {
        Place p;
        auto set = task / parts_, sets_of_batch = shape_.heads / heads_;
        p.row = task % parts_ * part_, p.rows = std::min(part_, rows_ - p.row);
        p.batch = set / sets_of_batch, p.head = set % sets_of_batch * heads_;
        auto kv = p.head / (shape_.heads / shape_.kv_heads);
        p.q = operand_at(arguments[0], shape_.q.at(p.batch, p.head) + p.row * q_step_);
        p.k = operand_at(arguments[1], shape_.k.at(p.batch, kv));
        p.v = operand_at(arguments[2], shape_.v.at(p.batch, kv));
        p.mask = info_.has_mask ? arguments[3] : nullptr;
        p.y = y_at(arguments[3 + info_.has_mask + info_.has_sinks], shape_.y.at(p.batch, p.head) + p.row * y_step_);
        p.scores = reinterpret_cast<float*>(workspace);
        p.lanes = p.scores + scores_floats_;
        p.maxima = p.lanes + block_ * kLine, p.sums = p.maxima + part_;
        p.packed_queries = reinterpret_cast<float*>(workspace + state_bytes_);
        p.packed_keys = p.packed_queries + queries_floats_;
        p.packed_values = p.packed_keys + keys_floats_;
        p.results =
            narrow_.y ? reinterpret_cast<float*>(workspace + state_bytes_ + packed_bytes_) : static_cast<float*>(p.y);
        return p;
    }
    void begin(Place const& p, float const* sinks, bool any_keys) const {
        for (int64_t i = 0; i < p.rows; ++i) {
            p.maxima[i] = sinks ? sinks[p.head + (p.row + i) / shape_.queries] : -INFINITY;
            p.sums[i] = p.maxima[i] == -INFINITY || !any_keys ? 0 : 1;
        }
    }
    /// Zeros follow up to whole steps of tiles.
    void round_queries(Place const& p) const {
        if (2 * query_step_ > shape_.depth) std::fill_n(p.packed_queries, p.rows * query_step_, 0.f);
        if (!narrow_.qkv)
            return functions_.rounded->round_rows(static_cast<float const*>(p.q), q_step_, p.rows, shape_.depth,
                                                  p.packed_queries, query_step_);
        for (int64_t i = 0; i < p.rows; ++i)
            std::memcpy(p.packed_queries + i * query_step_, operand_at(p.q, i * q_step_),
                        static_cast<size_t>(shape_.depth) * sizeof(uint16_t));
    }
    void run_part(void* const* arguments, int64_t task, std::byte* workspace) const {
        auto p = place(arguments, task, workspace);
        auto end = end_of_keys(p);
        auto in_place = reads_in_place(p);
        bool adds = false;  // from the second block of keys that is not hidden on
        if (rounds(in_place)) round_queries(p);
        begin(p, info_.has_sinks ? static_cast<float const*>(arguments[3 + info_.has_mask]) : nullptr, end > 0);
        for (int64_t first = 0; first < end; first += keys_) {
            auto count = std::min(keys_, end - first);
            bool is_last = first + count == end;
            if ((adds || !is_last) && shown_keys_.hides_all(p.masked(), first, count)) continue;
            if (!in_place) pack(p, first, count);
            for (int64_t row = 0; row < p.rows; row += block_) {
                auto b = block(p, row, std::min(block_, p.rows - row));
                auto seen = std::min(count, end_of_keys(b) - first);
                if (seen > 0) seen = shown_keys_.shown(b.masked(), first, seen);
                if (adds && seen <= 0) continue;
                seen = std::max<int64_t>(1, seen);
                multiply_keys(b, first, std::min(count, round_up(seen, functions_.product.panel)), in_place);
                update_scores(b, first, seen, in_place, adds);
                multiply_values(b, first, count, seen, in_place, adds);
            }
            adds = true;
        }
        finish(p, arguments);
    }
    /// Values that are not finite reach rows that do not see them: such rows are computed again, one by one.
    void finish(Place const& p, void* const* arguments) const {
        auto of_nan = info_.nan_to_zero ? 0 : NAN;
        auto unseen = info_.unseen_to_zero || info_.has_sinks ? 0 : of_nan;
        for (int64_t i = 0; i < p.rows; ++i) {
            auto* result = p.results + i * result_step_;
            if (!functions_.scores.divide(result, shape_.value_depth, p.sums[i], unseen, of_nan) && leaves_out_)
                compute_again(p, arguments, p.row + i, result);
            if (narrow_.y)
                functions_.rounded->narrow(result, shape_.value_depth, static_cast<uint16_t*>(y_at(p.y, i * y_step_)));
        }
    }
    void compute_again(Place const& p, void* const* arguments, int64_t row, float* result) const {
        auto head = p.head + row / shape_.queries, query = row % shape_.queries;
        auto by_definition = [&]<class T>(std::type_identity<T>) {
            AttentionRow<T, float>(info_, shape_, DataType::F32, arguments, p.batch, head, query, result)
                .compute(reinterpret_cast<double*>(p.scores));
        };
        if (narrow_.qkv)
            by_definition(std::type_identity<BF16>{});
        else
            by_definition(std::type_identity<float>{});
    }
    /// All heads that share K, if their rows are evenly apart; else one head.
    void choose_sets() {
        auto even = [&](AttentionPlace const& p) { return p.head == shape_.queries * p.row; };
        bool one_query = shape_.queries == 1, all = one_query || (even(shape_.q) && even(shape_.y));
        heads_ = all ? shape_.heads / shape_.kv_heads : 1, rows_ = heads_ * shape_.queries;
        q_step_ = one_query ? shape_.q.head : shape_.q.row, y_step_ = one_query ? shape_.y.head : shape_.y.row;
        sets_ = shape_.batch * (shape_.heads / heads_);
    }
    /// Parts of each set: enough for all threads, but not so small that packing keys shows. One thread takes as many
    /// rows as L2 has room for their queries and results.
    int64_t choose_parts() const {
        auto floats = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
        auto held = floats / std::max<int64_t>(1, shape_.depth + shape_.value_depth);
        auto most = threads_ > 1 ? kMostSharing : std::max(kMostSharing, held);
        auto parts = std::max<int64_t>(1, ceil_div(rows_, most));
        auto sets = std::max<int64_t>(1, sets_);
        if (threads_ > 1 && sets * parts < 2 * threads_)
            parts = std::max(
                parts, std::min(ceil_div(2 * threads_, sets), ceil_div(rows_, rows_ <= kFewRows ? 6 : kMostRows / 4)));
        return parts;
    }

    /// Of a block. Tiles gain by many, as long as scores, packed keys and values take half of L2.
    int64_t choose_keys() const {
        auto keys = std::max<int64_t>(1, shape_.keys);
        if (!has_tiles() || rows_ <= kFewRows) return std::min(kScoreKeys, round_up(keys, 16));
        auto bytes = 4 * kMostTileRows + 2 * (shape_.depth + shape_.value_depth),
             panel = int64_t{packed_product().panel};
        auto most = std::clamp(static_cast<int64_t>(cpu_features().l2) / 2 / bytes, kScoreKeys, kMostScoreKeys);
        return round_up(ceil_div(keys, ceil_div(keys, most / panel * panel)), panel);
    }
    int64_t choose_block(int64_t rows) const {
        auto most = has_tiles() ? kMostTileRows : kMostRows;
        auto block = round_up(ceil_div(part_, ceil_div(part_, most)), rows);
        // Few rows at the end would be multiplied by vectors, with keys and values that come from L2 for them alone.
        auto leaves_few = [&](int64_t left) { return left > 0 && left <= kFewRows; };
        while (has_tiles() && block < part_ && leaves_few(std::min(part_, rows_) % block)) block += kTile;
        return block;
    }

public:
    TiledAttention(AttentionFunctions const& functions, AttentionInfo const& info, AttentionShape const& shape,
                   NarrowAttention narrow, int threads)
        : functions_(functions),
          info_(info),
          shape_(shape),
          narrow_(narrow),
          shown_keys_(functions.scores, shape),
          threads_(std::max(1, threads)),
          leaves_out_(info.causal || shape.leaves_out(info)) {
        choose_sets();
        keys_ = choose_keys();
        auto rows = has_tiles() && rows_ > kTileRows ? kTileRows : 6;
        part_ = round_up(std::max<int64_t>(1, ceil_div(rows_, choose_parts())), rows), parts_ = ceil_div(rows_, part_);
        block_ = choose_block(rows);
        score_step_ = keys_ + kLine;
        // Whole tiles. A row that is computed again has a weight of f64 for each key.
        scores_floats_ = std::max(round_up(block_, kTile) * score_step_, leaves_out_ ? 2 * shape.keys : 0);
        state_bytes_ = static_cast<size_t>(round_up((scores_floats_ + block_ * kLine + 2 * part_) * 4, 64));
        query_step_ = round_up(pairs_of(shape.depth), kLine);
        queries_floats_ = functions.rounded ? round_up(part_, kTile) * query_step_ : 0;
        keys_floats_ = steps_of(shape.depth) * round_up(keys_, functions.product.width);
        auto values = steps_of(keys_) * round_up(shape.value_depth, functions.product.width);
        auto floats = queries_floats_ + keys_floats_ + values;
        packed_bytes_ = rows_ <= kFewRows && !narrow.qkv ? 0 : static_cast<size_t>(round_up(floats * 4, 64));
        result_step_ = narrow.y ? round_up(shape.value_depth, kLine) : y_step_;
        results_floats_ = narrow.y ? part_ * result_step_ : 0;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(
            sets_ * parts_, [&](int64_t task, int worker) { run_part(arguments, task, context.scratch_of(worker)); });
    }
    size_t scratch_bytes() const override {
        return state_bytes_ + packed_bytes_ + static_cast<size_t>(results_floats_) * sizeof(float);
    }
    double operations() const override { return shape_.operations(); }
};

}  // namespace

std::unique_ptr<runtime::Task> make_tiled_attention(AttentionFunctions const& functions, AttentionInfo const& info,
                                                    AttentionShape const& shape, NarrowAttention narrow, int threads) {
    return std::make_unique<TiledAttention>(functions, info, shape, narrow, threads);
}

}  // namespace refactor::kernel
