#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/product_source.h"
#include "cuda/rates.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

/// Rows that a thread keeps in registers; with more of them a product no longer waits for memory alone.
constexpr int64_t kMostRows = 8;
/// Partial sums stay in the second-level cache.
constexpr int64_t kMostPartialBytes = int64_t(8) << 20;
/// Of B transposed: warps that keep all processors busy, runs of 16 bytes that a thread has under way, and times that
/// it fetches so many before the inner size is split.
constexpr int64_t kFillingWarps = 16 * kProcessors, kRunsInFlight = 12, kFewestSteps = 4;
/// Nanoseconds in which a block normalises a row, and blocks that a processor has at a time.
constexpr double kNormalizeTime = 400;
constexpr int64_t kBlocksOfAProcessor = 8;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t bytes_of(DataType dtype) { return bits_of(dtype) / 8; }
std::string text_of(DataType type) { return std::string(refactor::name_of(type)); }

class GeneratedProduct final : public Kernel {
    ProductKind kind_;
    bool few_rows_;
    FunctionCache functions_;

    /// Kind and cut of a product with these sizes.
    struct Plan {
        ProductKind kind;
        MatMulShape shape;
        ProductWords words;
        int64_t blocks;
        uint32_t threads;  ///< of a block
    };

    Result<Plan, Rejection> plan(BindArgs const& args) const {
        MatMulShape shape;
        if (auto why = shape.init(kind_.info, args); !why.empty()) return Err{Rejection{why}};
        if (shape.batch.size() > kMostBatchAxes)
            return Err{Rejection{std::to_string(shape.batch.size()) + " leading axes, at most " +
                                 std::to_string(kMostBatchAxes)}};
        if (shape.folds_rows(kind_.info.trans_a)) {
            shape.m *= shape.batches;
            shape.batches = 1, shape.batch.clear();
        }
        if (few_rows_ && shape.m > kMostRows)
            return Err{Rejection{std::to_string(shape.m) + " rows, at most " + std::to_string(kMostRows)}};
        Plan plan{kind_, shape, ProductWords(shape), 0, 256};
        plan.kind.scalar_bias = kind_.info.epilogue.bias && shape.scalar_bias;
        auto largest = std::max(args.outputs[0]->count(), shape.batches * shape.m * shape.n);
        for (auto const* input : args.inputs)
            if (input) largest = std::max(largest, input->count());
        plan.kind.wide = largest >= int64_t(1) << 30;
        few_rows_ ? cut_rows(plan) : cut_tiles(plan);
        if (!plan.kind.norm) return plan;
        plan.kind.inner = shape.k;
        auto why = shape.batches == 1 ? why_rows_stay(plan.kind) : "several products";
        if (!why.empty()) return Err{Rejection{why}};
        return plan;
    }

    void cut_tiles(Plan& plan) const {
        auto const& s = plan.shape;
        auto blocks = [&](int64_t tile) { return s.batches * quotient_up(s.m, tile) * quotient_up(s.n, tile); };
        auto& tile = plan.kind.tile;
        tile = bytes_of(plan.kind.a) <= 4 && blocks(128) >= kProcessors ? 128 : 64;
        // Every thread fetches 4 elements of the inner size.
        plan.kind.vector_a = plan.kind.vector_b = s.k % 4 == 0;
        plan.words.row_tiles = quotient_up(s.m, tile), plan.words.column_tiles = quotient_up(s.n, tile);
        plan.blocks = blocks(tile);
    }

    void cut_rows(Plan& plan) const {
        auto const& s = plan.shape;
        auto& w = plan.words;
        auto run = 16 / bytes_of(plan.kind.b);
        bool trans_b = kind_.info.trans_b;
        plan.kind.rows = static_cast<int>(s.m);
        plan.kind.vector_a = s.k % run == 0, plan.kind.vector_b = (trans_b ? s.k : s.n) % run == 0;
        if (trans_b) cut_warps(plan);
        w.column_tiles = quotient_up(
            s.n, trans_b ? plan.kind.columns * plan.threads / 32 : row_product_columns(bytes_of(plan.kind.b)));
        // What the threads of a block read of the inner size in one step.
        auto step = trans_b ? 32 * run * plan.kind.steps : 128;
        auto blocks = std::max<int64_t>(1, w.column_tiles * s.batches);
        // A second launch costs more than a warp that walks along a few steps, or than a row that is normalised.
        auto fewest = trans_b ? kFewestSteps : 1;
        auto most = plan.kind.norm ? 1
                                   : std::min(s.k / (step * fewest),
                                              kMostPartialBytes / std::max<int64_t>(1, 4 * s.batches * s.m * s.n));
        w.splits = std::max<int64_t>(1, std::min(kFillingBlocks / blocks, most));
        w.inner_each = quotient_up(quotient_up(std::max<int64_t>(1, s.k), w.splits), step) * step;
        w.splits = std::max<int64_t>(1, quotient_up(s.k, w.inner_each));
        plan.blocks = w.column_tiles * s.batches * w.splits;
    }

    /// As many columns of a warp as leave a few warps for every processor, and so many of their runs in registers at a
    /// time that these reach for the latency of the memory.
    void cut_warps(Plan& plan) const {
        auto const& s = plan.shape;
        auto run = 16 / bytes_of(plan.kind.b);
        auto columns = s.n * s.batches;
        auto& kind = plan.kind;
        kind.columns = columns >= 4 * kFillingWarps ? 4 : columns >= 2 * kFillingWarps ? 2 : 1;
        plan.threads = kind.norm ? 256 : columns >= 4 * kFillingBlocks ? 128 : 64;
        auto all = std::max<int64_t>(1, quotient_up(s.k, 32 * run)),
             most = kRunsInFlight / kind.columns / (kind.rows > 2 ? 2 : 1);
        kind.steps = static_cast<int>(quotient_up(all, quotient_up(all, most)));
    }

    static double normalizing_time(Plan const& plan) {
        if (!plan.kind.norm) return 0;
        auto rows = quotient_up(plan.kind.rows * lanes_of_row(plan.kind), 256);
        auto waves = quotient_up(plan.blocks, kBlocksOfAProcessor * kProcessors);
        return kNormalizeTime * static_cast<double>(rows * waves);
    }

public:
    GeneratedProduct(ProductKind const& kind, bool few_rows, Library const& library)
        : kind_(kind), few_rows_(few_rows), functions_(library) {}

    std::string id() const override {
        auto types = text_of(kind_.a) + (kind_.b == kind_.a ? "" : "_" + text_of(kind_.b));
        return std::string(kind_.norm ? "normalized_matmul:nvidia:" : "matmul:nvidia:") +
               (few_rows_ ? "few_rows:" : "tiled:") + types;
    }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto found = plan(args);
        if (!found) return Err{found.error()};
        auto const& s = found->shape;
        auto waves = static_cast<double>(quotient_up(std::max<int64_t>(1, found->blocks), kProcessors));
        if (!few_rows_)
            return kLaunchTime + waves * found->kind.tile * found->kind.tile * static_cast<double>(s.k) / kTiledRate;
        auto bytes = static_cast<double>(s.batches * s.n * s.k * bytes_of(kind_.b));
        // A multiply-add for each row takes a conversion with it.
        auto reading = bytes / (0.75 * kMemoryRate);
        auto computing = static_cast<double>(s.batches * s.n * s.k * s.m) / (0.25 * kProcessors * kTiledRate);
        return kLaunchTime * (found->words.splits > 1 ? 2 : 1) + std::max(reading, computing) +
               normalizing_time(*found);
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto found = plan(args);
        if (!found) return Err{found.error()};
        if (found->blocks > kMostGrid) return Err{Rejection{std::to_string(found->blocks) + " blocks of threads"}};
        auto const& kind = found->kind;
        auto const& w = found->words;
        auto write = [&] { return few_rows_ ? row_product_source(kind) : tiled_product_source(kind); };
        auto* function = functions_.get("rg_product", kind.key(), write);
        auto* sum = w.splits > 1 ? functions_.get("rg_product_sum", kind.key(), write) : nullptr;
        // What is absent is not read: any address will do.
        auto const& info = kind_.info;
        int next = 2;
        int scales = info.scaled ? next++ : 0, bias = info.epilogue.bias ? next++ : 0;
        int residual = info.epilogue.residual ? next++ : 0;
        int norm_scale = kind.norm ? next++ : 0, norm_bias = kind.norm && kind.norm->has_bias ? next++ : 0;
        std::vector<Address> addresses{
            {0}, {1}, {scales}, {bias}, {residual}, {next}, {Address::kWorkspace}, {norm_scale}, {norm_bias}};
        std::vector<Launch> launches;
        auto outputs = w.batches * w.m * w.n;
        if (outputs > 0)
            launches.push_back(
                {function, static_cast<uint32_t>(found->blocks), found->threads, addresses, words_of(w)});
        if (outputs > 0 && sum) launches.push_back({sum, blocks_for(outputs, 256), 256, addresses, words_of(w)});
        auto bytes = sum ? outputs * w.splits * std::max<int64_t>(4, bytes_of(kind.a)) : 0;
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            functions_.library(), std::move(launches), static_cast<size_t>(bytes), 0, found->shape.operations()));
    }
};

MaybeKernel make(MatMulInfo const& info, Request const& request, bool few_rows,
                 std::optional<LayerNormInfo> const& norm = {}) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    if (auto why = why_weights_differ(info, request); !why.empty()) return Err{Rejection{why}};
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
    ProductKind kind;
    kind.info = info, kind.norm = norm, kind.a = request.inputs[0].dtype, kind.b = request.inputs[1].dtype;
    kind.constant_b = request.inputs[1].constant != nullptr;
    kind.constant_columns = true;
    for (size_t i = 2; i < request.inputs.size() && i < size_t{2} + info.scaled + info.epilogue.bias; ++i)
        kind.constant_columns &= request.inputs[i].constant != nullptr;
    for (auto type : {kind.a, kind.b})
        if (!(type == kind.a ? element_text(type) : weight_text(type)) || type == DataType::Bool)
            return Err{Rejection{"dtype " + text_of(type) + " has no code"}};
    if (few_rows && (info.trans_a || !is_float(kind.a)))
        return Err{Rejection{info.trans_a ? "A is transposed" : "products of " + text_of(kind.a)}};
    if (!is_float(kind.a) && (info.alpha != 1 || info.epilogue.activation.kind > ActivationKind::Relu))
        return Err{Rejection{"factors and activations of integers"}};
    return std::unique_ptr<Kernel>(std::make_unique<GeneratedProduct>(kind, few_rows, *library));
}

}  // namespace

MaybeKernel matmul_tiled(MatMulInfo const& info, Request const& request) { return make(info, request, false); }
MaybeKernel matmul_few_rows(MatMulInfo const& info, Request const& request) { return make(info, request, true); }
MaybeKernel normalized_few_rows(NormalizedMatMulInfo const& info, Request const& request) {
    if (!info.product.trans_b) return Err{Rejection{"B is not transposed"}};
    auto count = info.product_inputs();
    for (size_t i = count; i < request.inputs.size(); ++i)
        if (!request.inputs[i].constant || request.inputs[i].dtype != request.inputs[0].dtype)
            return Err{Rejection{"scale or bias is not a constant of the type of X"}};
    if (!request.inputs[1].constant) return Err{Rejection{"B is not a constant"}};
    auto product = request;
    product.inputs = request.inputs.first(count);
    return make(info.product, product, true, info.norm);
}

}  // namespace refactor::kernel::cuda
