#include "passes/round_products.h"

#include "computation/operator.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/matmul.h"
#include "made_constants.h"
#include "mem_manager/blob.h"
#include "passes/constants.h"
#include "passes/lower_precision.h"
#include "passes/small_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace refactor::computation {

namespace {

using kernel::BlockMatMulInfo;
using mem_manager::Blob;
using I = BlockMatMulInfo;

constexpr int64_t kLeastDepth = 32;

/// Of bytes the largest that divides K, of those whose sums fit into kernels' words; else the smallest, padded.
int64_t block_of(int64_t k, int32_t bits) {
    for (int64_t block : {128, 64})
        if (bits == 8 && k % block == 0) return block;
    return kLeastDepth;
}

/// What takes the elements of a block to integers. Bytes stand for -127 to 127, so that both signs have as many; of 4
/// bits all 16 numbers count, and the element of the largest magnitude is -8, whatever its sign. Source of the latter:
/// the format Q4_0 of llama.cpp.
float scale_of(float const* elements, int64_t count, int32_t bits) {
    float largest = 0;
    for (int64_t p = 0; p < count; ++p) largest = std::max(largest, std::abs(elements[p]));
    if (bits == 8) return largest / 127;
    auto has_largest = [&](float x) { return x == largest; };
    return (std::any_of(elements, elements + count, has_largest) ? largest : -largest) / -8;
}

/// The integer, as a float, that stands for an element.
float integer_of(float element, float inverse, int32_t bits) {
    auto half = static_cast<float>(1 << (bits - 1));
    return std::clamp(element * inverse + kRounder - kRounder, -half, half - 1);
}

/// A constant f32 matrix, cut into blocks along K.
struct BlockedMatrix {
    std::shared_ptr<Blob const> blob;
    BlockMatMulInfo info;
    bool transposed;  ///< [N, K], else [K, N]

    /// Columns that are copied at once: of a row of [K, N] whole lines of the cache.
    static constexpr int64_t kColumns = 64;

    /// Calls `f(scale index, elements)` for each block of each column of `data`, padded by zeros.
    template <class F>
    void for_blocks(void const* of, F&& f) const {
        auto const* data = static_cast<float const*>(of);
        auto row = transposed ? 1 : info.n, column = transposed ? info.k : 1;
        std::vector<float> tile(static_cast<size_t>(kColumns * info.block));
        for (int64_t j0 = 0; j0 < info.n; j0 += kColumns)
            for (int64_t b = 0; b < info.blocks(); ++b) {
                auto columns = std::min(kColumns, info.n - j0), p0 = b * info.block;
                auto depth = std::min(info.block, info.k - p0);
                if (depth < info.block) std::fill(tile.begin(), tile.end(), 0.f);
                for (int64_t p = 0; p < depth; ++p)
                    for (int64_t j = 0; j < columns; ++j)
                        tile[static_cast<size_t>(j * info.block + p)] = data[(p0 + p) * row + (j0 + j) * column];
                for (int64_t j = 0; j < columns; ++j) f((j0 + j) * info.blocks() + b, tile.data() + j * info.block);
            }
    }
};

/// What makes the integers of a matrix, given what multiplies the elements of each block.
template <int bits>
Maker packing(BlockedMatrix const& matrix, std::vector<float> inverse) {
    return [matrix, inverse = std::move(inverse)](std::span<void const* const> from, void* to) {
        constexpr int kTogether = 8 / bits, kZero = 1 << (bits - 1);
        matrix.for_blocks(from[0], [&](int64_t at, float const* elements) {
            auto bytes = matrix.info.block / kTogether;
            auto* target = static_cast<uint8_t*>(to) + at * bytes;
            auto const of_block = inverse[static_cast<size_t>(at)];
            for (int64_t i = 0; i < bytes; ++i) {
                int byte = 0;
                for (int part = 0; part < kTogether; ++part) {
                    auto number = integer_of(elements[i * kTogether + part], of_block, bits);
                    byte |= (static_cast<int>(number) + kZero) << (part * bits);
                }
                target[i] = static_cast<uint8_t>(byte);
            }
        });
    };
}

struct RoundedMatrix {
    EdgePtr q = nullptr, scales = nullptr;
    std::string refusal;
};

class Rounding {
    Model& model_;
    PassContext const& context_;
    std::set<NodePtr> kept_;
    std::map<std::tuple<Blob const*, bool, float>, RoundedMatrix> rounded_;
    int32_t bits_;
    bool rounds_rows_;
    int products_ = 0, without_kernel_ = 0;
    size_t before_ = 0, after_ = 0;
    double error_ = 0;
    std::string worst_;

    /// `alpha`: a factor of the product, which becomes one of the scales.
    RoundedMatrix const& round(BlockedMatrix const& matrix, float alpha, std::string const& name) {
        auto [it, fresh] = rounded_.try_emplace({matrix.blob.get(), matrix.transposed, alpha});
        auto& rounded = it->second;
        if (!fresh) return rounded;
        auto const& info = matrix.info;
        std::vector<float> scales(static_cast<size_t>(info.n * info.blocks())), inverse(scales.size());
        double changed = 0, all = 0;
        matrix.for_blocks(Blob::Reader(*matrix.blob).data(), [&](int64_t at, float const* elements) {
            float error = 0, norm = 0;
            auto& scale = scales[static_cast<size_t>(at)];
            scale = scale_of(elements, info.block, info.bits);
            auto of_block = std::isnormal(scale) ? 1 / scale : 0;
            inverse[static_cast<size_t>(at)] = of_block;
            for (int64_t p = 0; p < info.block; ++p) {
                auto x = elements[p], less = x - integer_of(x, of_block, info.bits) * scale;
                error += less * less, norm += x * x;
            }
            changed += static_cast<double>(error), all += static_cast<double>(norm);
            scale *= alpha;
        });
        if (!std::isfinite(all)) return rounded.refusal = "an element is not finite or too large", rounded;
        auto error = all > 0 ? std::sqrt(changed / all) : 0;
        if (worst_.empty() || error > error_) error_ = error, worst_ = name;
        auto bytes = info.block * info.bits / 8;
        auto make = info.bits == 8 ? packing<8>(matrix, std::move(inverse)) : packing<4>(matrix, std::move(inverse));
        rounded.q = add_made(model_.graph, name + "/q", DataType::U8, {info.n, info.blocks(), bytes}, {matrix.blob},
                             std::move(make));
        before_ += matrix.blob->bytes();
        after_ += static_cast<size_t>(info.n * info.blocks() * bytes) + scales.size() * sizeof(float);
        rounded.scales = add_numbers(model_.graph, name + "/scales", scales);
        return rounded;
    }

    /// Or nothing, if the product is none that can be rounded or worth a word.
    std::optional<BlockedMatrix> matrix_of(NodePtr node, kernel::MatMulInfo const& product) const {
        auto const *a = node->input(0), *b = node->input(1);
        bool floats = a->value.dtype == DataType::F32 && b->value.dtype == DataType::F32;
        if (!b->value.constant || !floats || product.scaled || b->value.shape.size() < 2) return std::nullopt;
        Dims dims;
        for (auto const& size : b->value.shape) dims.push_back(size.constant().value_or(0));
        auto rows = dims[dims.size() - 2], columns = dims.back();
        if (product.trans_b) std::swap(rows, columns);
        if (element_count(dims) != rows * columns || rows * columns < kWorthStoringSmall || rows < kLeastDepth)
            return std::nullopt;
        BlockMatMulInfo info;
        info.n = columns, info.k = rows, info.bits = bits_, info.block = block_of(rows, bits_);
        info.may_round = rounds_rows_;
        return BlockedMatrix{b->value.constant, info, product.trans_b};
    }
    /// Why a product that could be rounded is not.
    std::string refuse(NodePtr node, kernel::MatMulInfo const& product, BlockedMatrix const& matrix) const {
        if (kept_.contains(node)) return "the user keeps it";
        if (product.trans_a) return "A is transposed";
        if (node->input(0)->value.shape.size() < 2) return "A is a vector";
        if (product.epilogue.residual || product.epilogue.activation.kind != kernel::ActivationKind::None)
            return "more is computed with it";
        if (product.epilogue.bias && element_count(node->input(2)->value.shape) != DimExpr(matrix.info.n))
            return "its bias is no number for each column";
        return {};
    }
    bool leave(NodePtr node, std::string const& why) {
        context_.note('"' + node->value.name + "\" stays f32: " + why);
        return false;
    }

public:
    Rounding(Model& model, PassContext const& context)
        : model_(model),
          context_(context),
          bits_(context.options.weights == DataType::I4 ? 4 : 8),
          rounds_rows_(context.options.round_products) {
        std::vector<std::string> unknown;
        kept_ = nodes_kept_in_f32(model, context, &unknown);
        for (auto const& name : unknown) context.note("keep_f32: no node of this program is named \"" + name + '"');
    }

    bool round(NodePtr node, kernel::MatMulInfo const& product) {
        auto matrix = matrix_of(node, product);
        if (!matrix) return false;
        if (bits_ == 8 && !kernel::rounds_rows(matrix->info, context_.isa)) return ++without_kernel_, false;
        if (auto why = refuse(node, product, *matrix); !why.empty()) return leave(node, why);
        auto const& rounded = round(*matrix, product.alpha, node->input(1)->value.name);
        if (!rounded.q) return leave(node, rounded.refusal);
        std::vector<EdgePtr> inputs(I::kInputs, nullptr);
        inputs[I::kA] = node->input(0), inputs[I::kQ] = rounded.q, inputs[I::kScales] = rounded.scales;
        if (product.epilogue.bias) inputs[I::kBias] = node->input(2);
        auto* made = model_.graph.insert({node->value.name, make_operator(matrix->info)}, inputs);
        made->output()->value = node->output()->value;
        model_.graph.replace_all_uses(node->output(), made->output());
        model_.graph.erase(node);
        return ++products_, true;
    }
    bool round(NodePtr node, BlockMatMulInfo info) {
        if (!rounds_rows_ || info.may_round || kept_.contains(node) || !kernel::rounds_rows(info, context_.isa))
            return false;
        info.may_round = true;
        node->value.op = make_operator(info);
        return true;
    }
    void report() const {
        if (without_kernel_)
            context_.note(std::to_string(without_kernel_) +
                          " products stay f32: " + std::string(name_of(context_.isa)) + " has no faster ones of bytes");
        if (!products_) return;
        char text[200];
        auto const* both = rounds_rows_ ? "round both operands" : "have weights rounded";
        std::snprintf(text, sizeof text,
                      "%d products %s to %s: %.1f MiB instead of %.1f; largest error of weights %.2g of", products_,
                      both,
                      bits_ == 8     ? "8 bits"
                      : rounds_rows_ ? "8 and 4 bits"
                                     : "4 bits",
                      static_cast<double>(after_) / 0x1p20, static_cast<double>(before_) / 0x1p20, error_);
        context_.note(std::string(text) + " the norm, in \"" + worst_ + '"');
    }
};

}  // namespace

int round_products(Model& model, PassContext const& context) {
    if (!context.options.round_products && context.options.weights != DataType::I4) return 0;
    Rounding rounding(model, context);
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (auto const* product = info_of<kernel::MatMulInfo>(*node->value.op))
            changes += rounding.round(node, kernel::MatMulInfo(*product));
        else if (auto const* blocks = info_of<BlockMatMulInfo>(*node->value.op))
            changes += rounding.round(node, *blocks);
    }
    rounding.report();
    return changes;
}

}  // namespace refactor::computation
