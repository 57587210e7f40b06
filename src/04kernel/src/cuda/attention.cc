#include "attention/attention.h"

#include "cuda/attention_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Multiply-adds a nanosecond of one processor, as in conv.cc; with a row a block they wait for memory.
constexpr double kTiledRate = 0.4 * 128 * 1.7, kRowRate = 8 * 1.7;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string text_of(DataType type) { return std::string(refactor::name_of(type)); }

class AttentionTask final : public runtime::Task {
    Library library_;
    AttentionInfo info_;
    AttentionWords words_;
    void *function_, *join_;
    int64_t blocks_, sum_bytes_;
    double operations_;

    int64_t outputs() const { return words_.batch * words_.heads * words_.queries * words_.value_depth; }

public:
    AttentionTask(Library const& library, AttentionInfo const& info, AttentionWords const& words, void* function,
                  void* join, int64_t blocks, int64_t sum_bytes, double operations)
        : library_(library),
          info_(info),
          words_(words),
          function_(function),
          join_(join),
          blocks_(blocks),
          sum_bytes_(sum_bytes),
          operations_(operations) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (outputs() == 0) return;
        auto words = words_;
        auto address = [&](int number) { return reinterpret_cast<uint64_t>(arguments[number]); };
        int next = 3;
        words.q = address(0), words.k = address(1), words.v = address(2);
        if (info_.has_mask) words.mask = address(next++);
        if (info_.has_sinks) words.sinks = address(next++);
        words.y = address(next);
        words.partial = join_ ? reinterpret_cast<uint64_t>(context.workspace) : 0;
        library_.launch(context.stream, function_, static_cast<uint32_t>(blocks_), 256, &words);
        if (join_) library_.launch(context.stream, join_, walking_blocks(outputs()), 256, &words);
    }
    size_t workspace_bytes() const override {
        if (!join_) return 0;
        auto rows = words_.batch * words_.heads * words_.queries;
        return static_cast<size_t>(rows * words_.splits * (words_.value_depth + 2) * sum_bytes_);
    }
    double operations() const override { return operations_; }
};

/// Blocks of a tile of queries, or of one query and a part of its keys.
class AttentionKernel final : public Kernel {
    AttentionKind kind_;
    bool tiled_;
    Library library_;
    mutable FunctionCache functions_;

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
        : kind_(kind), tiled_(tiled), library_(library) {}

    std::string id() const override { return id_of("attention", tiled_ ? "tiled" : "split_keys", kind_.dtype); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        AttentionWords words(*shape);
        auto waves = static_cast<double>(quotient_up(std::max<int64_t>(1, cut(words)), kProcessors));
        auto depth = static_cast<double>(words.depth + words.value_depth);
        if (tiled_) return waves * kAttentionQueries * static_cast<double>(words.keys) * depth / kTiledRate;
        return waves * static_cast<double>(words.keys_each) * depth / kRowRate;
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto shape = shape_of(args);
        if (!shape) return Err{shape.error()};
        AttentionWords words(*shape);
        auto blocks = cut(words);
        if (blocks > (int64_t(1) << 31) - 1) return Err{Rejection{std::to_string(blocks) + " blocks of threads"}};
        auto kind = kind_;
        auto largest = args.outputs[0]->count();
        for (auto const* input : args.inputs)
            if (input) largest = std::max(largest, input->count());
        kind.wide = largest >= int64_t(1) << 30;
        kind.values = static_cast<int>(tiled_ ? (words.value_depth > 64 ? 128 : 64)
                                              : std::max<int64_t>(1, quotient_up(words.value_depth, 256)));
        kind.vector = words.depth % 4 == 0;
        auto write = [&] { return tiled_ ? tiled_attention_source(kind) : row_attention_source(kind); };
        auto key = kind.key();
        auto* function = functions_.get(library_, key, "rg_attention", write);
        auto* join = words.splits > 1 ? functions_.get(library_, key, "rg_attention_join", write) : nullptr;
        return std::unique_ptr<runtime::Task>(
            std::make_unique<AttentionTask>(library_, kind.info, words, function, join, blocks,
                                            kind.dtype == DataType::F64 ? 8 : 4, shape->operations()));
    }
};

MaybeKernel make(AttentionInfo const& info, Request const& request, bool tiled) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
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
