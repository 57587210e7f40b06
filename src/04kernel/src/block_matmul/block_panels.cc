#include "block_matmul/block_panels.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

namespace {

using I = BlockMatMulInfo;

constexpr int64_t kPanel = BlockBytes::kPanel;

class Panels {
    BlockMatMulInfo const& info_;
    int64_t panels_, blocks_, words_;

    /// Of [n][count] dwords makes panels of [count][kPanel], a cache line of each column at a time.
    void transpose(void const* from, int64_t count, uint32_t* to) const {
        constexpr int64_t kLine = 16;
        for (int64_t first = 0; first < info_.n; first += kPanel, to += count * kPanel) {
            auto columns = std::min(kPanel, info_.n - first);
            auto const* panel = static_cast<std::byte const*>(from) + first * count * 4;
            if (columns < kPanel) std::fill(to, to + count * kPanel, 0u);
            for (int64_t line = 0; line < count; line += kLine)
                for (int64_t j = 0; j < columns; ++j)
                    for (auto i = line; i < std::min(count, line + kLine); ++i)
                        std::memcpy(to + i * kPanel + j, panel + (j * count + i) * 4, 4);
        }
    }

public:
    explicit Panels(BlockMatMulInfo const& info)
        : info_(info),
          panels_((info.n + kPanel - 1) / kPanel),
          blocks_(info.blocks()),
          words_(info.block * info.bits / 32) {}
    /// Numbers of a scale for each block, and dwords of weights.
    int64_t blocks() const { return panels_ * blocks_ * kPanel; }
    int64_t words() const { return blocks() * words_; }

    void pack_weights(void const* q, void* target) const {
        transpose(q, blocks_ * words_, static_cast<uint32_t*>(target));
    }
    void pack_scales(void const* scales, void* target) const {
        transpose(scales, blocks_, static_cast<uint32_t*>(target));
    }
    void pack_zeros(void const* zeros, uint8_t* target) const {
        std::fill(target, target + blocks(), uint8_t{0});
        for (int64_t j = 0; j < info_.n; ++j)
            for (int64_t b = 0; b < blocks_; ++b)
                target[(j / kPanel * blocks_ + b) * kPanel + j % kPanel] =
                    static_cast<uint8_t>(zero_of(info_, zeros, DataType::U8, j, b));
    }
};

}  // namespace

BlockOperands::BlockOperands(Request const& request)
    : q(request.inputs[I::kQ].constant),
      scales(request.inputs[I::kScales].constant),
      zeros(request.inputs[I::kZeros].constant) {}

void BlockOperands::set(BlockBytes& t, int64_t column) const {
    auto first = column * t.blocks;
    t.q = static_cast<uint32_t const*>(q->data()) + first * t.words;
    t.scales = static_cast<float const*>(scales->data()) + first;
    t.zeros = zeros ? static_cast<uint8_t const*>(zeros->data()) + first : nullptr;
}

BlockOperands pack_blocks(BlockMatMulInfo const& info, BlockOperands const& from, PackCache& packs) {
    Panels panels(info);
    auto pack = [&](mem_manager::Blob const& blob, char const* what, int64_t bytes, auto&& make) {
        return packs.get(blob, std::string("block_matmul:") + what + ":" + info.attributes(),
                         static_cast<size_t>(bytes), make);
    };
    BlockOperands packed;
    packed.q = pack(*from.q, "panels", panels.words() * 4,
                    [&](void const* q, void* target) { panels.pack_weights(q, target); });
    packed.scales = pack(*from.scales, "panel_scales", panels.blocks() * 4,
                         [&](void const* scales, void* target) { panels.pack_scales(scales, target); });
    if (from.zeros)
        packed.zeros = pack(*from.zeros, "panel_zeros", panels.blocks(), [&](void const* zeros, void* target) {
            panels.pack_zeros(zeros, static_cast<uint8_t*>(target));
        });
    return packed;
}

std::string why_not_bytes(BlockMatMulInfo const& info, Request const& request, Isa isa, BlockBytesFunctions const& f) {
    if (!info.may_round) return "A may not be rounded";
    if (request.precision == Precision::Exact) return "has a larger error than exact precision allows";
    if (auto why = why_not_isa(request, isa); !why.empty()) return why;
    if (info.bits > f.most_bits) return std::to_string(info.bits) + " bits, at most " + std::to_string(f.most_bits);
    // Sums of a block must fit in i16.
    if (info.block < 16 || info.block > 256 || info.block & (info.block - 1))
        return "blocks of " + std::to_string(info.block) + ", expected a power of 2 from 16 to 256";
    auto const& zeros = request.inputs[I::kZeros];
    if (!zeros.absent() && zeros.dtype != DataType::U8) return "zero points that are no integers";
    if (!request.inputs[I::kQ].constant || !request.inputs[I::kScales].constant || !(zeros.absent() || zeros.constant))
        return "needs constant weights, scales and zero points";
    return {};
}

}  // namespace refactor::kernel
