#include "block_matmul/block_matmul.h"
#include "cuda/block_product_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/rates.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

using I = BlockMatMulInfo;

/// Rows that a thread keeps in registers.
constexpr int64_t kMostRows = 8;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

class BlockProduct final : public Kernel {
    I info_;
    BlockProductKind kind_;
    bool few_rows_;
    FunctionCache functions_;

    struct Plan {
        BlockProductKind kind;
        BlockProductWords words;
        int64_t blocks;
    };

    Result<Plan, Rejection> plan(BindArgs const& args) const {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return Err{Rejection{why}};
        Plan plan{kind_, {}, 0};
        auto& w = plan.words;
        w.m = args.outputs[0]->count() / std::max<int64_t>(1, info_.n), w.n = info_.n, w.k = info_.k;
        w.block = info_.block, w.blocks = info_.blocks();
        if (few_rows_ && w.m > kMostRows)
            return Err{Rejection{std::to_string(w.m) + " rows, at most " + std::to_string(kMostRows)}};
        auto largest = std::max(args.outputs[0]->count(), w.n * w.blocks * info_.block);
        plan.kind.wide = std::max(largest, w.m * w.k) >= int64_t(1) << 30;
        plan.kind.rows = static_cast<int>(few_rows_ ? w.m : 1);
        plan.kind.vector = w.k % 4 == 0;
        w.row_tiles = quotient_up(w.m, 64), w.column_tiles = quotient_up(w.n, 64);
        plan.blocks = few_rows_ ? quotient_up(w.n, kBlockProductColumns) : w.row_tiles * w.column_tiles;
        return plan;
    }

public:
    BlockProduct(I const& info, BlockProductKind const& kind, bool few_rows, Library const& library)
        : info_(info), kind_(kind), few_rows_(few_rows), functions_(library) {}

    std::string id() const override { return id_of("block_matmul", few_rows_ ? "few_rows" : "tiled", DataType::F32); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto found = plan(args);
        if (!found) return Err{found.error()};
        auto products = static_cast<double>(info_.n * info_.k);
        auto waves = static_cast<double>(quotient_up(std::max<int64_t>(1, found->blocks), kProcessors));
        if (!few_rows_) return kLaunchTime + waves * 64 * 64 * static_cast<double>(info_.k) / kTiledRate;
        // Unpacking takes as long as a multiply-add.
        auto computing = products * static_cast<double>(found->words.m + 1) / (0.5 * kProcessors * kTiledRate);
        return kLaunchTime + std::max(computing, products * info_.bits / 8 / (0.7 * kMemoryRate));
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto found = plan(args);
        if (!found) return Err{found.error()};
        auto const& w = found->words;
        auto write = [&] { return few_rows_ ? row_block_source(found->kind) : tiled_block_source(found->kind); };
        auto* function = functions_.get("rg_block_product", found->kind.key(), write);
        std::vector<Launch> launches;
        if (w.m * w.n > 0)
            launches.push_back(
                {function, static_cast<uint32_t>(found->blocks), 256, all_operands(I::kInputs + 1), words_of(w)});
        auto operations = 2. * static_cast<double>(w.m * w.n) * static_cast<double>(w.k);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LaunchTask>(functions_.library(), std::move(launches), 0, 0, operations));
    }
};

MaybeKernel make(I const& info, Request const& request, bool few_rows) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = request;
    on_host.device = "cpu";
    if (auto why = block_matmul_mismatch(info, on_host); !why.empty()) return Err{Rejection{why}};
    BlockProductKind kind;
    kind.bits = info.bits, kind.zeros = request.inputs[I::kZeros].dtype;
    kind.ordered = request.inputs[I::kBlocks].absent(), kind.bias = !request.inputs[I::kBias].absent();
    kind.words = info.block * info.bits % 128 == 0 ? 4 : 1;
    if (few_rows && (!kind.ordered || info.block * info.bits % 32 != 0))
        return Err{Rejection{kind.ordered ? "blocks are no whole words" : "blocks are not in order"}};
    return std::unique_ptr<Kernel>(std::make_unique<BlockProduct>(info, kind, few_rows, *library));
}

}  // namespace

MaybeKernel block_matmul_few_rows(I const& info, Request const& request) { return make(info, request, true); }
MaybeKernel block_matmul_tiled(I const& info, Request const& request) { return make(info, request, false); }

}  // namespace refactor::kernel::cuda
