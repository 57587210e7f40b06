#include "attention/attention.h"

#include "cuda/attention_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/rates.h"

#include <algorithm>
#include <bit>

namespace refactor::kernel::cuda {

namespace {

/// Blocks of one query that a processor has.
constexpr int64_t kRowBlocks = 4;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string text_of(DataType type) { return std::string(refactor::name_of(type)); }

/// Blocks of a tile of queries, or of one query and a part of its keys.
class AttentionKernel final : public Kernel {
    AttentionKind kind_;
    bool tiled_;
    FunctionCache functions_;

    /// Cuts the work; returns its blocks.
    int64_t cut(AttentionWords& w) const {
        auto heads = w.batch * w.heads;
        if (tiled_) {
            w.query_tiles = quotient_up(w.queries, kAttentionQueries);
            w.value_tiles = quotient_up(w.value_depth, w.value_depth > 64 ? 128 : 64);
            return heads * w.query_tiles * w.value_tiles;
        }
        auto rows = heads * w.queries, most = std::max<int64_t>(1, quotient_up(w.keys, kRowKeys));
        w.splits = std::clamp<int64_t>(kFillingBlocks / std::max<int64_t>(1, rows), 1, most);
        w.keys_each = quotient_up(quotient_up(w.keys, w.splits), kRowKeys) * kRowKeys;
        w.splits = std::max<int64_t>(1, quotient_up(w.keys, std::max<int64_t>(1, w.keys_each)));
        return rows * w.splits;
    }

    /// How many elements are read at a time: 4 by tiles, 16 bytes by rows.
    void set_vectors(AttentionKind& kind, AttentionWords const& w) const {
        auto run = tiled_ ? 4 : 128 / static_cast<int64_t>(bits_of(kind.dtype));
        auto fits = [&](AttentionPlace const& p) { return (p.first | p.batch | p.head | p.row) % run == 0; };
        bool keys = kind.info.k_transposed || fits(w.k);
        kind.vector = w.depth % run == 0 && keys && (tiled_ ? fits(w.q) : fits(w.v) && w.value_depth % run == 0);
        if (!tiled_ && kind.vector)
            kind.key_lanes =
                static_cast<int>(std::min<uint64_t>(32, std::bit_ceil(static_cast<uint64_t>(w.depth / run))));
    }

    Result<AttentionShape, Rejection> shape_of(BindArgs const& args) const {
        AttentionShape shape;
        if (auto why = shape.init(kind_.info, args); !why.empty()) return Err{Rejection{why}};
        if (!tiled_ && std::max(shape.depth, shape.value_depth) > kMostDepth)
            return Err{Rejection{"a depth of " + std::to_string(std::max(shape.depth, shape.value_depth)) +
                                 ", at most " + std::to_string(kMostDepth)}};
        return shape;
    }

public:
    AttentionKernel(AttentionKind const& kind, bool tiled, Library const& library)
        : kind_(kind), tiled_(tiled), functions_(library) {}

    std::string id() const override { return id_of("attention", tiled_ ? "tiled" : "split_keys", kind_.dtype); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        AttentionWords words(*shape);
        auto blocks = std::max<int64_t>(1, cut(words));
        auto waves = static_cast<double>(quotient_up(blocks, kProcessors));
        auto depth = static_cast<double>(words.depth + words.value_depth);
        if (tiled_)
            return kLaunchTime + waves * kAttentionQueries * static_cast<double>(words.keys) * depth / kTiledRate;
        auto launches = words.splits > 1 ? 2 * kLaunchTime : kLaunchTime;
        auto kind = kind_;
        set_vectors(kind, words);
        auto rate = kind.vector ? kRowRate : kElementRate;
        auto waiting = kRowTime * static_cast<double>(quotient_up(blocks, kProcessors * kRowBlocks));
        return launches + waiting + waves * static_cast<double>(words.keys_each) * depth / rate;
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        AttentionWords words(*shape);
        auto blocks = cut(words);
        if (blocks > kMostGrid) return Err{Rejection{std::to_string(blocks) + " blocks of threads"}};
        auto kind = kind_;
        auto largest = args.outputs[0]->count();
        for (auto const* input : args.inputs)
            if (input) largest = std::max(largest, input->count());
        kind.wide = largest >= int64_t(1) << 30;
        kind.values = static_cast<int>(tiled_ ? (words.value_depth > 64 ? 128 : 64)
                                              : std::max<int64_t>(1, quotient_up(words.value_depth, 256)));
        set_vectors(kind, words);
        auto write = [&] { return tiled_ ? tiled_attention_source(kind) : row_attention_source(kind); };
        auto key = kind.key();
        auto* function = functions_.get("rg_attention", key, write);
        auto* join = words.splits > 1 ? functions_.get("rg_attention_join", key, write) : nullptr;
        // What is absent is not read: any address will do.
        int mask = kind.info.has_mask ? 3 : 0, sinks = kind.info.has_sinks ? 3 + kind.info.has_mask : 0;
        int output = 3 + kind.info.has_mask + kind.info.has_sinks;
        std::vector<Address> addresses{{0}, {1}, {2}, {mask}, {sinks}, {output}, {Address::kWorkspace}};
        std::vector<Launch> launches;
        auto outputs = args.outputs[0]->count();
        if (outputs > 0) launches.push_back({function, static_cast<uint32_t>(blocks), 256, addresses, words_of(words)});
        if (outputs > 0 && join) launches.push_back({join, blocks_for(outputs, 256), 256, addresses, words_of(words)});
        auto parts = words.batch * words.heads * words.queries * words.splits;
        auto bytes = join ? parts * (words.value_depth + 2) * (kind.dtype == DataType::F64 ? 8 : 4) : 0;
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            functions_.library(), std::move(launches), static_cast<size_t>(bytes), 0, shape->operations()));
    }
};

MaybeKernel make(AttentionInfo const& info, Request const& request, bool tiled) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (info.mask_repeats) return Err{Rejection{"masks that repeat are for the CPU"}};
    AttentionKind kind;
    kind.info = info, kind.dtype = request.inputs[0].dtype;
    auto is_known = [](DataType type) { return is_float(type) && element_text(type); };
    if (!is_known(kind.dtype))
        return Err{Rejection{"dtype " + text_of(kind.dtype) + ", expected f32, f64, f16 or bf16"}};
    if (tiled && kind.dtype == DataType::F64) return Err{Rejection{"tiles of f64 exceed the shared memory of a block"}};
    for (size_t i = 0; i < request.inputs.size(); ++i) {
        auto const& input = request.inputs[i];
        if (input.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
        bool is_mask = info.has_mask && i == 3;
        if (is_mask) kind.mask = input.dtype;
        if (is_mask ? input.dtype != DataType::Bool && !is_known(input.dtype) : input.dtype != kind.dtype)
            return Err{Rejection{"input " + std::to_string(i) + " is of " + text_of(input.dtype) + ", expected " +
                                 (is_mask ? "bool or a float" : text_of(kind.dtype))}};
    }
    return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel>(kind, tiled, *library));
}

}  // namespace

MaybeKernel attention_tiled(AttentionInfo const& info, Request const& request) { return make(info, request, true); }
MaybeKernel attention_split_keys(AttentionInfo const& info, Request const& request) {
    return make(info, request, false);
}

}  // namespace refactor::kernel::cuda
