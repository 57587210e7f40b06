#include "block_matmul/block_matmul.h"

#include "block_matmul/block_dots.h"
#include "cuda/kernels.h"

#include <bit>

namespace refactor::kernel {

namespace {

using I = BlockMatMulInfo;

std::string text_of(DataType type) { return std::string(name_of(type)); }

}  // namespace

std::string block_matmul_mismatch(BlockMatMulInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return why;
    if (request.inputs.size() != I::kInputs)
        return std::to_string(request.inputs.size()) + " inputs, expected " + std::to_string(I::kInputs);
    if (info.bits != 2 && info.bits != 4 && info.bits != 8)
        return std::to_string(info.bits) + " bits, expected 2, 4 or 8";
    if (info.block < 1 || info.block * info.bits % 8)
        return "blocks of " + std::to_string(info.block) + ", expected whole bytes";
    auto zeros = request.inputs[I::kZeros].dtype;
    DataType const wanted[]{DataType::F32, DataType::U8, DataType::F32, zeros == DataType::U8 ? zeros : DataType::F32,
                            DataType::I32, DataType::F32};
    for (size_t i = 0; i < I::kInputs; ++i) {
        auto type = request.inputs[i].dtype;
        if (type != wanted[i] && (i <= I::kScales || type != DataType::Undefined))
            return "input " + std::to_string(i) + " of " + text_of(type) + ", expected " + text_of(wanted[i]);
    }
    if (request.outputs[0].dtype != DataType::F32)
        return "output of " + text_of(request.outputs[0].dtype) + ", expected f32";
    return {};
}

std::string block_matmul_mismatch(BlockMatMulInfo const& info, BindArgs const& args) {
    auto count = [&](size_t i) { return args.inputs[i] ? args.inputs[i]->count() : -1; };
    auto const &a = args.inputs[I::kA]->dims, &y = args.outputs[0]->dims;
    if (a.empty() || y.empty() || a.back() != info.k || y.back() != info.n ||
        count(I::kA) / std::max<int64_t>(1, info.k) != args.outputs[0]->count() / std::max<int64_t>(1, info.n))
        return "A and Y have " + std::to_string(count(I::kA)) + " and " + std::to_string(args.outputs[0]->count()) +
               " elements for k " + std::to_string(info.k) + " and n " + std::to_string(info.n);
    if (auto const* blocks = args.inputs[I::kBlocks]; blocks && blocks->count() != info.k)
        return "blocks of " + std::to_string(blocks->count()) + " elements, expected " + std::to_string(info.k);
    return block_weights_mismatch(info, 1, args);
}

std::string block_weights_mismatch(BlockMatMulInfo const& info, int64_t matrices, BindArgs const& args) {
    auto columns = matrices * info.n, scales = columns * info.blocks();
    auto const* zeros = args.inputs[I::kZeros];
    bool packed = zeros && zeros->dtype == DataType::U8;
    struct {
        size_t input;
        int64_t wanted;
    } const counts[]{{I::kQ, scales * info.block * info.bits / 8},
                     {I::kScales, scales},
                     {I::kZeros, packed ? columns * ((info.blocks() * info.bits + 7) / 8) : scales},
                     {I::kBias, columns}};
    for (auto [i, wanted] : counts)
        if (auto const* input = args.inputs[i]; input && input->count() != wanted)
            return "input " + std::to_string(i) + " has " + std::to_string(input->count()) + " elements, expected " +
                   std::to_string(wanted);
    return {};
}

BlockDots block_columns(BlockMatMulInfo const& info, void* const* arguments, float const* zeros, int64_t first) {
    BlockDots t{};
    t.bits = info.bits, t.blocks = info.blocks(), t.zero = static_cast<float>(1 << (info.bits - 1));
    t.block_words = std::countr_zero(static_cast<uint64_t>(info.block * info.bits / 32));
    t.q_column = t.blocks * info.block * info.bits / 8;
    t.q = static_cast<uint8_t const*>(arguments[I::kQ]) + first * t.q_column;
    t.scales = static_cast<float const*>(arguments[I::kScales]) + first * t.blocks;
    if (zeros) t.zeros = zeros + first * t.blocks;
    if (arguments[I::kBias]) t.bias = static_cast<float const*>(arguments[I::kBias]) + first;
    return t;
}

std::string why_not_words(BlockMatMulInfo const& info) {
    if (info.block * info.bits >= 32 && std::has_single_bit(static_cast<uint64_t>(info.block))) return {};
    return "blocks of " + std::to_string(info.block) + ", expected a power of 2 of at least " +
           std::to_string(32 / info.bits);
}

float zero_of(BlockMatMulInfo const& info, void const* zeros, DataType type, int64_t column, int64_t block) {
    if (!zeros) return static_cast<float>(1 << (info.bits - 1));
    if (type == DataType::F32) return static_cast<float const*>(zeros)[column * info.blocks() + block];
    auto const* row = static_cast<uint8_t const*>(zeros) + column * ((info.blocks() * info.bits + 7) / 8);
    return static_cast<float>(packed_at(row, info.bits, block));
}

void widen_zeros(BlockMatMulInfo const& info, void const* zeros, DataType type, float* target) {
    for (int64_t j = 0; j < info.n; ++j)
        for (int64_t b = 0; b < info.blocks(); ++b) target[j * info.blocks() + b] = zero_of(info, zeros, type, j, b);
}

std::shared_ptr<mem_manager::Blob const> widened_zeros(BlockMatMulInfo const& info, mem_manager::Blob const& zeros,
                                                       PackCache& packs) {
    return packs.get(
        zeros, "block_matmul:zeros:" + info.attributes(), static_cast<size_t>(info.n * info.blocks()) * sizeof(float),
        [&](void const* from, void* target) { widen_zeros(info, from, DataType::U8, static_cast<float*>(target)); });
}

std::string BlockMatMulInfo::attributes() const {
    return std::to_string(n) + "x" + std::to_string(k) + ",bits=" + std::to_string(bits) +
           ",block=" + std::to_string(block) + (may_round ? ",may_round" : "");
}

Candidates candidates(BlockMatMulInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("block_matmul:nvidia:few_rows", cuda::block_matmul_few_rows(info, request));
        answer.add("block_matmul:nvidia:tiled", cuda::block_matmul_tiled(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "block_matmul/block_matmul_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
