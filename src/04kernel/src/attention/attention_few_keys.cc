#include "attention/attention_row.h"
#include "common/thread_pool.h"
#include "matmul/product.h"
#include "mem_manager/blob.h"
#include "movement/strided_copy.h"
#include "reduce/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string_view>
#include <unordered_map>

namespace refactor::kernel {
namespace {

/// Passes of one instruction set.
struct Functions {
    ProductFunctions const& product;
    RowFunctions const& rows;
    Isa isa;
};

/// Beyond, packing keys and values repays itself. Where rounded products may be used instead, they are as fast sooner.
constexpr int64_t kMostKeys = 112, kMostOfShortVectors = 56, kMostOfRounded = 15;

/// Whether vectors of values take no more products than vectors of queries. Nothing is turned back then.
bool values_fill_lanes(AttentionShape const& shape, int64_t queries, int width) {
    return queries * vectors_of(shape.value_depth, width) <= shape.value_depth * vectors_of(queries, width);
}

using Alike = std::shared_ptr<std::vector<int64_t> const>;
/// For each batch of a constant mask the first that is the same: most shifted windows have none but what all share.
/// Empty if it is not constant, has one batch, or too many keys.
Alike batches_alike(Operand const& mask) {
    auto all = std::make_shared<std::vector<int64_t>>();
    auto& alike = *all;
    if (!mask.constant || mask.dims.size() < 4 || mask.dims[0] < 2 || mask.dims[3] > kMostKeys) return all;
    mem_manager::Blob::Reader reader(*mask.constant);
    auto bytes = static_cast<size_t>(storage_bytes(mask.dtype, mask.count() / mask.dims[0]));
    std::unordered_map<std::string_view, int64_t> first;
    for (int64_t b = 0; b < mask.dims[0]; ++b) {
        auto const* begin = static_cast<char const*>(reader.data()) + static_cast<size_t>(b) * bytes;
        alike.push_back(first.emplace(std::string_view(begin, bytes), b).first->second);
    }
    return all;
}

/// softmax(scale · Q · Kᵀ + mask) · V of few keys. Blocks of queries are turned so that each vector holds one element
/// of many of them: no lane is empty however few keys there are, and nothing is combined across lanes. So is the mask,
/// if there is one, anew only where a block has another one than that before it.
class FewKeys final : public runtime::Task {
    Functions functions_;
    AttentionInfo info_;
    AttentionShape shape_;
    int64_t block_, blocks_;  ///< queries that are turned together, and blocks of them
    int64_t part_, parts_;    ///< units that one thread computes behind each other
    Alike alike_;
    std::vector<int64_t> batches_;  ///< of one mask behind each other, for each head; empty: the heads of each batch
    movement::StridedCopy::PlaneFunction turn_, turn_back_;

    static constexpr auto kBytesOf = static_cast<int64_t>(sizeof(float));
    /// Half of L1: turned queries, scores and turned results.
    static constexpr int64_t kBytes = 16 << 10, kMost = 256;

    /// A block of queries of one head.
    struct Unit {
        int64_t batch, head, first, count;
    };
    Unit unit_at(int64_t i) const {
        auto inner = batches_.empty() ? shape_.heads : shape_.batch;
        auto first = i / inner % blocks_ * block_, outer = i / inner / blocks_;
        auto batch = batches_.empty() ? outer : batches_[static_cast<size_t>(i % inner)];
        return {batch, batches_.empty() ? i % inner : outer, first, std::min(block_, shape_.queries - first)};
    }
    /// The batch of the mask that one of queries has.
    int64_t mask_of(int64_t batch) const {
        auto b = batch % shape_.mask_batches;
        return shape_.mask_step[0] == 0 ? 0 : alike_->empty() ? b : (*alike_)[static_cast<size_t>(b)];
    }
    void order_batches() {
        for (int64_t b = 0; b < shape_.batch; ++b) batches_.push_back(b);
        std::stable_sort(batches_.begin(), batches_.end(),
                         [&](int64_t a, int64_t b) { return mask_of(a) < mask_of(b); });
        auto same = [&](int64_t a, int64_t b) { return mask_of(a) == mask_of(b); };
        if (std::adjacent_find(batches_.begin(), batches_.end(), same) == batches_.end()) batches_.clear();
    }
    /// Y [m, n] = alpha · A [m, k] · B [k, n] + what is added, in rows as far apart as those of Y.
    struct Product {
        int64_t m, n, k;
        float const* a;
        int64_t a_row, a_k;
        float const* b;
        int64_t b_row;
        float* y;
        int64_t y_row;
        float alpha = 1;
        float const* added = nullptr;
    };
    void multiply(Product const& p) const {
        ProductBlock t{};
        t.m = p.m, t.n = p.n, t.k = p.k, t.a = p.a, t.a_row = p.a_row, t.a_k = p.a_k, t.b = p.b, t.b_row = p.b_row;
        t.source = ProductSource::Rows, t.y = p.y, t.y_row = p.y_row, t.alpha = p.alpha, t.residual = p.added;
        t.near = true, t.block_m = p.m, t.block_k = p.k;
        (p.k <= functions_.product.flat ? functions_.product.multiply_flat : functions_.product.multiply)(t);
    }
    /// The mask of floats or bools for a block, keys by queries, as what is added to scores.
    void turn_mask(void const* mask, int64_t at, int64_t count, float* turned) const {
        auto query = shape_.mask_step[2], key = shape_.mask_step[3];
        auto const* floats = static_cast<float const*>(mask) + at;
        if (!shape_.bool_mask && key == 1 && query > 0)
            return turn_(reinterpret_cast<std::byte*>(turned), block_ * kBytesOf,
                         reinterpret_cast<std::byte const*>(floats), query * kBytesOf, shape_.keys, count);
        auto added = [&](int64_t i) {
            if (!shape_.bool_mask) return floats[i];
            return static_cast<unsigned char const*>(mask)[at + i] ? 0 : -INFINITY;
        };
        for (int64_t k = 0; k < shape_.keys; ++k) {
            auto* row = turned + k * block_;
            if (query == 0)
                std::fill_n(row, count, added(k * key));
            else
                for (int64_t q = 0; q < count; ++q) row[q] = added(q * query + k * key);
        }
    }
    /// Weights that are no numbers, or values that may not count, whatever they are.
    void compute_again(void* const* arguments, Unit const& u, int64_t i, float* y) const {
        double weights[kMostKeys];
        AttentionRow<float>(info_, shape_, DataType::F32, arguments, u.batch, u.head, u.first + i, y).compute(weights);
    }
    static bool is_finite(float const* row, int64_t size) {
        constexpr int32_t kInfinity = 0x7f800000;
        int32_t largest = 0;
        for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::bit_cast<int32_t>(row[i]) & kInfinity);
        return largest < kInfinity;
    }
    void run_block(void* const* arguments, Unit const& u, float const* mask, float* turned) const {
        auto const& s = shape_;
        auto kv = u.head / (s.heads / s.kv_heads);
        auto const* q = static_cast<float const*>(arguments[0]) + s.q.at(u.batch, u.head) + u.first * s.q.row;
        auto const* k = static_cast<float const*>(arguments[1]) + s.k.at(u.batch, kv);
        auto const* v = static_cast<float const*>(arguments[2]) + s.v.at(u.batch, kv);
        auto* y = static_cast<float*>(arguments[3 + info_.has_mask]) + s.y.at(u.batch, u.head) + u.first * s.y.row;
        auto *scores = turned + s.depth * block_, *results = scores + s.keys * block_;
        turn_(reinterpret_cast<std::byte*>(turned), block_ * kBytesOf, reinterpret_cast<std::byte const*>(q),
              s.q.row * kBytesOf, s.depth, u.count);
        auto k_row = info_.k_transposed ? 1 : s.k.row, k_depth = info_.k_transposed ? s.k.row : 1;
        multiply({s.keys, u.count, s.depth, k, k_row, k_depth, turned, block_, scores, block_, info_.scale, mask});
        auto together = int64_t{4} * functions_.rows.width;
        for (int64_t i = 0; i < u.count; i += together)
            functions_.rows.softmax_columns(scores + i, scores + i, s.keys, block_, std::min(together, u.count - i),
                                            false, false);
        if (values_fill_lanes(s, u.count, functions_.rows.width)) {
            multiply({u.count, s.value_depth, s.keys, scores, 1, block_, v, s.v.row, y, s.y.row});
        } else {
            multiply({s.value_depth, u.count, s.keys, v, 1, s.v.row, scores, block_, results, block_});
            turn_back_(reinterpret_cast<std::byte*>(y), s.y.row * kBytesOf, reinterpret_cast<std::byte const*>(results),
                       block_ * kBytesOf, u.count, s.value_depth);
        }
        for (int64_t i = 0; i < u.count; ++i) {
            auto* row = y + i * s.y.row;
            if (std::isnan(scores[i]) || (s.bool_mask && !is_finite(row, s.value_depth))) [[unlikely]]
                compute_again(arguments, u, i, row);
        }
    }
    void run_part(void* const* arguments, int64_t part, float* scratch) const {
        auto* mask = info_.has_mask ? scratch : nullptr;
        int64_t turned = -1;  // where the mask lies that has been turned
        for (auto i = part * part_, end = std::min(i + part_, units()); i < end; ++i) {
            auto u = unit_at(i);
            auto at = shape_.mask_at(mask_of(u.batch), u.head, u.first);
            if (mask && at != turned) turn_mask(arguments[3], at, u.count, mask), turned = at;
            run_block(arguments, u, mask, scratch + mask_floats());
        }
    }
    int64_t mask_floats() const { return info_.has_mask ? shape_.keys * block_ : 0; }
    int64_t units() const { return shape_.batch * shape_.heads * blocks_; }

public:
    FewKeys(Functions const& functions, AttentionInfo const& info, AttentionShape const& shape, Alike alike,
            int threads)
        : functions_(functions), info_(info), shape_(shape), alike_(std::move(alike)) {
        auto lanes = int64_t{4} * functions.rows.width;
        auto floats = kBytes / kBytesOf / (shape.depth + shape.keys + shape.value_depth);
        block_ = std::clamp(floats / lanes * lanes, lanes, kMost);
        auto sets = std::max<int64_t>(1, shape.batch * shape.heads);
        while (block_ > lanes && threads > 1 && sets * (shape.queries / block_) < 4 * threads) block_ -= lanes;
        blocks_ = (shape.queries + block_ - 1) / block_;
        if (info.has_mask) order_batches();
        parts_ = std::min(units(), threads > 1 ? int64_t{8} * threads : 1);
        part_ = parts_ ? (units() + parts_ - 1) / parts_ : 0;
        turn_ = movement::plane_function(sizeof(float), block_, functions.isa);
        turn_back_ = movement::plane_function(sizeof(float), shape.value_depth, functions.isa);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(parts_, [&](int64_t part, int worker) {
            run_part(arguments, part, reinterpret_cast<float*>(context.scratch_of(worker)));
        });
    }
    size_t scratch_bytes() const override {
        auto rows = shape_.depth + shape_.keys + shape_.value_depth;
        return static_cast<size_t>(rows * block_ + mask_floats()) * sizeof(float);
    }
    double operations() const override { return shape_.operations(); }
};

class FewKeysKernel final : public Kernel {
    Functions functions_;
    AttentionInfo info_;
    Alike alike_;
    int64_t masks_;  ///< that differ, of those of a constant mask; 0: it is not known

    std::string init(AttentionShape& shape, BindArgs const& args) const {
        if (auto why = shape.init(info_, args); !why.empty()) return why;
        auto most = functions_.rows.width == 16 ? kMostKeys : kMostOfShortVectors;
        if (info_.may_round) most = kMostOfRounded;
        if (shape.depth < 1 || shape.value_depth < 1) return "keys or values have no elements";
        if (shape.keys < 1 || shape.keys > most)
            return std::to_string(shape.keys) + " keys, expected 1 to " + std::to_string(most);
        return {};
    }

    /// Queries whose masks are turned.
    double turned_masks(AttentionShape const& shape) const {
        auto often = [&](int axis, int64_t size) { return shape.mask_step[axis] == 0 ? int64_t{1} : size; };
        auto batches = masks_ ? masks_ : often(0, shape.batch);
        return static_cast<double>(batches * often(1, shape.heads) * often(2, shape.queries)) * info_.has_mask;
    }

public:
    FewKeysKernel(Functions const& functions, AttentionInfo const& info, Alike alike)
        : functions_(functions),
          info_(info),
          alike_(std::move(alike)),
          masks_(std::ssize(std::set<int64_t>(alike_->begin(), alike_->end()))) {}
    std::string id() const override { return id_of("attention", "few_keys", DataType::F32, functions_.isa); }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        auto width = functions_.rows.width;
        auto queries = vectors_of(shape.queries, width), values = vectors_of(shape.value_depth, width);
        bool in_rows = values_fill_lanes(shape, shape.queries, width);
        auto sums = queries * shape.depth + (in_rows ? shape.queries * values : shape.value_depth * queries);
        auto turned = shape.queries * (shape.depth + (in_rows ? 0 : shape.value_depth));
        auto work =
            static_cast<double>(shape.keys) * (0.27 * static_cast<double>(sums) + 7.9 * static_cast<double>(queries));
        auto head = 116 + vector_time(width) * work + 0.145 * static_cast<double>(turned);
        auto masks = turned_masks(shape) * static_cast<double>(shape.keys) * (shape.bool_mask ? 1.2 : 0.6);
        return 100 + (static_cast<double>(shape.batch * shape.heads) * head + masks) / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        AttentionShape shape;
        if (auto why = init(shape, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new FewKeys(functions_, info_, shape, alike_, args.threads));
    }
};

MaybeKernel make(AttentionInfo const& info, Request const& request, Functions const& functions) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < functions.isa)
        return reject("needs " + std::string(name_of(functions.isa)) + ", allowed is " +
                      std::string(name_of(request.isa)));
    if (info.causal || info.has_sinks || info.softcap > 0) return reject("is causal, or has sinks or a cap");
    for (size_t i = 0; i < size_t{3} + info.has_mask; ++i)
        if (auto dtype = request.inputs[i].dtype; dtype != DataType::F32 && (i < 3 || dtype != DataType::Bool))
            return reject("input " + std::to_string(i) + " is " + std::string(name_of(dtype)) + ", expected f32" +
                          (i < 3 ? "" : " or bool"));
    if (info.has_mask && request.inputs[3].dtype == DataType::F32 && info.hidden != HiddenKeys::Added)
        return reject("the mask takes the place of scores");
    if (auto why = why_not_outputs_of(request, DataType::F32); !why.empty()) return reject(why);
    auto alike = info.has_mask ? batches_alike(request.inputs[3]) : std::make_shared<std::vector<int64_t>>();
    return std::unique_ptr<Kernel>(new FewKeysKernel(functions, info, std::move(alike)));
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
