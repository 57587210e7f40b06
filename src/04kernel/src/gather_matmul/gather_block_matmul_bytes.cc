#include "block_matmul/block_panels.h"
#include "gather_matmul/gather_block_matmul.h"

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;

/// Rows of a group: the bytes of so many, and their sums, stay in L2 while panels pass.
constexpr int64_t kGroup = 64;

class RoundedBlocksTask final : public RoutedTask {
    BlockBytesFunctions const& f_;
    BlockMatMulInfo info_;
    BlockOperands packed_;

    /// A row as it was made: bytes, a scale for each block, and what is added to each block's products.
    int64_t scales_at() const { return whole_lines(info_.blocks() * info_.block); }
    int64_t less_at() const { return scales_at() + whole_lines(info_.blocks() * 4); }
    size_t row_bytes() const override { return static_cast<size_t>(less_at() + whole_lines(info_.blocks() * 4)); }
    void make_row(RowGroup const&, float const* x, std::byte* row) const override {
        f_.round({x, info_.k, info_.block, info_.bits, packed_.zeros ? 1 : 1 << (info_.bits - 1),
                  reinterpret_cast<int8_t*>(row), reinterpret_cast<float*>(row + scales_at()),
                  reinterpret_cast<int32_t*>(row + less_at())});
    }
    void multiply(void* const* arguments, RoutedPart const& part) const override {
        auto column = part.group.matrix * info_.n + part.column;
        BlockBytes t{};
        t.rows = part.group.count, t.columns = part.columns;
        t.a = reinterpret_cast<int8_t const*>(part.made);
        t.a_scales = reinterpret_cast<float const*>(part.made + scales_at());
        t.a_less = reinterpret_cast<int32_t const*>(part.made + less_at());
        t.a_row = static_cast<int64_t>(row_bytes()), t.a_blocks = t.a_row / 4;
        t.blocks = info_.blocks(), t.words = info_.block * info_.bits / 32, t.bits = info_.bits;
        packed_.set(t, column);
        if (arguments[I::kBias]) t.bias = static_cast<float const*>(arguments[I::kBias]) + column;
        if (t.rows == 1) {
            t.y = part_of_row(part, 0) + part.column, t.y_row = info_.n;
            return f_.multiply(t);
        }
        t.y = reinterpret_cast<float*>(part.scratch), t.y_row = t.columns;
        f_.multiply(t);
        put(part, t.y, t.y_row, 0, t.columns);
    }

public:
    RoundedBlocksTask(BlockBytesFunctions const& f, BlockMatMulInfo const& info, BlockOperands packed,
                      RoutedProduct const& shape, BindArgs const& args)
        : RoutedTask(shape, args, GatherBlockMatMulInfo::kIndices, kGroup, BlockBytes::kPanel),
          f_(f),
          info_(info),
          packed_(std::move(packed)) {}
    size_t scratch_bytes() const override { return static_cast<size_t>(kGroup * columns()) * sizeof(float); }
    uint64_t unread_inputs() const override {
        return uint64_t{1} << I::kQ | uint64_t{1} << I::kScales | uint64_t{1} << I::kZeros;
    }
};

class RoundedBlocksKernel final : public Kernel {
    BlockBytesFunctions const& f_;
    Isa isa_;
    GatherBlockMatMulInfo info_;
    BlockOperands operands_;

public:
    RoundedBlocksKernel(BlockBytesFunctions const& f, Isa isa, GatherBlockMatMulInfo const& info,
                        Request const& request)
        : f_(f), isa_(isa), info_(info), operands_(request) {}
    std::string id() const override { return id_of("gather_block_matmul", "bytes", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        auto cost = bytes_cost(isa_);
        auto ns = cost.once + shape->rows_of_each() * cost.row;
        return 500 + shape->met() * static_cast<double>(shape->k * shape->n) * ns / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        auto packed = pack_blocks(stack_of(info_), operands_, args.packs);
        return std::unique_ptr<runtime::Task>(
            new RoundedBlocksTask(f_, info_.product, std::move(packed), *shape, args));
    }
};

[[maybe_unused]] MaybeKernel make(GatherBlockMatMulInfo const& info, Request const& request, Isa isa,
                                  BlockBytesFunctions const& (*functions)()) {
    if (auto why = gather_block_mismatch(info, request); !why.empty()) return reject(why);
    if (auto why = why_not_bytes(info.product, request, isa, functions()); !why.empty()) return reject(why);
    if (info.product.n % BlockBytes::kPanel)
        return reject(std::to_string(info.product.n) + " columns of a matrix, expected a multiple of " +
                      std::to_string(BlockBytes::kPanel));
    return std::unique_ptr<Kernel>(new RoundedBlocksKernel(functions(), isa, info, request));
}

}  // namespace

#if RG_X86
MaybeKernel make_gather_block_bytes_vnni(GatherBlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512Vnni, block_bytes_avx512vnni);
}
MaybeKernel make_gather_block_bytes_avx2vnni(GatherBlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2Vnni, block_bytes_avx2vnni);
}
MaybeKernel make_gather_block_bytes_avx2(GatherBlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, block_bytes_avx2);
}
#else
MaybeKernel make_gather_block_bytes_vnni(GatherBlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_gather_block_bytes_avx2vnni(GatherBlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_gather_block_bytes_avx2(GatherBlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
