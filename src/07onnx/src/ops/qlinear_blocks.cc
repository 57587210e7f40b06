#include "computation/operator.h"
#include "kernel/ops/integer.h"
#include "operator_def.h"

// com.microsoft MatMulNBits: a product with packed weights that share scales in blocks.

namespace refactor::onnx {

namespace {

constexpr TypeSet kFloating = types(DataType::F32, DataType::F16, DataType::BF16);

Inferred<kernel::BlockMatMulInfo> info_of(NodeView const& n) {
    kernel::BlockMatMulInfo info;
    info.n = n.integer("N", 0), info.k = n.integer("K", 0), info.block = n.integer("block_size", 0);
    auto bits = n.integer("bits", 4);
    if (info.n < 1 || info.k < 1) return Err{invalid("N is ", info.n, " and K ", info.k, ", expected at least 1")};
    if (info.block < 16 || (info.block & (info.block - 1)))
        return Err{invalid("block_size is ", info.block, ", expected a power of 2 of at least 16")};
    if (bits < 2 || bits > 8) return Err{invalid("bits is ", bits, ", expected 2 to 8")};
    if (bits != 2 && bits != 4 && bits != 8) return Err{unsupported("numbers of ", bits, " bits")};
    info.bits = static_cast<int32_t>(bits);
    // Levels are minima: 4 is 8 bits, 0 (unset) and 1 to 3 are floats, of which we have the widest.
    info.may_round = n.integer("accuracy_level", 0) == 4;
    return info;
}

Status check_count(InferContext& c, size_t input, int64_t wanted, std::string_view what) {
    if (!c.has(input)) return std::nullopt;
    return c.expect_equal(element_count(c.shape(input)), DimExpr(wanted), what);
}

Status infer_blocks(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, info_of(n));
    if (n.integer("weight_prepacked", 0)) return unsupported("weight_prepacked = 1");
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 1, 64));
    auto y = c.shape(0);
    RG_CHECK_STATUS(c.expect_equal(y.back(), DimExpr(info.k), "the last size of A"));
    auto scales = info.n * info.blocks();
    RG_CHECK_STATUS(check_count(c, 1, scales * info.block * info.bits / 8, "the number of bytes of B"));
    RG_CHECK_STATUS(check_count(c, 2, scales, "the number of scales"));
    bool packed = c.has(3) && c.dtype(3) == DataType::U8;
    RG_CHECK_STATUS(check_count(c, 3, packed ? info.n * ((info.blocks() * info.bits + 7) / 8) : scales,
                                "the number of zero points"));
    RG_CHECK_STATUS(check_count(c, 5, info.n, "the size of the bias"));
    y.back() = info.n;
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_blocks(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, info_of(n));
    using Edge = LowerContext::Edge;
    auto wide = [&](size_t i) -> Edge { return c.has(i) ? c.cast(c.edge(i), DataType::F32) : nullptr; };
    auto* zeros = c.has(3) && c.dtype(3) == DataType::U8 ? c.edge(3) : wide(3);
    // Indices of blocks may be longer than K, with padding.
    Edge blocks = c.has(4) ? c.edge(4) : nullptr;
    if (blocks && element_count(blocks->value.shape) != DimExpr(info.k))
        return unsupported("g_idx of ", element_count(blocks->value.shape).to_string(c.symbols()),
                           " elements, expected K = ", info.k);
    auto* y = c.emit(computation::make_operator(info), {wide(0), c.edge(1), wide(2), zeros, blocks, wide(5)},
                     DataType::F32, *c.output().shape);
    c.set_output(0, c.cast(y, c.dtype(0)));
    return std::nullopt;
}

}  // namespace

void define_qlinear_blocks(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "MatMulNBits",
                   .inputs = {3, 6},
                   .types = {{kFloating, 'T'},
                             {types(DataType::U8)},
                             {kFloating, 'T'},
                             {kFloating | types(DataType::U8)},
                             {types(DataType::I32)},
                             {kFloating, 'T'}},
                   .attributes = {{"K", K::Int, true},
                                  {"N", K::Int, true},
                                  {"block_size", K::Int, true},
                                  {"bits", K::Int},
                                  {"accuracy_level", K::Int},
                                  {"weight_prepacked", K::Int}},
                   .infer = infer_blocks,
                   .lower = lower_blocks,
                   .domain = "com.microsoft"});
}

}  // namespace refactor::onnx
