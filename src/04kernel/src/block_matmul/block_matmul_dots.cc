#include "block_matmul/block_dots.h"
#include "block_matmul/block_matmul.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;
using mem_manager::Blob;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class DotsTask final : public runtime::Task {
    BlockDotsFunctions const& f_;
    BlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;
    DataType zeros_type_ = DataType::Undefined;
    int64_t rows_, a_row_;
    int threads_;

    int64_t a_bytes() const { return ceil_div(rows_ * a_row_ * 4, 64) * 64; }
    bool widens() const { return zeros_type_ == DataType::U8 && !zeros_; }

public:
    DotsTask(BlockDotsFunctions const& f, BlockMatMulInfo const& info, std::shared_ptr<Blob const> zeros,
             BindArgs const& args)
        : f_(f),
          info_(info),
          zeros_(std::move(zeros)),
          rows_(args.outputs[0]->count() / info.n),
          a_row_(ceil_div(info.k, f.width * 32 / info.bits) * f.width * (32 / info.bits + 1)),
          threads_(args.threads) {
        if (args.inputs[I::kZeros]) zeros_type_ = args.inputs[I::kZeros]->dtype;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* a = reinterpret_cast<float*>(context.workspace);
        auto* wide = reinterpret_cast<float*>(context.workspace + a_bytes());
        if (widens()) widen_zeros(info_, arguments[I::kZeros], zeros_type_, wide);
        auto const* x = static_cast<float const*>(arguments[I::kA]);
        auto row_chunks = chunks_of(rows_, static_cast<double>(info_.k), threads_);
        context.pool.parallel_for(row_chunks, [&](int64_t c, int) {
            for (auto r = rows_ * c / row_chunks; r < rows_ * (c + 1) / row_chunks; ++r)
                f_.reorder(x + r * info_.k, info_.k, info_.bits, a + r * a_row_);
        });
        auto const* zeros = zeros_     ? static_cast<float const*>(zeros_->data())
                            : widens() ? wide
                                       : static_cast<float const*>(arguments[I::kZeros]);
        // A column takes about 20 ps an element for a row, and no less than reading it.
        auto ns = static_cast<double>(info_.k) * (0.02 + 0.02 * static_cast<double>(rows_));
        auto parts = chunks_of(ceil_div(info_.n, 4), 4 * ns, threads_);
        context.pool.parallel_for(parts, [&](int64_t part, int) {
            auto fours = ceil_div(info_.n, 4), begin = fours * part / parts * 4;
            auto t = block_columns(info_, arguments, zeros, begin);
            t.columns = std::min(info_.n, fours * (part + 1) / parts * 4) - begin;
            t.rows = rows_, t.a = a, t.a_row = a_row_, t.words = ceil_div(info_.k * info_.bits, 32), t.y_row = info_.n;
            t.y = static_cast<float*>(arguments[I::kInputs]) + begin;
            f_.multiply(t);
        });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(a_bytes() + (widens() ? info_.n * info_.blocks() * 4 : 0));
    }
    double operations() const override { return 2. * static_cast<double>(rows_ * info_.n * info_.k); }
};

class DotsKernel final : public Kernel {
    BlockDotsFunctions const& f_;
    Isa isa_;
    BlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;  // packed zero points, if they are constant

public:
    DotsKernel(BlockDotsFunctions const& f, Isa isa, BlockMatMulInfo const& info, Request const& request)
        : f_(f), isa_(isa), info_(info) {
        auto const& zeros = request.inputs[I::kZeros];
        if (zeros.dtype == DataType::U8) zeros_ = zeros.constant;
    }
    std::string id() const override { return id_of("block_matmul", "dots", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        auto rows = static_cast<double>(args.outputs[0]->count() / std::max<int64_t>(1, info_.n));
        return 500 + static_cast<double>(info_.n * info_.k) * (0.02 + rows * 0.4 / f_.width) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = block_matmul_mismatch(info_, args); !why.empty()) return reject(why);
        if (info_.n == 0 || info_.k == 0) return reject("nothing to multiply");
        auto wide = zeros_ ? widened_zeros(info_, *zeros_, args.packs) : nullptr;
        return std::unique_ptr<runtime::Task>(new DotsTask(f_, info_, std::move(wide), args));
    }
};

[[maybe_unused]] MaybeKernel make(BlockMatMulInfo const& info, Request const& request, Isa isa,
                                  BlockDotsFunctions const& (*functions)()) {
    if (auto why = block_matmul_mismatch(info, request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    if (auto why = why_not_words(info); !why.empty()) return reject(why);
    if (!request.inputs[I::kBlocks].absent()) return reject("blocks are given element by element");
    return std::unique_ptr<Kernel>(new DotsKernel(functions(), isa, info, request));
}

}  // namespace

#if RG_X86
MaybeKernel make_block_matmul_avx512(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, block_dots_avx512);
}
MaybeKernel make_block_matmul_avx2(BlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, block_dots_avx2);
}
#else
MaybeKernel make_block_matmul_avx512(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_block_matmul_avx2(BlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
