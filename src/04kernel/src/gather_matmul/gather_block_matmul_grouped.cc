#include "block_matmul/block_dots.h"
#include "gather_matmul/gather_block_matmul.h"
#include "gather_matmul/routed_panels.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {
namespace {

using I = BlockMatMulInfo;
using mem_manager::Blob;

/// Of one instruction set.
struct BlockFunctions {
    BlockDotsFunctions const& blocks;
    ProductFunctions const& product;
    int64_t few;  ///< rows up to which products with numbers unpacked in registers are faster
};

class GroupedBlocksTask final : public RoutedTask {
    BlockFunctions f_;
    BlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;  ///< packed ones, widened
    RoutedPanels panels_;

    /// Floats of a row in the order of chunks, which takes more than the row itself.
    int64_t a_row() const {
        auto chunk = f_.blocks.width * 32 / info_.bits;
        return whole_lines(ceil_div(info_.k, chunk) * f_.blocks.width * (32 / info_.bits + 1) * 4) / 4;
    }

    /// The columns of a matrix from `column` on.
    BlockDots columns_of(void* const* arguments, int64_t matrix, int64_t column) const {
        auto const* zeros = static_cast<float const*>(zeros_ ? zeros_->data() : arguments[I::kZeros]);
        return block_columns(info_, arguments, zeros, matrix * info_.n + column);
    }

    void multiply_few(void* const* arguments, RoutedPart const& part) const {
        auto t = columns_of(arguments, part.group.matrix, part.column);
        t.rows = part.group.count, t.columns = part.columns;
        t.a = reinterpret_cast<float const*>(part.made), t.a_row = a_row();
        t.words = ceil_div(info_.k * info_.bits, 32);
        if (t.rows == 1) {
            t.y = part_of_row(part, 0) + part.column, t.y_row = info_.n;
            return f_.blocks.multiply(t);
        }
        t.y = reinterpret_cast<float*>(part.scratch), t.y_row = t.columns;
        f_.blocks.multiply(t);
        put(part, t.y, t.y_row, 0, t.columns);
    }

    size_t row_bytes() const override { return static_cast<size_t>(a_row()) * sizeof(float); }
    void make_row(RowGroup const& group, float const* x, std::byte* row) const override {
        auto* to = reinterpret_cast<float*>(row);
        if (group.count <= f_.few)
            f_.blocks.reorder(x, info_.k, info_.bits, to);
        else
            std::copy_n(x, info_.k, to);
    }
    void multiply(void* const* arguments, RoutedPart const& part) const override {
        if (part.group.count <= f_.few) return multiply_few(arguments, part);
        auto widen = [&](ProductBlock& t, int64_t column, int64_t k, float* wide) {
            auto columns = columns_of(arguments, part.group.matrix, column);
            columns.columns = t.n;
            f_.blocks.widen(columns, k / info_.block, ceil_div(t.k, info_.block), wide);
            t.source = ProductSource::Packed, t.b = wide, t.near = true;
        };
        auto const* bias = static_cast<float const*>(arguments[I::kBias]);
        if (bias) bias += part.group.matrix * info_.n;
        panels_.multiply(part, a_row(), bias, widen, [&](float const* sums, int64_t column, int64_t count) {
            put(part, sums, panels_.panel(), column - part.column, count);
        });
    }

public:
    GroupedBlocksTask(BlockFunctions const& f, BlockMatMulInfo const& info, std::shared_ptr<Blob const> zeros,
                      RoutedProduct const& shape, BindArgs const& args)
        : RoutedTask(shape, args, GatherBlockMatMulInfo::kIndices, shape.rows, f.product.panel),
          f_(f),
          info_(info),
          zeros_(std::move(zeros)),
          panels_(f.product, info.k, info.block, shape.rows) {}
    size_t scratch_bytes() const override {
        return std::max(static_cast<size_t>(f_.few * columns()) * sizeof(float), panels_.scratch_bytes());
    }
};

class GroupedBlocksKernel final : public Kernel {
    BlockFunctions f_;
    Isa isa_;
    GatherBlockMatMulInfo info_;
    std::shared_ptr<Blob const> zeros_;  // packed zero points

public:
    GroupedBlocksKernel(BlockFunctions const& f, Isa isa, GatherBlockMatMulInfo const& info, Request const& request)
        : f_(f), isa_(isa), info_(info) {
        auto const& zeros = request.inputs[I::kZeros];
        if (zeros.dtype == DataType::U8) zeros_ = zeros.constant;
    }
    std::string id() const override { return id_of("gather_block_matmul", "grouped", DataType::F32, isa_); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        auto rows = shape->rows_of_each();
        auto ns = rows <= static_cast<double>(f_.few) ? 0.02 + rows * 0.4 / f_.blocks.width
                                                      : 0.13 + rows * 0.3 / f_.blocks.width;
        return 500 + shape->met() * static_cast<double>(shape->k * shape->n) * ns / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto shape = routed_product(info_, args);
        if (!shape) return Err{shape.error()};
        auto wide = zeros_ ? widened_zeros(stack_of(info_), *zeros_, args.packs) : nullptr;
        return std::unique_ptr<runtime::Task>(new GroupedBlocksTask(f_, info_.product, std::move(wide), *shape, args));
    }
};

[[maybe_unused]] MaybeKernel make(GatherBlockMatMulInfo const& info, Request const& request, Isa isa,
                                  BlockFunctions const& f) {
    if (auto why = gather_block_mismatch(info, request); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    if (auto why = why_not_words(info.product); !why.empty()) return reject(why);
    if (auto const& zeros = request.inputs[I::kZeros]; zeros.dtype == DataType::U8 && !zeros.constant)
        return reject("needs constant zero points, or ones of f32");
    return std::unique_ptr<Kernel>(new GroupedBlocksKernel(f, isa, info, request));
}

}  // namespace

#if RG_X86
MaybeKernel make_gather_block_avx512(GatherBlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, {block_dots_avx512(), product_functions_avx512(), 16});
}
MaybeKernel make_gather_block_avx2(GatherBlockMatMulInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, {block_dots_avx2(), product_functions_avx2(), 8});
}
#else
MaybeKernel make_gather_block_avx512(GatherBlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_gather_block_avx2(GatherBlockMatMulInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
