#include "program/part_placement.h"

#include "mem_manager/blob.h"
#include "runtime/executor.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace refactor::kernel {

namespace {

/// Runs of floats one behind the other: adds 1 to one run, joins many, or cuts one. Other types are seen as floats.
class RunsKernel final : public Kernel {
    class Runs final : public runtime::Task {
        std::vector<size_t> in_, out_;
        float add_;

    public:
        Runs(std::vector<size_t> in, std::vector<size_t> out, float add)
            : in_(std::move(in)), out_(std::move(out)), add_(add) {}
        void run(void* const* arguments, runtime::RunContext const&) const override {
            std::vector<float> all;
            for (size_t i = 0; i < in_.size(); ++i) {
                auto const* from = static_cast<float const*>(arguments[i]);
                all.insert(all.end(), from, from + in_[i]);
            }
            auto const* from = all.data();
            for (size_t i = 0; i < out_.size(); from += out_[i++])
                for (size_t k = 0; k < out_[i]; ++k) static_cast<float*>(arguments[in_.size() + i])[k] = from[k] + add_;
        }
        uint64_t in_place_inputs() const override { return in_.size() == out_.size(); }
    };
    float add_;

public:
    explicit RunsKernel(float add) : add_(add) {}
    std::string id() const override { return "runs:cpu:reference:f32"; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        std::vector<size_t> in, out;
        auto floats = [](TensorDesc const& desc) {
            return storage_bytes(desc.dtype, desc.stored_count()) / sizeof(float);
        };
        for (auto const* input : args.inputs) in.push_back(floats(*input));
        for (auto const* output : args.outputs) out.push_back(floats(*output));
        return std::unique_ptr<runtime::Task>(std::make_unique<Runs>(in, out, add_));
    }
};

/// Programs over tensors [1, n] with one input and one output.
struct Tensors {
    ProgramParts parts;
    std::vector<int64_t> sizes;

    uint32_t edge(int64_t size, int64_t rows = 1) {
        parts.edges.push_back({"t" + std::to_string(sizes.size()), DataType::F32, {}, {rows, size / rows}, nullptr});
        sizes.push_back(size);
        return static_cast<uint32_t>(sizes.size() - 1);
    }
    /// Of bf16 in nChw32c, at two positions: `size` counts the channels that there are room for.
    uint32_t image(int64_t channels) {
        auto size = (channels + 31) / 32 * 32;
        parts.edges.push_back(
            {"t" + std::to_string(sizes.size()), DataType::BF16, Layout::Blocked32, {1, channels, 2}, nullptr});
        sizes.push_back(size);
        return static_cast<uint32_t>(sizes.size() - 1);
    }
    uint32_t image_of(uint32_t x, int64_t channels) {
        auto y = image(channels);
        node("Add", {x}, {y});
        return y;
    }
    void node(char const* type, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, PartRule rule = {},
              std::vector<DimExpr> params = {}) {
        parts.nodes.push_back({"n" + std::to_string(parts.nodes.size()),
                               type,
                               std::move(inputs),
                               std::move(outputs),
                               std::move(params),
                               {},
                               {}});
        parts.nodes.back().parts = rule;
        parts.nodes.back().kernels.push_back(std::make_unique<RunsKernel>(rule.how ? 0.f : 1.f));
    }
    uint32_t input(int64_t size) {
        parts.inputs = {edge(size)};
        return parts.inputs[0];
    }
    uint32_t add_one(uint32_t x) {
        auto y = edge(sizes[x]);
        node("Add", {x}, {y});
        return y;
    }
    uint32_t join(std::vector<uint32_t> const& pieces) {
        int64_t size = 0;
        for (auto piece : pieces) size += sizes[piece];
        auto y = edge(size);
        node("Concat", pieces, {y}, {PartRule::Join, 1});
        return y;
    }
    std::vector<uint32_t> cut(uint32_t x, std::vector<int64_t> const& runs) {
        std::vector<uint32_t> outputs;
        for (auto size : runs) outputs.push_back(edge(size));
        node("Split", {x}, outputs, {PartRule::Cut, 1});
        return outputs;
    }

    /// Types of the steps, and the output for the input 0, 1, 2, …
    std::pair<std::vector<std::string>, std::vector<float>> run(uint32_t output) {
        parts.outputs = {output};
        auto count = static_cast<size_t>(sizes[parts.inputs[0]]), bytes = count * sizeof(float);
        auto result = static_cast<size_t>(sizes[output]);
        auto program = std::make_shared<Program>(std::move(parts));
        runtime::Executor executor(program, "default", 1);
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
        executor.set_input(
            0, {DataType::F32, {1, static_cast<int64_t>(count)}, mem_manager::Blob::copy_of(values.data(), bytes)});
        executor.run();
        std::vector<std::string> types;
        for (auto const& step : executor.plan().steps) types.push_back(program->node_type(step.node));
        std::vector<float> y(result);
        std::memcpy(y.data(), executor.output(0).blob->data(), result * sizeof(float));
        return {types, y};
    }
};

using Types = std::vector<std::string>;

TEST(PartPlacement, JoinsWhereThePiecesAreMade) {
    Tensors t;
    auto x = t.input(32);
    auto y = t.add_one(t.join({t.add_one(x), t.add_one(t.add_one(x))}));
    auto [types, values] = t.run(y);
    EXPECT_EQ(types, Types(4, "Add"));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], static_cast<float>(i % 32 + (i < 32 ? 2 : 3)));
}

TEST(PartPlacement, CutsWhereTheWholeIs) {
    Tensors t;
    auto x = t.input(64);
    auto parts = t.cut(t.add_one(x), {16, 48});
    auto y = t.join({t.add_one(parts[1]), t.add_one(parts[0])});
    auto [types, values] = t.run(t.add_one(y));
    EXPECT_EQ(types, Types(4, "Add"));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], static_cast<float>((i + 16) % 64 + 3));
}

/// As in `a, b = split(x); join(a, b, f(b))`.
TEST(PartPlacement, MovesWhatIsCutAsAWhole) {
    Tensors t;
    auto x = t.add_one(t.input(32));
    auto parts = t.cut(x, {16, 16});
    auto c = t.add_one(parts[1]);
    auto [types, values] = t.run(t.add_one(t.join({parts[0], parts[1], c})));
    EXPECT_EQ(types, Types(3, "Add"));
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(values[i], static_cast<float>(i < 32 ? i + 2 : i - 16 + 3));
}

/// As in a dense block: each concatenation is the beginning of the next one.
TEST(PartPlacement, NestsWhatGrows) {
    Tensors t;
    std::vector<uint32_t> pieces{t.add_one(t.input(16))};
    for (int i = 0; i < 3; ++i) {
        auto parts = t.cut(t.add_one(t.join(pieces)), std::vector<int64_t>(pieces.size(), 16));
        pieces.push_back(t.add_one(parts.back()));
    }
    auto [types, values] = t.run(t.add_one(t.join(pieces)));
    EXPECT_EQ(types, Types(8, "Add"));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], static_cast<float>(i % 16 + 2 + 2 * (i / 16)));
}

TEST(PartPlacement, SlicesWhatIsOneRun) {
    for (auto [first, size, expected] : {std::tuple{16, 32, 2}, {16, 16, 2}, {8, 16, 3}}) {
        Tensors t;
        auto x = t.add_one(t.input(64)), part = t.edge(size);
        t.node("Slice", {x}, {part}, {PartRule::Slice, 0}, {0, first});
        // The kernel of this test would take the first elements.
        if (expected == 3) t.parts.nodes.back().parts = {};
        auto [types, values] = t.run(t.add_one(part));
        EXPECT_EQ(types.size(), static_cast<size_t>(expected));
        for (size_t i = 0; expected == 2 && i < values.size(); ++i)
            EXPECT_EQ(values[i], static_cast<float>(first + 2) + static_cast<float>(i));
    }
}

TEST(PartPlacement, JoinsAndCutsBlocksOf32Channels) {
    struct Case {
        std::vector<int64_t> channels;
        bool in_place;
    };
    // The last piece may end within a block, no other.
    for (auto const& [channels, in_place] : {Case{{32, 96}, true}, {{64, 40}, true}, {{40, 64}, false}}) {
        Tensors t;
        auto x = t.input(160);
        auto all = channels[0] + channels[1];
        auto whole = t.image_of(x, all);
        std::vector<uint32_t> parts, pieces;
        for (auto count : channels) parts.push_back(t.image(count));
        t.node("Split", {whole}, parts, {PartRule::Cut, 1});
        for (size_t i = 0; i < 2; ++i) pieces.push_back(t.image_of(parts[i], channels[i]));
        auto joined = t.image(all);
        t.node("Concat", pieces, {joined}, {PartRule::Join, 1});
        auto y = t.edge(t.sizes[joined]);
        t.node("Add", {joined}, {y});
        auto [types, values] = t.run(y);
        EXPECT_EQ(types.size(), in_place ? 4u : 6u) << channels[0];
        for (size_t i = 0; in_place && i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i + 3));
    }
}

TEST(PartPlacement, SlicesBlocksOf32Channels) {
    for (auto [first, count, in_place] : {std::tuple{32, 64, true}, {64, 50, true}, {16, 32, false}, {32, 40, false}}) {
        Tensors t;
        auto x = t.image_of(t.input(128), 114), part = t.image(count);
        t.node("Slice", {x}, {part}, {PartRule::Slice, 0}, {0, first, 0});
        auto y = t.edge(t.sizes[part]);
        t.node("Add", {part}, {y});
        auto [types, values] = t.run(y);
        EXPECT_EQ(types.size(), in_place ? 2u : 3u) << first;
        for (size_t i = 0; in_place && i < values.size(); ++i)
            EXPECT_EQ(values[i], static_cast<float>(first + 2) + static_cast<float>(i));
    }
}

TEST(PartPlacement, LeavesStepsWhereMemoryIsFixed) {
    auto count = [](Types const& types, char const* type) { return std::count(types.begin(), types.end(), type); };
    {
        Tensors t;
        auto x = t.input(32);
        auto types = t.run(t.add_one(t.join({x, t.add_one(x)}))).first;
        EXPECT_EQ(count(types, "Concat"), 1) << "an input of the program";
    }
    {
        Tensors t;
        auto x = t.input(32);
        auto types = t.run(t.join({t.add_one(x), t.add_one(x)})).first;
        EXPECT_EQ(count(types, "Concat"), 1) << "an output of the program";
    }
    {
        Tensors t;
        auto a = t.add_one(t.input(32));
        auto types = t.run(t.add_one(t.join({a, a}))).first;
        EXPECT_EQ(count(types, "Concat"), 1) << "one piece in two places";
    }
    {
        Tensors t;
        auto x = t.input(24);
        auto types = t.run(t.add_one(t.join({t.add_one(x), t.add_one(x)}))).first;
        EXPECT_EQ(count(types, "Concat"), 1) << "a piece that would begin in the middle of a line";
    }
    {
        Tensors t;
        auto x = t.input(32);
        auto parts = t.cut(x, {16, 16});
        auto types = t.run(t.join({t.add_one(parts[1]), t.add_one(parts[0])})).first;
        EXPECT_EQ(count(types, "Split"), 1) << "parts of an input of the program";
    }
    {
        Tensors t;
        auto x = t.add_one(t.input(64));
        auto y = t.edge(64, 2);
        t.node("Reshape", {x}, {y});
        t.parts.nodes.back().kernels.clear();
        auto a = t.edge(32, 2), b = t.edge(32, 2);
        t.node("Split", {y}, {a, b}, {PartRule::Cut, 1});
        auto types = t.run(t.join({t.add_one(a), t.add_one(b)})).first;
        EXPECT_EQ(count(types, "Split"), 1) << "parts of several rows";
    }
}

/// Random programs give the same with and without rules.
TEST(PartPlacement, ChangesNoResult) {
    std::mt19937 random(11);
    auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    for (int round = 0; round < 300; ++round) {
        auto seed = random();
        std::vector<float> results[2];
        size_t steps[2]{};
        for (bool rules : {false, true}) {
            random.seed(seed);
            Tensors t;
            std::vector<uint32_t> known{t.input(48)};
            for (int i = 0; i < 12; ++i) {
                auto x = known[below(known.size())];
                if (auto choice = below(4); choice == 0 && t.sizes[x] >= 32) {
                    auto first = below(8) ? 16 : 8;
                    for (auto part : t.cut(x, {first, t.sizes[x] - first})) known.push_back(part);
                } else if (choice == 1) {
                    std::vector<uint32_t> pieces{x};
                    for (auto more = below(3); more-- > 0;) pieces.push_back(known[below(known.size())]);
                    known.push_back(t.join(pieces));
                } else {
                    known.push_back(t.add_one(x));
                }
            }
            if (!rules)
                for (auto& node : t.parts.nodes) node.parts = {};
            // Either nothing is unused, or memory is reused.
            if (below(2)) known.erase(known.begin(), known.end() - 3);
            auto all = t.join(known);
            t.parts.nodes.back().parts = {};
            auto [types, values] = t.run(all);
            results[rules] = values, steps[rules] = types.size();
        }
        ASSERT_EQ(results[0], results[1]) << round;
        ASSERT_LE(steps[1], steps[0]);
    }
}

}  // namespace

}  // namespace refactor::kernel
