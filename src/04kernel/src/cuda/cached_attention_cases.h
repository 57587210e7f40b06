#pragma once
#include "cuda/device_test.h"
#include "cuda/rows_cases.h"
#include "kernel/ops/cache.h"

#include <limits>

/// Cases of attention that joins its caches, and what they give by the reference.
namespace refactor::kernel::testing::caches {

using rows::numbers;
using enum DataType;

struct Case {
    DataType q, past, present;
    int64_t batch = 1, heads = 2, kv_heads = 2, queries = 1, added = 1, before = 5, depth = 16, value_depth = 16;
    DataType mask = Undefined;
    bool causal = false, sinks = false, views = false;
    Dims mask_dims{};
    float softcap = 0;
    DataType fresh = Undefined;  ///< of Q's type
};

inline CachedAttentionInfo info_of(Case const& c) {
    AttentionInfo info;
    info.scale = 0.3f, info.softcap = c.softcap, info.causal = c.causal, info.views = c.views;
    info.has_mask = c.mask != Undefined, info.has_sinks = c.sinks;
    info.hidden = HiddenKeys::Absent, info.unseen_to_zero = true;
    return {info};
}

/// Q is a part of [B, S, 3, H, D], Y is [B, S, H, Dv].
inline std::vector<int64_t> params_of(Case const& c) {
    if (!c.views) return {};
    auto T = c.before + c.added, row = c.heads * c.depth;
    return {c.batch,
            c.heads,
            c.kv_heads,
            c.queries,
            T,
            c.depth,
            c.value_depth,
            row,
            c.queries * 3 * row,
            c.depth,
            3 * row,
            0,
            c.kv_heads * T * c.depth,
            T * c.depth,
            c.depth,
            0,
            c.kv_heads * T * c.value_depth,
            T * c.value_depth,
            c.value_depth,
            0,
            c.queries * c.heads * c.value_depth,
            c.value_depth,
            c.heads * c.value_depth};
}

inline std::vector<Tensor> inputs_of(Case const& c, std::mt19937& random) {
    auto fresh = c.fresh == Undefined ? c.q : c.fresh;
    auto q = c.views ? Dims{c.batch, c.queries, 3, c.heads, c.depth} : Dims{c.batch, c.heads, c.queries, c.depth};
    std::vector<Tensor> inputs{numbers(c.q, q, random),
                               numbers(c.past, {c.batch, c.kv_heads, c.before, c.depth}, random),
                               numbers(fresh, {c.batch, c.kv_heads, c.added, c.depth}, random),
                               numbers(c.past, {c.batch, c.kv_heads, c.before, c.value_depth}, random),
                               numbers(fresh, {c.batch, c.kv_heads, c.added, c.value_depth}, random)};
    auto T = c.before + c.added;
    if (c.mask != Undefined) {
        auto dims = c.mask_dims.empty() ? Dims{c.batch, c.heads, c.queries, T} : c.mask_dims;
        inputs.push_back(numbers(c.mask, dims, random));
        // One row sees nothing, and some keys are hidden from all others.
        auto hide = [&](int64_t i) {
            if (c.mask == Bool) return void(inputs.back().as<uint8_t>()[i] = 0);
            visit_float(c.mask, [&](auto tag) {
                using Element = typename decltype(tag)::type;
                inputs.back().as<Element>()[i] = narrow<Element>(-std::numeric_limits<double>::infinity());
            });
        };
        for (int64_t i = 0; i < inputs.back().count(); ++i)
            if (i < T || i % 5 == 2) hide(i);
    }
    if (c.sinks) inputs.push_back(numbers(c.q, {c.heads}, random));
    return inputs;
}

inline std::vector<Tensor> outputs_of(Case const& c) {
    auto T = c.before + c.added;
    return {Tensor(c.q, c.views ? Dims{c.batch, c.queries, c.heads, c.value_depth}
                                : Dims{c.batch, c.heads, c.queries, c.value_depth}),
            Tensor(c.present, {c.batch, c.kv_heads, T, c.depth}),
            Tensor(c.present, {c.batch, c.kv_heads, T, c.value_depth})};
}

inline Tensor as_doubles(Tensor& t) {
    Tensor wide(F64, t.dims);
    auto values = reals(t);
    std::copy(values.begin(), values.end(), wide.as<double>());
    return wide;
}

inline Tensor joined(Tensor& past, Tensor& added) {
    auto dims = past.dims;
    dims[2] += added.dims[2];
    Tensor whole(F64, dims);
    auto first = reals(past), second = reals(added);
    auto rows = dims[0] * dims[1], before = past.dims[2] * dims[3], behind = added.dims[2] * dims[3];
    for (int64_t row = 0; row < rows; ++row) {
        auto* at = whole.as<double>() + row * (before + behind);
        std::copy_n(first.begin() + row * before, before, at);
        std::copy_n(second.begin() + row * behind, behind, at + before);
    }
    return whole;
}

/// Y, and the joined caches, by the reference in f64.
inline std::vector<Tensor> expected_of(Case const& c, std::vector<Tensor>& inputs) {
    auto k = joined(inputs[1], inputs[2]), v = joined(inputs[3], inputs[4]);
    std::vector<Tensor> operands{as_doubles(inputs[0]), k, v};
    for (size_t i = 5; i < inputs.size(); ++i)
        operands.push_back(inputs[i].dtype == Bool ? inputs[i] : as_doubles(inputs[i]));
    auto y = run_reference(info_of(c).attention, operands, {Tensor(F64, outputs_of(c)[0].dims)}, params_of(c));
    return {y[0], k, v};
}

inline std::vector<Case> types() {
    std::vector<Case> cases;
    for (auto q : {F32, F16, BF16})
        for (auto past : {F32, F16, BF16})
            for (auto present : {F32, F16, BF16}) cases.push_back({q, past, present});
    cases.push_back({.q = F16, .past = F32, .present = F32, .fresh = BF16});
    return cases;
}

/// What decides about the code, and how it is cut.
inline std::vector<Case> shapes() {
    return {
        {.q = F16,
         .past = F32,
         .present = F32,
         .heads = 6,
         .kv_heads = 2,
         .before = 300,
         .depth = 64,
         .value_depth = 64},
        {.q = F32, .past = F32, .present = F32, .batch = 2, .queries = 3, .added = 3, .before = 17, .causal = true},
        {.q = F32, .past = F32, .present = F32, .queries = 2, .before = 9, .depth = 5, .value_depth = 7, .views = true},
        {.q = F16,
         .past = F16,
         .present = F16,
         .heads = 4,
         .kv_heads = 1,
         .queries = 8,
         .added = 8,
         .before = 0,
         .depth = 128,
         .value_depth = 64,
         .causal = true,
         .views = true},
        {.q = F16, .past = F32, .present = F32, .before = 129, .depth = 80, .value_depth = 48, .mask = F16},
        {.q = BF16, .past = BF16, .present = F32, .batch = 2, .queries = 2, .before = 40, .mask = Bool, .sinks = true},
        {.q = F32, .past = F32, .present = F16, .batch = 2, .before = 40, .mask = F32, .mask_dims = {2, 1, 1, 41}},
        {.q = F16, .past = F16, .present = F16, .before = 21, .mask = F32, .mask_dims = {22}, .softcap = 2},
        {.q = F32,
         .past = F32,
         .present = F32,
         .heads = 1,
         .kv_heads = 1,
         .before = 700,
         .depth = 256,
         .value_depth = 8},
        {.q = F16,
         .past = F32,
         .present = F32,
         .batch = 3,
         .heads = 48,
         .kv_heads = 6,
         .before = 270,
         .depth = 8,
         .value_depth = 128,
         .sinks = true},
        {.q = F16,
         .past = F16,
         .present = F16,
         .heads = 1,
         .kv_heads = 1,
         .before = 3,
         .depth = 33,
         .value_depth = 100},
        {.q = F32, .past = F32, .present = F32, .queries = 4, .added = 2, .before = 3, .causal = true},
        {.q = F32, .past = F32, .present = F32, .queries = 2, .added = 0, .before = 4},
        {.q = F32, .past = F32, .present = F32, .queries = 20, .added = 20, .before = 7, .causal = true},
        {.q = F16, .past = F32, .present = F32, .queries = 9, .added = 9, .before = 0, .mask = F16, .views = true},
    };
}

}  // namespace refactor::kernel::testing::caches
