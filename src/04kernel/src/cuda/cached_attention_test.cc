// Attention that joins its caches on the way, on the emulated GPU and through NVRTC.
#include "cuda/device_test.h"
#include "cuda/plugin_compiler.h"
#include "cuda/rows_cases.h"
#include "cuda/source_collector.h"
#include "kernel/ops/cache.h"

#include <limits>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::rows;
using enum DataType;

constexpr unsigned kSeed = 20261128;

/// The second candidate alone.
struct Composed : CachedAttentionInfo {};
Candidates candidates(Composed const& info, Request const& request) {
    auto found = kernel::candidates(static_cast<CachedAttentionInfo const&>(info), request);
    found.kernels.erase(found.kernels.begin());
    return found;
}

struct Case {
    DataType q, past, present;
    int64_t batch = 1, heads = 2, kv_heads = 2, queries = 1, added = 1, before = 5, depth = 16, value_depth = 16;
    DataType mask = Undefined;
    bool causal = false, sinks = false, views = false;
    Dims mask_dims{};
    float softcap = 0;
    DataType fresh = Undefined;  ///< of Q's type
};

CachedAttentionInfo info_of(Case const& c) {
    AttentionInfo info;
    info.scale = 0.3f, info.softcap = c.softcap, info.causal = c.causal, info.views = c.views;
    info.has_mask = c.mask != Undefined, info.has_sinks = c.sinks;
    info.hidden = HiddenKeys::Absent, info.unseen_to_zero = true;
    return {info};
}

/// Q is a part of [B, S, 3, H, D], Y is [B, S, H, Dv].
std::vector<int64_t> params_of(Case const& c) {
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

std::vector<Tensor> inputs_of(Case const& c, std::mt19937& random) {
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

std::vector<Tensor> outputs_of(Case const& c) {
    auto T = c.before + c.added;
    return {Tensor(c.q, c.views ? Dims{c.batch, c.queries, c.heads, c.value_depth}
                                : Dims{c.batch, c.heads, c.queries, c.value_depth}),
            Tensor(c.present, {c.batch, c.kv_heads, T, c.depth}),
            Tensor(c.present, {c.batch, c.kv_heads, T, c.value_depth})};
}

Tensor as_doubles(Tensor& t) {
    Tensor wide(F64, t.dims);
    auto values = reals(t);
    std::copy(values.begin(), values.end(), wide.as<double>());
    return wide;
}

Tensor joined(Tensor& past, Tensor& added) {
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
std::vector<Tensor> expected_of(Case const& c, std::vector<Tensor>& inputs) {
    auto k = joined(inputs[1], inputs[2]), v = joined(inputs[3], inputs[4]);
    std::vector<Tensor> operands{as_doubles(inputs[0]), k, v};
    for (size_t i = 5; i < inputs.size(); ++i)
        operands.push_back(inputs[i].dtype == Bool ? inputs[i] : as_doubles(inputs[i]));
    auto y = run_reference(info_of(c).attention, operands, {Tensor(F64, outputs_of(c)[0].dims)}, params_of(c));
    return {y[0], k, v};
}

void expect_near(Tensor& actual, Tensor& expected, double tolerance, std::string const& where) {
    auto a = reals(actual), e = reals(expected);
    ASSERT_EQ(a.size(), e.size());
    for (size_t i = 0; i < a.size(); ++i)
        if (a[i] != e[i] && (a[i] == a[i] || e[i] == e[i])) {
            ASSERT_LE(std::abs(a[i] - e[i]), tolerance * std::max(1., std::abs(e[i])))
                << where << ", element " << i << ": " << a[i] << ", expected " << e[i];
        }
}

template <class Info>
void compare(Case const& c, Info const& info, std::vector<Tensor> inputs, char const* name) {
    auto expected = expected_of(c, inputs);
    auto actual = run_on_device(info, inputs, outputs_of(c), params_of(c), emulated(), false);
    ASSERT_EQ(actual.size(), 3u);
    auto where = std::string(name) + " of " + std::string(name_of(c.q)) + ", past " + std::string(name_of(c.past)) +
                 ", present " + std::string(name_of(c.present)) + ", " + std::to_string(c.before) + " keys of " +
                 std::to_string(c.depth) + ", output ";
    // Values are averages: their errors are those of scores below 16, rounded keys among them where they are copied.
    auto coarse = std::max(unit_of(c.q), std::is_same_v<Info, Composed> ? unit_of(c.q) : 0x1p-20);
    expect_near(actual[0], expected[0], 8 * coarse + 0x1p-18, where + "Y");
    for (size_t i = 1; i < 3; ++i) expect_near(actual[i], expected[i], unit_of(c.present) / 2, where + "present");
}

void compare_all(Case const& c) {
    std::mt19937 random(kSeed);
    auto inputs = inputs_of(c, random);
    auto info = info_of(c);
    if (std::max(c.queries, c.added) <= kFewQueries) compare(c, info, inputs, "one launch");
    compare(c, Composed{info}, inputs, "steps");
}

std::vector<Case> types() {
    std::vector<Case> cases;
    for (auto q : {F32, F16, BF16})
        for (auto past : {F32, F16, BF16})
            for (auto present : {F32, F16, BF16}) cases.push_back({q, past, present});
    cases.push_back({.q = F16, .past = F32, .present = F32, .fresh = BF16});
    return cases;
}

/// What decides about the code, and how it is cut.
std::vector<Case> shapes() {
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

TEST(CudaCachedAttention, TakesTypesInAnyMixture) {
    for (auto const& c : types()) compare_all(c);
}

TEST(CudaCachedAttention, TakesAnyShapes) {
    for (auto const& c : shapes()) compare_all(c);
}

/// What hidden keys and values hold does not count, and is written to the caches as it is.
TEST(CudaCachedAttention, LeavesOutWhatIsHidden) {
    for (bool masks : {false, true}) {
        Case c{.q = F32, .past = F32, .present = F32, .queries = 2, .added = 2, .before = 30};
        c.causal = !masks, c.mask = masks ? F32 : Undefined;
        std::mt19937 random(kSeed);
        auto inputs = inputs_of(c, random);
        for (size_t i : {2u, 4u}) {
            auto* last = inputs[i].as<float>() + c.added * c.depth - 1;
            *last = i == 2 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
        }
        if (masks)
            for (int64_t row = 1; row <= c.heads * c.queries; ++row)
                inputs[5].as<float>()[row * (c.before + c.added) - 1] = -std::numeric_limits<float>::infinity();
        compare(c, info_of(c), inputs, "one launch");
    }
}

/// Why the candidate of this name declines, when it is asked for types or when it is bound.
std::string refusal(Case const& c, std::string const& name,
                    void (*change)(std::vector<Tensor>&, std::vector<Tensor>&)) {
    std::mt19937 random(kSeed);
    auto inputs = inputs_of(c, random), outputs = outputs_of(c);
    change(inputs, outputs);
    std::vector<Operand> in, out;
    std::vector<TensorDesc const*> in_desc, out_desc;
    for (auto const& t : inputs) in.push_back({t, nullptr}), in_desc.push_back(&t);
    for (auto const& t : outputs) out.push_back({t, nullptr}), out_desc.push_back(&t);
    Request const request{in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &emulated()};
    auto found = kernel::candidates(info_of(c), request);
    for (auto const& rejection : found.rejections)
        if (rejection.reason.find(name) != std::string::npos) return rejection.reason;
    auto params = params_of(c);
    PackCache packs;
    BindArgs args{in_desc, out_desc, params, packs, 1};
    for (auto const& kernel : found.kernels) {
        if (kernel->id().find(name) == std::string::npos) continue;
        auto estimate = kernel->estimate(args);
        auto task = kernel->bind(args);
        EXPECT_EQ(estimate.ok(), task.ok());
        return task.ok() ? "" : task.error().reason;
    }
    return "there is none";
}

TEST(CudaCachedAttention, DeclinesOtherOperands) {
    using Tensors = std::vector<Tensor>;
    Case const c{.q = F16, .past = F32, .present = F32};
    auto same = [](Tensors&, Tensors&) {};
    EXPECT_EQ(refusal(c, "one_launch", same), "");
    EXPECT_EQ(refusal(c, "composed", same), "");
    for (auto const* candidate : {"one_launch", "composed"}) {
        auto why = refusal(c, candidate, [](Tensors& in, Tensors&) { in[2].dims[1] = 1; });
        EXPECT_NE(why.find("[1, 2, 5, 16] and [1, 1, 1, 16]"), std::string::npos) << why;
        why = refusal(c, candidate, [](Tensors&, Tensors& out) { out[2].dims[2] = 5; });
        EXPECT_NE(why.find("a cache of [1, 2, 5, 16]"), std::string::npos) << why;
        why = refusal(c, candidate, [](Tensors& in, Tensors&) { in[0].dims[3] = 8; });
        EXPECT_NE(why.find("depth 16"), std::string::npos) << why;
    }
    EXPECT_NE(refusal(c, "one_launch", [](Tensors& in, Tensors&) { in[3].dtype = F16; }).find("different types"),
              std::string::npos);
    EXPECT_NE(refusal({.q = F16, .past = F32, .present = F32, .queries = 9}, "one_launch", same).find("9 queries"),
              std::string::npos);
    EXPECT_NE(refusal({.q = F16, .past = F32, .present = F32, .depth = 513}, "one_launch", same).find("words"),
              std::string::npos);
    EXPECT_EQ(refusal({.q = F16, .past = F32, .present = F32, .depth = 513}, "composed", same), "");
    Request const host{};
    auto found = kernel::candidates(info_of(c), host);
    EXPECT_NE(found.rejections.at(0).reason.find("only a GPU"), std::string::npos);
}

std::set<std::string> sources() {
    SourceCollector collector;
    std::mt19937 random(kSeed);
    for (auto const& list : {types(), shapes()})
        for (auto const& c : list)
            if (std::max(c.queries, c.added) <= kFewQueries)
                collector(info_of(c), inputs_of(c, random), outputs_of(c), params_of(c));
    return collector.sources;
}

TEST(CudaPlugin, CompilesCachedAttention) {
    auto all = sources();
    EXPECT_GT(all.size(), 30u);
    compile_all(all);
}

TEST(CudaPlugin, CachedAttentionKeepsItsWordsInRegisters) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    for (auto const& source : sources()) {
        char text[4096] = "";
        void* code = nullptr;
        size_t bytes = 0;
        ASSERT_EQ(kernels->compile(source.c_str(), "compute_90", &code, &bytes, text, sizeof text), 0) << text;
        EXPECT_EQ(std::string_view(static_cast<char*>(code), bytes).find("__local_depot"), std::string_view::npos)
            << source;
        kernels->release(code);
    }
}

}  // namespace

}  // namespace refactor::kernel::cuda
