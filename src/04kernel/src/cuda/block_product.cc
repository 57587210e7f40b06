#include "cuda/block_product_source.h"
#include "cuda/function_cache.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/rates.h"
#include "gather_matmul/gather_block_matmul.h"

#include <algorithm>

namespace refactor::kernel::cuda {

namespace {

using I = BlockMatMulInfo;

/// Rows that a thread keeps in registers.
constexpr int64_t kMostRows = 8;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<Address> block_product_addresses() {
    auto addresses = all_operands(I::kInputs + 1);
    addresses.push_back({Address::kFault});
    return addresses;
}

/// What does not depend on sizes.
BlockProductKind kind_of(I const& info, Request const& request) {
    BlockProductKind kind;
    kind.a = request.inputs[I::kA].dtype, kind.bits = info.bits, kind.zeros = request.inputs[I::kZeros].dtype;
    kind.bias = !request.inputs[I::kBias].absent();
    kind.words = info.block * info.bits % 128 == 0 ? 4 : 1;
    return kind;
}

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

    std::string id() const override { return id_of("block_matmul", few_rows_ ? "few_rows" : "tiled", kind_.a); }

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
                {function, static_cast<uint32_t>(found->blocks), 256, block_product_addresses(), words_of(w)});
        auto operations = 2. * static_cast<double>(w.m * w.n) * static_cast<double>(w.k);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LaunchTask>(functions_.library(), std::move(launches), 0, 0, operations));
    }
};

MaybeKernel make(I const& info, Request const& request, bool few_rows) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    // As on the host, but that A and Y may be of f16 or bf16.
    auto type = request.inputs[I::kA].dtype;
    if (type != request.outputs[0].dtype || (type != DataType::F32 && type != DataType::F16 && type != DataType::BF16))
        return Err{Rejection{"A of " + std::string(refactor::name_of(type)) + " and Y of " +
                             std::string(refactor::name_of(request.outputs[0].dtype)) +
                             ", expected both of f32, f16 or bf16"}};
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end()), outputs{request.outputs[0]};
    inputs[I::kA].dtype = outputs[0].dtype = DataType::F32;
    auto on_host = request;
    on_host.device = "cpu", on_host.inputs = inputs, on_host.outputs = outputs;
    if (auto why = block_matmul_mismatch(info, on_host); !why.empty()) return Err{Rejection{why}};
    auto kind = kind_of(info, request);
    kind.ordered = request.inputs[I::kBlocks].absent();
    if (few_rows && (!kind.ordered || info.block * info.bits % 32 != 0))
        return Err{Rejection{kind.ordered ? "blocks are no whole words" : "blocks are not in order"}};
    return std::unique_ptr<Kernel>(std::make_unique<BlockProduct>(info, kind, few_rows, *library));
}

/// A row of Y after the other, each with its own matrix: as many bytes as few tokens have to read, more for many.
class RoutedBlockProduct final : public Kernel {
    GatherBlockMatMulInfo info_;
    BlockProductKind kind_;
    FunctionCache functions_;

    /// Bytes of the matrices that are read.
    double bytes_of(RoutedProduct const& shape) const {
        return static_cast<double>(shape.rows) * static_cast<double>(shape.k * shape.n) * info_.product.bits / 8;
    }

public:
    RoutedBlockProduct(GatherBlockMatMulInfo const& info, BlockProductKind const& kind, Library const& library)
        : info_(info), kind_(kind), functions_(library) {}

    std::string id() const override { return id_of("gather_block_matmul", "rows", DataType::F32); }

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        return kLaunchTime + bytes_of(*shape) / (0.7 * kMemoryRate);
    }

    MaybeTask bind(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        auto const& product = info_.product;
        BlockProductWords w;
        w.m = 1, w.n = product.n, w.k = product.k, w.block = product.block, w.blocks = product.blocks();
        w.column_tiles = quotient_up(w.n, kBlockProductColumns), w.matrices = info_.matrices, w.share = shape->share;
        auto blocks = shape->rows * w.column_tiles;
        if (blocks > kMostGrid) return Err{Rejection{std::to_string(blocks) + " blocks of threads, too many"}};
        auto kind = kind_;
        // Addresses within one matrix.
        kind.wide = w.n * w.blocks * w.block >= int64_t{1} << 30, kind.vector = w.k % 4 == 0;
        auto* function = functions_.get("rg_block_product", kind.key(), [&] { return row_block_source(kind); });
        std::vector<Launch> launches;
        if (blocks > 0)
            launches.push_back({function, static_cast<uint32_t>(blocks), 256, block_product_addresses(), words_of(w)});
        return std::unique_ptr<runtime::Task>(
            std::make_unique<LaunchTask>(functions_.library(), std::move(launches), 0, 0, shape->operations()));
    }
};

}  // namespace

MaybeKernel gather_block_matmul_rows(GatherBlockMatMulInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = request;
    on_host.device = "cpu";
    if (auto why = gather_block_mismatch(info, on_host); !why.empty()) return Err{Rejection{why}};
    if (info.product.block * info.product.bits % 32 != 0) return Err{Rejection{"blocks are no whole words"}};
    auto kind = kind_of(info.product, request);
    kind.routes = request.inputs[GatherBlockMatMulInfo::kIndices].dtype;
    return std::unique_ptr<Kernel>(std::make_unique<RoutedBlockProduct>(info, kind, *library));
}

MaybeKernel block_matmul_few_rows(I const& info, Request const& request) { return make(info, request, true); }
MaybeKernel block_matmul_tiled(I const& info, Request const& request) { return make(info, request, false); }

}  // namespace refactor::kernel::cuda
