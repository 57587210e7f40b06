#include "attention/cached_attention.h"

#include "cuda/cached_attention_source.h"
#include "cuda/converting.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/rates.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What one launch, and perhaps a second that joins its parts, would do.
struct Cut {
    AttentionWords words;
    CacheTile tile;
    int64_t blocks = 0;

    /// Blocks of one query and a part of the past keys, one for each processor: they keep as much under way as a
    /// processor can.
    Cut(AttentionShape const& shape, int64_t past, CacheTile const& t) : words(shape), tile(t) {
        words.past = past;
        auto rows = words.batch * words.heads * words.queries;
        auto most = std::max<int64_t>(1, quotient_up(past, kRowKeys));
        words.splits = std::clamp<int64_t>(kProcessors / std::max<int64_t>(1, rows), 1, most);
        words.keys_each = quotient_up(quotient_up(past, words.splits), tile.step()) * tile.step();
        words.splits = std::max<int64_t>(1, quotient_up(past, std::max<int64_t>(1, words.keys_each)));
        blocks = rows * words.splits;
    }
};

class CachedAttentionKernel final : public Kernel {
    CachedAttentionKind kind_;
    FunctionCache functions_;

    /// Elements of a word: the places of rows allow them in Q, the depths everywhere else.
    int64_t run_of(AttentionShape const& shape) const {
        int64_t bits = 0;
        for (auto type : {kind_.dtype, kind_.past, kind_.fresh, kind_.present})
            bits = std::max(bits, static_cast<int64_t>(bits_of(type)));
        auto run = 128 / bits;
        auto const& q = shape.q;
        bool fits = (q.first | q.batch | q.head | q.row | shape.depth | shape.value_depth) % run == 0;
        return fits ? run : 1;
    }

    Result<Cut, Rejection> cut(BindArgs const& args, AttentionShape& shape) const {
        JoinedCaches joined(args);
        if (auto why = joined.problem(); !why.empty()) return Err{Rejection{why}};
        if (auto why = shape.init(kind_.info, joined.attention()); !why.empty()) return Err{Rejection{why}};
        auto expected = [&](int64_t depth) { return Dims{shape.batch, shape.kv_heads, shape.keys, depth}; };
        if (joined.k().dims != expected(shape.depth) || joined.v().dims != expected(shape.value_depth))
            return Err{Rejection{"keys and values are a part of the joined caches"}};
        if (args.inputs[JoinedCaches::kPastV]->dims[2] != joined.past_keys())
            return Err{Rejection{"past keys and values differ in number"}};
        if (std::max(shape.queries, joined.new_keys()) > kFewQueries)
            return Err{Rejection{std::to_string(shape.queries) + " queries and " + std::to_string(joined.new_keys()) +
                                 " new keys, at most " + std::to_string(kFewQueries)}};
        CacheTile tile;
        if (auto why = CacheTile::make(shape.depth, shape.value_depth, run_of(shape), tile); !why.empty())
            return Err{Rejection{why}};
        return Cut(shape, joined.past_keys(), tile);
    }

public:
    CachedAttentionKernel(CachedAttentionKind const& kind, Library const& library) : kind_(kind), functions_(library) {}

    std::string id() const override { return id_of("cached_attention", "one_launch", kind_.dtype); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        AttentionShape shape;
        auto cut = this->cut(args, shape);
        if (!cut) return Err{cut.error()};
        auto const& words = cut->words;
        auto waves = static_cast<double>(quotient_up(cut->blocks, kProcessors));
        auto depth = static_cast<double>(words.depth + words.value_depth);
        auto rate = cut->tile.run > 1 ? kRowRate : kElementRate;
        return (words.splits > 1 ? 2 : 1) * kLaunchTime +
               waves * (kRowTime + static_cast<double>(std::min(words.keys_each, words.keys)) * depth / rate) +
               static_cast<double>(JoinedCaches(args).bytes()) / (0.75 * kMemoryRate);
    }

    MaybeTask bind(BindArgs const& args) const override {
        AttentionShape shape;
        auto cut = this->cut(args, shape);
        if (!cut) return Err{cut.error()};
        auto const& words = cut->words;
        if (cut->blocks > kMostGrid) return Err{Rejection{std::to_string(cut->blocks) + " blocks of threads"}};
        auto kind = kind_;
        kind.tile = cut->tile, kind.group = shape.heads / shape.kv_heads;
        auto largest = args.outputs[0]->count();
        for (auto const* list : {&args.inputs, &args.outputs})
            for (auto const* operand : *list) largest = std::max(largest, operand->count());
        kind.wide = largest >= int64_t(1) << 30;
        auto write = [&] { return cached_attention_source(kind); };
        auto* function = functions_.get("rg_attention", kind.key(), write);
        auto* join = words.splits > 1 ? functions_.get("rg_attention_join", kind.key(), write) : nullptr;
        // What is absent is not read: any address will do.
        int mask = kind.info.has_mask ? 5 : 0, sinks = kind.info.has_sinks ? 5 + kind.info.has_mask : 0;
        int output = static_cast<int>(args.inputs.size());
        std::vector<Address> addresses{{0}, {1}, {3},          {mask},      {sinks}, {output}, {Address::kWorkspace},
                                       {2}, {4}, {output + 1}, {output + 2}};
        std::vector<Launch> launches;
        if (cut->blocks > 0)
            launches.push_back({function, static_cast<uint32_t>(cut->blocks), 256, addresses, words_of(words)});
        if (cut->blocks > 0 && join)
            launches.push_back(
                {join, blocks_for(args.outputs[0]->count(), 256), 256, std::move(addresses), words_of(words)});
        auto bytes = join ? cut->blocks * (words.value_depth + 2) * int64_t{sizeof(float)} : 0;
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            functions_.library(), std::move(launches), static_cast<size_t>(bytes), 0, shape.operations()));
    }
};

}  // namespace

MaybeKernel cached_attention_one_launch(CachedAttentionInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto const &in = request.inputs, &out = request.outputs;
    if (info.attention.k_transposed) return Err{Rejection{"a transposed K"}};
    CachedAttentionKind kind;
    kind.info = info.attention, kind.dtype = in[0].dtype;
    kind.past = in[1].dtype, kind.fresh = in[2].dtype, kind.present = out[1].dtype;
    for (auto const* list : {&in, &out})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    for (auto type : {kind.dtype, kind.past, kind.fresh, kind.present})
        if (!converting_number(type))
            return Err{
                Rejection{"an operand of " + std::string(refactor::name_of(type)) + ", expected f32, f16 or bf16"}};
    if (in[3].dtype != kind.past || in[4].dtype != kind.fresh || out[2].dtype != kind.present)
        return Err{Rejection{"keys and values are of different types"}};
    if (kind.info.has_mask) kind.mask = in[5].dtype;
    if (kind.info.has_mask && kind.mask != DataType::Bool && !(is_float(kind.mask) && element_text(kind.mask)))
        return Err{Rejection{"a mask of " + std::string(refactor::name_of(kind.mask)) + ", expected bool or a float"}};
    if (kind.info.has_sinks && in[5 + kind.info.has_mask].dtype != kind.dtype)
        return Err{Rejection{"sinks of another type than Q"}};
    return std::unique_ptr<Kernel>(std::make_unique<CachedAttentionKernel>(kind, *library));
}

}  // namespace refactor::kernel::cuda
