#include "block_matmul/block_dots.h"
#include "block_matmul/block_matmul.h"
#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "matmul/product.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;
using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Of one instruction set.
struct WidenedFunctions {
    BlockDotsFunctions const& blocks;
    ProductFunctions const& product;
};

/// Rows and columns of A and Y come back for every depth, from L3 at worst: a panel multiplies them more often than
/// reading takes.
class WidenedTask final : public runtime::Task {
    WidenedFunctions f_;
    BlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;  ///< of constants; else they are widened in every run
    DataType zeros_type_ = DataType::Undefined;
    int64_t rows_, depth_;  ///< k worked on at a time, whole blocks
    int threads_;

    size_t zeros_bytes() const {
        auto bytes = zeros_type_ == DataType::U8 && !zeros_ ? info_.n * info_.blocks() * 4 : 0;
        return static_cast<size_t>(ceil_div(bytes, 64) * 64);
    }
    size_t panel_bytes() const { return static_cast<size_t>(ceil_div(depth_ * f_.product.panel * 4, 64) * 64); }

    void run_panels(void* const* arguments, float const* zeros, int64_t begin, int64_t end, std::byte* scratch) const {
        auto* wide = reinterpret_cast<float*>(scratch);
        ProductBlock t{};
        t.m = rows_, t.a_row = info_.k, t.a_k = 1, t.y_row = info_.n, t.alpha = 1;
        t.source = ProductSource::Packed, t.b = wide, t.near = true;
        t.block_m = rows_, t.block_k = depth_;
        auto const* bias = static_cast<float const*>(arguments[I::kBias]);
        for (int64_t k = 0; k < info_.k; k += depth_) {
            t.k = std::min(depth_, info_.k - k);
            t.a = static_cast<float const*>(arguments[I::kA]) + k;
            for (auto column = begin; column < end; column += f_.product.panel) {
                auto columns = block_columns(info_, arguments, zeros, column);
                columns.columns = t.n = std::min<int64_t>(f_.product.panel, end - column);
                f_.blocks.widen(columns, k / info_.block, ceil_div(t.k, info_.block), wide);
                t.y = static_cast<float*>(arguments[I::kInputs]) + column;
                t.bias = bias && k == 0 ? bias + column : nullptr, t.residual = k ? t.y : nullptr;
                f_.product.multiply(t);
            }
        }
    }

public:
    WidenedTask(WidenedFunctions const& f, BlockMatMulInfo const& info, std::shared_ptr<Blob const> zeros,
                BindArgs const& args)
        : f_(f),
          info_(info),
          zeros_(std::move(zeros)),
          rows_(args.outputs[0]->count() / info.n),
          threads_(args.threads) {
        if (args.inputs[I::kZeros]) zeros_type_ = args.inputs[I::kZeros]->dtype;
        // A panel shares L2 with what it was widened from and rows of A.
        auto deepest = static_cast<int64_t>(cpu_features().l2 / sizeof(float)) / 8 / f_.product.panel;
        depth_ = std::min(std::max<int64_t>(1, deepest / info.block), info.blocks()) * info.block;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* zeros = static_cast<float const*>(zeros_ ? zeros_->data() : arguments[I::kZeros]);
        if (zeros_type_ == DataType::U8 && !zeros_) {
            auto* target = reinterpret_cast<float*>(context.workspace);
            widen_zeros(info_, arguments[I::kZeros], zeros_type_, target);
            zeros = target;
        }
        auto panels = ceil_div(info_.n, f_.product.panel);
        auto ns = static_cast<double>(f_.product.panel * info_.k) * (0.3 + 0.02 * static_cast<double>(rows_));
        auto parts = chunks_of(panels, ns, threads_);
        context.pool.parallel_for(parts, [&](int64_t part, int worker) {
            auto begin = panels * part / parts * f_.product.panel;
            auto end = std::min(info_.n, panels * (part + 1) / parts * f_.product.panel);
            run_panels(arguments, zeros, begin, end, context.scratch_of(worker));
        });
    }
    size_t workspace_bytes() const override { return zeros_bytes(); }
    size_t scratch_bytes() const override { return panel_bytes(); }
    double operations() const override { return 2. * static_cast<double>(rows_ * info_.n * info_.k); }
};

class WidenedKernel final : public Kernel {
    WidenedFunctions f_;
    Isa isa_;
    BlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;  // packed zero points, if they are constant

public:
    WidenedKernel(WidenedFunctions const& f, Isa isa, BlockMatMulInfo const& info, Request const& request)
        : f_(f), isa_(isa), info_(info) {
        auto const& zeros = request.inputs[I::kZeros];
        if (zeros.dtype == DataType::U8) zeros_ = zeros.constant;
    }
    std::string id() const override { return id_of("block_matmul", "widened", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        auto rows = static_cast<double>(args.outputs[0]->count() / std::max<int64_t>(1, info_.n));
        return 500 + static_cast<double>(info_.n * info_.k) * (0.13 + rows * 0.3 / f_.blocks.width) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        if (info_.n == 0 || info_.k == 0) return reject("nothing to multiply");
        auto wide = zeros_ ? widened_zeros(info_, *zeros_, args.packs) : nullptr;
        return std::unique_ptr<runtime::Task>(new WidenedTask(f_, info_, std::move(wide), args));
    }
};

[[maybe_unused]] MaybeKernel make(BlockMatMulInfo const& info, Request const& request, Isa isa,
                                  BlockDotsFunctions const& (*blocks)(), ProductFunctions const& (*product)()) {
    if (auto why = block_matmul_mismatch(info, request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (auto why = why_not_words(info); !why.empty()) return reject(why);
    if (!request.inputs[I::kBlocks].absent()) return reject("blocks are given element by element");
    return std::unique_ptr<Kernel>(new WidenedKernel({blocks(), product()}, isa, info, request));
}

}  // namespace

#if RG_X86
MaybeKernel make_block_matmul_widened_avx512(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, block_dots_avx512, product_functions_avx512);
}
MaybeKernel make_block_matmul_widened_avx2(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, block_dots_avx2, product_functions_avx2);
}
#else
MaybeKernel make_block_matmul_widened_avx512(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_block_matmul_widened_avx2(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
