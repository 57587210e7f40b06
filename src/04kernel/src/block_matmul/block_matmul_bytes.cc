#include "block_matmul/block_panels.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;
using mem_manager::Blob;

constexpr int64_t kPanel = BlockBytes::kPanel;
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows are rounded, then multiplied by panels.
class BytesTask final : public runtime::Task {
    BlockBytesFunctions const& f_;
    BlockMatMulInfo info_;
    BlockOperands packed_;
    int64_t rows_, row_bytes_;
    int64_t row_parts_ = 1, column_parts_ = 1;
    size_t scales_, less_, end_;

    /// Rows of a part stay in half of L2 while panels pass; parts are worth handing to another thread, and about four
    /// for each.
    void split(int threads) {
        auto most = std::max<int64_t>(6, static_cast<int64_t>(cpu_features().l2 / 2) / row_bytes_);
        row_parts_ = ceil_div(rows_, most);
        auto panels = ceil_div(info_.n, kPanel);
        // 300 products in a ns, and no less than reading the weights at 10 bytes in a ns.
        auto bytes = static_cast<double>(info_.k * kPanel * info_.bits) / 8;
        auto panel_ns = std::max(static_cast<double>(std::min(rows_, most) * info_.k * kPanel * 2) / 300, bytes / 10);
        column_parts_ = chunks_of(panels, panel_ns, threads);
        if (auto wanted = chunks_of(panels * rows_, panel_ns / static_cast<double>(rows_), threads);
            row_parts_ * column_parts_ < wanted)
            row_parts_ = std::min(ceil_div(rows_, 6), ceil_div(wanted, column_parts_));
    }

public:
    BytesTask(BlockBytesFunctions const& f, BlockMatMulInfo const& info, BlockOperands packed, BindArgs const& args)
        : f_(f),
          info_(info),
          packed_(std::move(packed)),
          rows_(args.outputs[0]->count() / info.n),
          row_bytes_(info.blocks() * info.block) {
        auto blocks = static_cast<size_t>(ceil_div(rows_ * info.blocks() * 4, 64) * 64);
        scales_ = static_cast<size_t>(ceil_div(rows_ * row_bytes_, 64) * 64);
        less_ = scales_ + blocks, end_ = less_ + blocks;
        if (rows_) split(args.threads);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* bytes = reinterpret_cast<int8_t*>(context.workspace);
        auto* scales = reinterpret_cast<float*>(context.workspace + scales_);
        auto* less = reinterpret_cast<int32_t*>(context.workspace + less_);
        auto const* a = static_cast<float const*>(arguments[I::kA]);
        auto blocks = info_.blocks();
        auto zero = packed_.zeros ? 1 : 1 << (info_.bits - 1);
        auto chunks = chunks_of(rows_, static_cast<double>(info_.k) * 0.1, context.pool.threads());
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            for (auto r = rows_ * c / chunks; r < rows_ * (c + 1) / chunks; ++r)
                f_.round({a + r * info_.k, info_.k, info_.block, info_.bits, zero, bytes + r * row_bytes_,
                          scales + r * blocks, less + r * blocks});
        });
        BlockBytes all{};
        all.a_row = row_bytes_, all.a_blocks = all.blocks = blocks, all.words = info_.block * info_.bits / 32;
        all.bits = info_.bits, all.y_row = info_.n;
        auto panels = ceil_div(info_.n, kPanel);
        context.pool.parallel_for(row_parts_ * column_parts_, [&](int64_t part, int) {
            auto t = all;
            auto i = part / column_parts_, j = part % column_parts_;
            auto row = rows_ * i / row_parts_, panel = panels * j / column_parts_, column = panel * kPanel;
            t.rows = rows_ * (i + 1) / row_parts_ - row;
            t.columns = std::min(info_.n, panels * (j + 1) / column_parts_ * kPanel) - column;
            t.a = bytes + row * row_bytes_, t.a_scales = scales + row * blocks, t.a_less = less + row * blocks;
            packed_.set(t, column);
            if (arguments[I::kBias]) t.bias = static_cast<float const*>(arguments[I::kBias]) + column;
            t.y = static_cast<float*>(arguments[I::kInputs]) + row * info_.n + column;
            f_.multiply(t);
        });
    }
    size_t workspace_bytes() const override { return end_; }
    uint64_t unread_inputs() const override {
        return uint64_t{1} << I::kQ | uint64_t{1} << I::kScales | uint64_t{1} << I::kZeros;
    }
    double operations() const override { return 2. * static_cast<double>(rows_ * info_.n * info_.k); }
};

class BytesKernel final : public Kernel {
    BlockBytesFunctions const& f_;
    Isa isa_;
    BlockMatMulInfo info_;
    BlockOperands operands_;

public:
    BytesKernel(BlockBytesFunctions const& f, Isa isa, BlockMatMulInfo const& info, Request const& request)
        : f_(f), isa_(isa), info_(info), operands_(request) {}
    std::string id() const override { return id_of("block_matmul", "bytes", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        auto rows = static_cast<double>(args.outputs[0]->count() / std::max<int64_t>(1, info_.n));
        auto cost = bytes_cost(isa_);
        return 500 + static_cast<double>(info_.n * info_.k) * (cost.once + rows * cost.row) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        if (info_.n == 0 || info_.k == 0) return reject("nothing to multiply");
        auto packed = pack_blocks(info_, operands_, args.packs);
        return std::unique_ptr<runtime::Task>(new BytesTask(f_, info_, std::move(packed), args));
    }
};

[[maybe_unused]] MaybeKernel make(BlockMatMulInfo const& info, Request const& request, Isa isa,
                                  BlockBytesFunctions const& (*functions)()) {
    if (auto why = block_matmul_mismatch(info, request); !why.empty()) return reject(why);
    if (!request.inputs[I::kBlocks].absent()) return reject("blocks are given element by element");
    if (auto why = why_not_bytes(info, request, isa, functions()); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new BytesKernel(functions(), isa, info, request));
}

}  // namespace

bool rounds_rows(BlockMatMulInfo const& info, Isa isa) {
#if RG_X86
    if (isa == Isa::Avx2Vnni || isa >= Isa::Avx512Vnni) return true;
    return isa >= Isa::Avx2 && info.bits <= block_bytes_avx2().most_bits;
#else
    return static_cast<void>(info), static_cast<void>(isa), false;
#endif
}

#if RG_X86
MaybeKernel make_block_matmul_bytes_vnni(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512Vnni, block_bytes_avx512vnni);
}
MaybeKernel make_block_matmul_bytes_avx2vnni(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2Vnni, block_bytes_avx2vnni);
}
MaybeKernel make_block_matmul_bytes_avx2(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, block_bytes_avx2);
}
#else
MaybeKernel make_block_matmul_bytes_vnni(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_block_matmul_bytes_avx2vnni(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_block_matmul_bytes_avx2(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
