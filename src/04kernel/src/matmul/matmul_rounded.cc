#include "common/half.h"
#include "common/thread_pool.h"
#include "matmul/matmul.h"
#include "matmul/product_task.h"
#include "matmul/rounded_product.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// A whose rows are rounded to pairs first, in as many parts as there are threads, times panels of pairs.
class RoundedTask final : public runtime::Task {
    /// Floats that are worth a part of their own.
    static constexpr int64_t kPart = 1 << 14;

    RoundedFunctions const& functions_;
    std::unique_ptr<runtime::Task> product_;
    int64_t rows_, k_;
    size_t arguments_, pairs_bytes_;
    double operations_;

public:
    RoundedTask(RoundedFunctions const& functions, MatMulInfo const& info, MatMulShape shape,
                std::shared_ptr<Blob const> packed, int threads)
        : functions_(functions),
          rows_(shape.batches * shape.m),
          k_(shape.k),
          arguments_(size_t{3} + info.epilogue.bias + info.epilogue.residual),
          pairs_bytes_(static_cast<size_t>((rows_ * pairs_of(k_) * 4 + 63) / 64 * 64)),
          operations_(shape.operations()) {
        shape.m = rows_, shape.batches = 1, shape.batch.clear(), shape.k = pairs_of(k_);
        product_ = make_product_task(functions.product, info, shape, WeightType::F32, std::move(packed), threads);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* a = static_cast<float const*>(arguments[0]);
        auto* pairs = reinterpret_cast<float*>(context.workspace);
        auto part = std::max<int64_t>(1, kPart / std::max<int64_t>(1, k_));
        context.pool.parallel_for((rows_ + part - 1) / part, [&](int64_t i, int) {
            auto first = i * part, rows = std::min(part, rows_ - first);
            functions_.round_rows(a + first * k_, k_, rows, k_, pairs + first * pairs_of(k_), pairs_of(k_));
        });
        void* replaced[5];
        std::copy_n(arguments, arguments_, replaced);
        replaced[0] = pairs;
        auto rest = context;
        rest.workspace += pairs_bytes_;
        product_->run(replaced, rest);
    }
    size_t workspace_bytes() const override { return pairs_bytes_ + product_->workspace_bytes(); }
    uint64_t unread_inputs() const override { return product_->unread_inputs(); }
    double operations() const override { return operations_; }
};

/// Packs [N, K] or [K, N] of f32, f16 or bf16, a panel at a time.
void pack_rounded(ProductFunctions const& f, DataType type, void const* from, bool columns, int64_t n, int64_t k,
                  float* target) {
    if (type == DataType::F32) return f.pack(target, static_cast<float const*>(from), columns ? k : n, columns, n, k);
    auto const* elements = static_cast<uint16_t const*>(from);
    std::vector<float> wide(static_cast<size_t>(std::min<int64_t>(f.panel, n) * k));
    for (int64_t j = 0; j < n; j += f.panel) {
        auto count = std::min<int64_t>(f.panel, n - j);
        if (columns)
            convert(type, elements + j * k, DataType::F32, wide.data(), count * k);
        else
            for (int64_t p = 0; p < k; ++p)
                convert(type, elements + p * n + j, DataType::F32, wide.data() + p * count, count);
        f.pack(target, wide.data(), columns ? k : count, columns, count, k);
        target += pairs_of(k) * ((count + f.width - 1) / f.width * f.width);
    }
}

class RoundedKernel final : public Kernel {
    RoundedFunctions const& functions_;
    Isa isa_;
    MatMulInfo info_;
    DataType dtype_;  // of B
    std::shared_ptr<Blob const> constant_;

public:
    RoundedKernel(RoundedFunctions const& functions, Isa isa, MatMulInfo const& info, Operand const& b)
        : functions_(functions), isa_(isa), info_(info), dtype_(b.dtype), constant_(b.constant) {}
    std::string id() const override { return id_of("matmul", "rounded", DataType::BF16, isa_); }
    /// As that of products of f32, of half as many steps and bytes of B, behind rounding A at 10 elements/ns.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto rate = functions_.product.width * (cpu_features().fast_bf16 ? 10. : 5.);
        auto b = static_cast<double>(shape.n) * static_cast<double>(shape.k);
        auto a = static_cast<double>(shape.batches * shape.m) * static_cast<double>(shape.k);
        return 20 + (std::max(shape.operations() / rate, b / 5) + a / 10) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        MatMulShape shape;
        if (auto why = shape.init(info_, args); !why.empty()) return reject(why);
        auto const& product = functions_.product;
        auto format = "matmul:pairs:" + std::to_string(product.panel) + (info_.trans_b ? ":T:" : ":N:") +
                      std::to_string(shape.n) + "x" + std::to_string(shape.k);
        auto wide = (shape.n + product.width - 1) / product.width * product.width;
        auto packed = args.packs.get(
            *constant_, format, static_cast<size_t>(wide * pairs_of(shape.k)) * 4, [&](void const* from, void* target) {
                pack_rounded(product, dtype_, from, info_.trans_b, shape.n, shape.k, static_cast<float*>(target));
            });
        return std::unique_ptr<runtime::Task>(
            new RoundedTask(functions_, info_, shape, std::move(packed), args.threads));
    }
};

/// Why no operands can be rounded, or empty.
std::string refuse(MatMulInfo const& info, Request const& request) {
    if (!info.may_round) return "operands may not be rounded to bf16";
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.isa < Isa::Avx512Bf16)
        return "needs " + std::string(name_of(Isa::Avx512Bf16)) + ", allowed is " + std::string(name_of(request.isa));
    auto const& b = request.inputs[1];
    if (request.inputs[0].dtype != DataType::F32)
        return "A is " + std::string(name_of(request.inputs[0].dtype)) + ", expected f32";
    if (auto why = why_types_differ(info, request); !why.empty()) return why;
    if (info.scaled) return "B is i8, expected f32, f16 or bf16";
    if (info.trans_a) return "A is transposed";
    auto matrices = b.dims.size() < 2 ? 1 : element_count(std::span(b.dims.data(), b.dims.size() - 2));
    if (!b.constant || matrices != 1 || b.count() == 0) return "B is not one constant matrix";
    return {};
}

}  // namespace

MaybeKernel make_matmul_rounded(MatMulInfo const& info, Request const& request) {
#if RG_X86
    if (auto why = refuse(info, request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new RoundedKernel(rounded_functions_avx512bf16(), Isa::Avx512Bf16, info, request.inputs[1]));
#else
    return reject("not built for this architecture");
#endif
}

}  // namespace refactor::kernel
