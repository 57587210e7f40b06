// Attention that joins its caches on the way, on the emulated GPU and through NVRTC.
#include "cuda/cached_attention_cases.h"
#include "cuda/plugin_compiler.h"
#include "cuda/source_collector.h"

#include <limits>

namespace refactor::kernel::cuda {

namespace {

using namespace refactor::kernel::testing;
using namespace refactor::kernel::testing::caches;
using rows::unit_of;
using enum DataType;

constexpr unsigned kSeed = 20261128;

/// The second candidate alone.
struct Composed : CachedAttentionInfo {};
Candidates candidates(Composed const& info, Request const& request) {
    auto found = kernel::candidates(static_cast<CachedAttentionInfo const&>(info), request);
    found.kernels.erase(found.kernels.begin());
    return found;
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
