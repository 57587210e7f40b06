#include "attention/attention_row.h"
#include "common/thread_pool.h"
#include "matmul/product.h"
#include "movement/strided_copy.h"
#include "reduce/rows.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

/// Passes of one instruction set.
struct Functions {
    ProductFunctions const& product;
    RowFunctions const& rows;
    Isa isa;
};

/// Of any instruction set; beyond, keys fill lanes well enough. Where rounded products may be used instead, they are
/// as fast sooner.
constexpr int64_t kMostKeys = 56, kMostOfShortVectors = 20, kMostOfRounded = 15;

/// softmax(scale · Q · Kᵀ) · V of few keys. Blocks of queries are turned so that each vector holds one element of many
/// of them: no lane is empty however few keys there are, and nothing is combined across lanes.
class FewKeys final : public runtime::Task {
    Functions functions_;
    AttentionInfo info_;
    AttentionShape shape_;
    int64_t block_, blocks_;  ///< queries that are turned together, and blocks of them
    movement::StridedCopy::PlaneFunction turn_, turn_back_;

    /// Half of L1: turned queries, scores and turned results.
    static constexpr int64_t kBytes = 16 << 10, kMost = 256;

    /// Y [m, n] = A [m, k] · B [k, n], of which B and Y are blocks.
    void multiply(int64_t m, int64_t n, int64_t k, float const* a, int64_t a_row, int64_t a_k, float const* b, float* y,
                  float alpha) const {
        ProductBlock t{};
        t.m = m, t.n = n, t.k = k, t.a = a, t.a_row = a_row, t.a_k = a_k, t.b = b, t.b_row = block_;
        t.source = ProductSource::Rows, t.y = y, t.y_row = block_, t.alpha = alpha;
        t.near = true, t.block_m = m, t.block_k = k;
        (k <= functions_.product.flat ? functions_.product.multiply_flat : functions_.product.multiply)(t);
    }
    /// Weights that are no numbers: what becomes of such a query is up to `info`.
    void compute_again(void* const* arguments, int64_t batch, int64_t head, int64_t query, float* y) const {
        double weights[kMostKeys];
        AttentionRow<float>(info_, shape_, DataType::F32, arguments, batch, head, query, y).compute(weights);
    }
    void run_block(void* const* arguments, int64_t unit, float* turned) const {
        auto const& s = shape_;
        auto set = unit / blocks_, batch = set / s.heads, head = set % s.heads, kv = head / (s.heads / s.kv_heads);
        auto first = unit % blocks_ * block_, count = std::min(block_, s.queries - first);
        auto const* q = static_cast<float const*>(arguments[0]) + s.q.at(batch, head) + first * s.q.row;
        auto const* k = static_cast<float const*>(arguments[1]) + s.k.at(batch, kv);
        auto const* v = static_cast<float const*>(arguments[2]) + s.v.at(batch, kv);
        auto* y = static_cast<float*>(arguments[3]) + s.y.at(batch, head) + first * s.y.row;
        auto *scores = turned + s.depth * block_, *results = scores + s.keys * block_;
        constexpr auto kBytesOf = static_cast<int64_t>(sizeof(float));
        turn_(reinterpret_cast<std::byte*>(turned), block_ * kBytesOf, reinterpret_cast<std::byte const*>(q),
              s.q.row * kBytesOf, s.depth, count);
        auto k_row = info_.k_transposed ? 1 : s.k.row, k_depth = info_.k_transposed ? s.k.row : 1;
        multiply(s.keys, count, s.depth, k, k_row, k_depth, turned, scores, info_.scale);
        auto together = int64_t{4} * functions_.rows.width;
        for (int64_t i = 0; i < count; i += together)
            functions_.rows.softmax_columns(scores + i, scores + i, s.keys, block_, std::min(together, count - i),
                                            false, false);
        multiply(s.value_depth, count, s.keys, v, 1, s.v.row, scores, results, 1);
        turn_back_(reinterpret_cast<std::byte*>(y), s.y.row * kBytesOf, reinterpret_cast<std::byte const*>(results),
                   block_ * kBytesOf, count, s.value_depth);
        for (int64_t i = 0; i < count; ++i)
            if (std::isnan(scores[i])) [[unlikely]]
                compute_again(arguments, batch, head, first + i, y + i * s.y.row);
    }

public:
    FewKeys(Functions const& functions, AttentionInfo const& info, AttentionShape const& shape, int threads)
        : functions_(functions), info_(info), shape_(shape) {
        auto lanes = int64_t{4} * functions.rows.width;
        auto floats = kBytes / static_cast<int64_t>(sizeof(float)) / (shape.depth + shape.keys + shape.value_depth);
        block_ = std::clamp(floats / lanes * lanes, lanes, kMost);
        auto sets = std::max<int64_t>(1, shape.batch * shape.heads);
        while (block_ > lanes && threads > 1 && sets * (shape.queries / block_) < 4 * threads) block_ -= lanes;
        blocks_ = (shape.queries + block_ - 1) / block_;
        turn_ = movement::plane_function(sizeof(float), block_, functions.isa);
        turn_back_ = movement::plane_function(sizeof(float), shape.value_depth, functions.isa);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(shape_.batch * shape_.heads * blocks_, [&](int64_t unit, int worker) {
            run_block(arguments, unit, reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
    size_t scratch_bytes() const override {
        return static_cast<size_t>((shape_.depth + shape_.keys + shape_.value_depth) * block_) * sizeof(float);
    }
    double operations() const override { return shape_.operations(); }
};

class FewKeysKernel final : public Kernel {
    Functions functions_;
    AttentionInfo info_;

    std::string init(AttentionShape& shape, BindArgs const& args) const {
        if (auto why = shape.init(info_, args); !why.empty()) return why;
        auto most = functions_.rows.width == 16 ? kMostKeys : kMostOfShortVectors;
        if (info_.may_round) most = std::min(most, kMostOfRounded);
        if (shape.depth < 1 || shape.value_depth < 1) return "keys or values have no elements";
        if (shape.keys < 1 || shape.keys > most)
            return std::to_string(shape.keys) + " keys, expected 1 to " + std::to_string(most);
        return {};
    }

public:
    FewKeysKernel(Functions const& functions, AttentionInfo const& info) : functions_(functions), info_(info) {}
    std::string id() const override { return id_of("attention", "few_keys", DataType::F32, functions_.isa); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        auto width = functions_.rows.width;
        auto lanes = static_cast<double>(shape.batch * shape.heads * ((shape.queries + width - 1) / width * width));
        auto elements = static_cast<double>(shape.depth + shape.value_depth), keys = static_cast<double>(shape.keys);
        // Turning, exponentials and products, measured on Zen 4 beside the tiled kernels.
        auto query = 0.37 * elements + keys * (10. + 0.45 * elements) / width;
        return 100 + lanes * query / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new FewKeys(functions_, info_, shape, args.threads));
    }
};

MaybeKernel make(AttentionInfo const& info, Request const& request, Functions const& functions) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < functions.isa)
        return reject("needs " + std::string(name_of(functions.isa)) + ", allowed is " +
                      std::string(name_of(request.isa)));
    if (info.has_mask || info.causal || info.has_sinks || info.softcap > 0)
        return reject("with a mask, sinks or a cap");
    for (size_t i = 0; i < 3; ++i)
        if (auto dtype = request.inputs[i].dtype; dtype != DataType::F32)
            return reject("input " + std::to_string(i) + " is " + std::string(name_of(dtype)) + ", expected f32");
    if (auto why = why_not_outputs_of(request, DataType::F32); !why.empty()) return reject(why);
    return std::unique_ptr<Kernel>(new FewKeysKernel(functions, info));
}

}  // namespace

#if RG_X86
MaybeKernel make_attention_few_keys_avx512(AttentionInfo const& info, Request const& request) {
    return make(info, request, {product_functions_avx512(), row_functions_avx512(), Isa::Avx512});
}
MaybeKernel make_attention_few_keys_avx2(AttentionInfo const& info, Request const& request) {
    return make(info, request, {product_functions_avx2(), row_functions_avx2(), Isa::Avx2});
}
#else
MaybeKernel make_attention_few_keys_avx512(AttentionInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_attention_few_keys_avx2(AttentionInfo const&, Request const&) {
    return reject("not built for this architecture");
}
#endif

}  // namespace refactor::kernel
