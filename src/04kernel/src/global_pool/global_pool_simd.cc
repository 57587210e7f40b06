#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "global_pool/global_pool.h"
#include "pool/pool_blocked.h"
#include "reduce/rows.h"

#include <algorithm>
#include <limits>

namespace refactor::kernel {

namespace {

/// Of a task.
constexpr int64_t kTaskElements = 16384;
/// Most positions of planes that are lanes of a vector, as many planes as it has: others are worth a call each.
constexpr int64_t kShortPlane = 128;

class SimdTask final : public runtime::Task {
    PoolIsa const* isa_;
    bool maximum_, plain_;
    int64_t planes_, positions_;  ///< planes: of channels if Plain, else of blocks

    /// `count` Plain planes behind each other.
    void plain_planes(float const* x, float* y, int64_t count) const {
        auto const& rows = isa_->block == 16 ? row_functions_avx512() : row_functions_avx2();
        auto op = maximum_ ? RowOp::Max : RowOp::Sum;
        if (positions_ <= kShortPlane)
            rows.short_rows(op, x, count, positions_, nullptr, y);
        else
            for (int64_t p = 0; p < count; ++p) y[p] = rows.partial(op, x + p * positions_, positions_, 0);
        if (!maximum_) rows.finish(RowEnd::Divide, y, count, static_cast<float>(positions_), nullptr);
    }
    /// Planes a task.
    int64_t group() const {
        return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, positions_ * (plain_ ? 1 : isa_->block)));
    }

public:
    SimdTask(PoolKind kind, PoolIsa const& isa, TensorDesc const& x)
        : isa_(&isa), maximum_(kind == PoolKind::Max), plain_(x.layout == Layout::Plain) {
        Addressing at(x);
        planes_ = x.dims[0] * at.blocks(), positions_ = at.spatial;
    }

    double operations() const override {
        return static_cast<double>(planes_ * positions_ * (plain_ ? 1 : isa_->block));
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto* x = static_cast<float const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        auto const count = group();
        context.pool.parallel_for((planes_ + count - 1) / count, [&](int64_t task, int) {
            if (plain_)
                return plain_planes(x + task * count * positions_, y + task * count,
                                    std::min(count, planes_ - task * count));
            for (auto p = task * count; p < std::min(planes_, (task + 1) * count); ++p) {
                isa_->whole_blocked({x + p * positions_ * isa_->block, y + p * isa_->block, positions_, maximum_});
            }
        });
    }
};

/// Blocks of 32 channels of bf16 to blocks of 16 of f32.
class Bf16Task final : public runtime::Task {
    bool maximum_;
    int64_t images_, channels_, positions_;

    /// What there is without positions, `row` numbers for each image.
    void store_nothing(float* y, int64_t row) const {
        constexpr auto kNone = std::numeric_limits<float>::infinity();
        for (int64_t i = 0; i < images_; ++i, y += row) {
            std::fill_n(y, channels_, maximum_ ? -kNone : std::numeric_limits<float>::quiet_NaN());
            std::fill(y + channels_, y + row, 0.f);
        }
    }

public:
    Bf16Task(PoolKind kind, TensorDesc const& x)
        : maximum_(kind == PoolKind::Max),
          images_(x.dims[0]),
          channels_(x.dims[1]),
          positions_(Addressing(x).spatial) {}

    double operations() const override { return static_cast<double>(images_ * channels_ * positions_); }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const& isa = pool_avx512bf16();
        auto* x = static_cast<uint16_t const*>(arguments[0]);
        auto* y = static_cast<float*>(arguments[1]);
        constexpr int64_t kOut = 16;
        int64_t const block = isa.block, blocks = (channels_ + block - 1) / block,
                      row = (channels_ + kOut - 1) / kOut * kOut;
        if (positions_ == 0) return store_nothing(y, row);
        auto count = std::max<int64_t>(1, kTaskElements / (positions_ * block));
        context.pool.parallel_for((images_ * blocks + count - 1) / count, [&](int64_t task, int) {
            for (auto p = task * count; p < std::min(images_ * blocks, (task + 1) * count); ++p) {
                auto first = p % blocks * block;
                isa.whole({x + p * positions_ * block, y + p / blocks * row + first, positions_, maximum_,
                           static_cast<int32_t>(std::min(block, channels_ - first))});
            }
        });
    }
};

class SimdKernel final : public NamedKernel {
    PoolKind kind_;
    Isa isa_;

public:
    SimdKernel(std::string id, PoolKind kind, Isa isa) : NamedKernel(std::move(id)), kind_(kind), isa_(isa) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto bytes = (isa_ == Isa::Avx512Bf16 ? 2. : 4.) * static_cast<double>(args.inputs[0]->stored_count());
        CostModel cost(isa_, args.threads);
        return bytes / cost.bandwidth(bytes) / cost.threads;
    }
    TaskResult bind(BindArgs const& args) const override {
        if (isa_ == Isa::Avx512Bf16)
            return std::unique_ptr<runtime::Task>(std::make_unique<Bf16Task>(kind_, *args.inputs[0]));
        if (args.inputs[0]->count() == 0) return Err{Rejection{"is for tensors with elements"}};
        auto const& isa = isa_ == Isa::Avx512 ? pool_avx512() : pool_avx2();
        return std::unique_ptr<runtime::Task>(std::make_unique<SimdTask>(kind_, isa, *args.inputs[0]));
    }
};

KernelResult make(GlobalPoolInfo const& info, Request const& request, Isa isa) {
    if (auto reason = global_pool_mismatch(request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != y.layout || (x.layout != blocked && x.layout != Layout::Plain))
        return Err{Rejection{"expects X and Y both Plain or both in the blocked layout of its vectors"}};
    auto id = "global_pool:cpu:vector:f32:" + std::string(name_of(isa));
    return std::unique_ptr<Kernel>(std::make_unique<SimdKernel>(std::move(id), info.kind, isa));
}

}  // namespace

KernelResult global_pool_bf16(GlobalPoolInfo const& info, Request const& request) {
    if (auto reason = global_pool_mismatch(request, DataType::F32); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < Isa::Avx512Bf16) return Err{Rejection{"needs avx512bf16"}};
    if (x.dtype != DataType::BF16 || x.layout != Layout::Blocked32 || y.layout != Layout::Blocked16)
        return Err{Rejection{"expects X of bf16 in blocks of 32 channels, Y of f32 in blocks of 16"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<SimdKernel>("global_pool:cpu:vector:bf16:avx512bf16", info.kind, Isa::Avx512Bf16));
}
KernelResult global_pool_avx512(GlobalPoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512);
}
KernelResult global_pool_avx2(GlobalPoolInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2);
}

}  // namespace refactor::kernel
