#include "block_matmul/block_matmul.h"
#include "common/error.h"
#include "common/thread_pool.h"

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;

class BlockMatMulReference final : public runtime::Task {
    BlockMatMulInfo info_;
    DataType zeros_ = DataType::Undefined;
    int64_t rows_;

public:
    BlockMatMulReference(BlockMatMulInfo const& info, BindArgs const& args)
        : info_(info), rows_(info.n ? args.outputs[0]->count() / info.n : 0) {
        if (args.inputs[I::kZeros]) zeros_ = args.inputs[I::kZeros]->dtype;
    }
    static MaybeTask make(BlockMatMulInfo const& info, BindArgs const& args) {
        if (auto why = block_matmul_mismatch(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new BlockMatMulReference(info, args));
    }
    static Result<double, Rejection> cost(BlockMatMulInfo const& info, BindArgs const& args) {
        return static_cast<double>(args.outputs[0]->count() * info.k) * 2 / args.threads;
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* a = static_cast<float const*>(arguments[I::kA]);
        auto const* q = static_cast<uint8_t const*>(arguments[I::kQ]);
        auto const* scales = static_cast<float const*>(arguments[I::kScales]);
        auto const* block_of = static_cast<int32_t const*>(arguments[I::kBlocks]);
        auto const* bias = static_cast<float const*>(arguments[I::kBias]);
        auto* y = static_cast<float*>(arguments[I::kInputs]);
        auto blocks = info_.blocks();
        context.pool.parallel_for(info_.n, [&](int64_t j, int) {
            auto const* column = q + j * blocks * info_.block * info_.bits / 8;
            for (int64_t i = 0; i < rows_; ++i) {
                double sum = 0;
                for (int64_t p = 0; p < info_.k; ++p) {
                    auto block = block_of ? block_of[p] : p / info_.block;
                    if (block < 0 || block >= blocks)
                        throw InvalidInput("the block of element " + std::to_string(p) + " is " +
                                           std::to_string(block) + ", expected 0 to " + std::to_string(blocks - 1));
                    auto zero = zero_of(info_, arguments[I::kZeros], zeros_, j, block);
                    auto weight =
                        (static_cast<float>(packed_at(column, info_.bits, p)) - zero) * scales[j * blocks + block];
                    sum += static_cast<double>(a[i * info_.k + p]) * static_cast<double>(weight);
                }
                y[i * info_.n + j] = static_cast<float>(sum) + (bias ? bias[j] : 0);
            }
        });
    }
    double operations() const override { return 2. * static_cast<double>(rows_ * info_.n * info_.k); }
};

}  // namespace

MaybeKernel make_block_matmul_reference(BlockMatMulInfo const& info, Request const& request) {
    if (auto why = block_matmul_mismatch(info, request); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(
        new InfoKernel<BlockMatMulInfo, BlockMatMulReference>(id_of("block_matmul", "reference", DataType::F32), info));
}

}  // namespace refactor::kernel
