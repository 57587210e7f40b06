#include "computation/saved_program.h"

#include "common/cpu_features.h"
#include "computation/if.h"
#include "passes/test_graph.h"

namespace refactor::computation {
namespace {

using kernel::ExprOp;
using test::TestGraph;

struct Saved {
    std::vector<std::byte> graph;
    std::vector<std::shared_ptr<mem_manager::Blob const>> tensors;

    explicit Saved(kernel::Program const& program) {
        GraphWriter writer;
        write_program(writer, program);
        for (auto& tensor : writer.tensors()) tensors.push_back(tensor.blob);
        graph = std::move(writer).finish();
    }
    std::shared_ptr<kernel::Program> load(int threads = 1) const {
        GraphReader reader(graph, tensors);
        auto program = read_program(reader, {threads, 0});
        EXPECT_TRUE(reader.at_end());
        return program;
    }
};

std::shared_ptr<kernel::Program> compiled(TestGraph const& g,
                                          kernel::Precision precision = kernel::Precision::Default) {
    CompileOptions options;
    options.threads = 1, options.verify = true, options.precision = precision;
    return compile(g.copy(), options).program;
}

using Inputs = std::vector<std::pair<Dims, std::vector<float>>>;

/// Convolution (in blocks of channels), product and what is between them; `N` images.
struct Network {
    TestGraph g{83};
    Inputs inputs;

    explicit Network(DimExpr const& batch) {
        auto* x = g.input({batch, 16, 12, 12});
        kernel::ConvInfo conv;
        conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
        auto* y = g.add(conv, {x, g.weights({32, 16, 3, 3})}, {batch, 32, 12, 12});
        auto* relu = g.elementwise(ExprOp::Relu, {y}, {batch, 32, 12, 12});
        auto* means = g.add(kernel::GlobalPoolInfo{}, {relu}, {batch, 32, 1, 1});
        auto* rows = g.add(kernel::TransposeInfo{{0, 2, 3, 1}}, {means}, {batch, 1, 1, 32});
        auto* product = g.add(kernel::MatMulInfo{}, {rows, g.weights({32, 40})}, {batch, 1, 1, 40});
        g.output(g.elementwise(ExprOp::Tanh, {product}, {batch, 1, 1, 40}));
        inputs = {{{2, 16, 12, 12}, g.random_floats(size_t{2} * 16 * 12 * 12)}};
    }
};

TEST(SavedProgram, ComputesTheSameWithoutPacking) {
    Network network(2);
    for (auto precision : {kernel::Precision::Default, kernel::Precision::Exact}) {
        auto program = compiled(network.g, precision);
        Saved saved(*program);
        auto loaded = saved.load();
        EXPECT_EQ(loaded->to_string(), program->to_string());
        EXPECT_EQ(loaded->parts().precision, precision);
        EXPECT_EQ(test::run(loaded, network.inputs), test::run(program, network.inputs));
        EXPECT_EQ(program->packed_bytes() > 0, cpu_features().isa >= Isa::Avx2);
        EXPECT_EQ(loaded->packed_bytes(), 0u);
    }
}

TEST(SavedProgram, OpenSizesPackWhatNobodyPacked) {
    Network network(DimExpr::symbol(0));
    network.g.model.symbols.intern("N");
    auto program = compiled(network.g);
    auto loaded = Saved(*program).load();
    EXPECT_EQ(test::run(loaded, network.inputs), test::run(program, network.inputs));
    EXPECT_EQ(loaded->packed_bytes(), program->packed_bytes());
    auto again = Saved(*loaded).load();
    EXPECT_EQ(test::run(again, network.inputs), test::run(program, network.inputs));
    EXPECT_EQ(again->packed_bytes(), 0u);
}

TEST(SavedProgram, EqualProgramsBecomeEqualBytes) {
    Network network(2);
    Saved first(*compiled(network.g));
    auto loaded = first.load();
    EXPECT_EQ(Saved(*loaded).graph, first.graph);
    EXPECT_EQ(Saved(*compiled(network.g)).graph, first.graph);
}

TEST(SavedProgram, EveryBeginningIsRefused) {
    Saved saved(*compiled(Network(2).g));
    auto whole = saved.graph;
    for (size_t length = 0; length < whole.size(); length += 7) {
        saved.graph.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_THROW(saved.load(), InvalidModel) << length;
    }
}

TEST(SavedProgram, MissingTensorsAreRefused) {
    Saved saved(*compiled(Network(2).g));
    saved.tensors.pop_back();
    EXPECT_THROW(saved.load(), InvalidModel);
    Saved small(*compiled(Network(2).g));
    small.tensors[0] = mem_manager::Blob::copy_of("abc", 3);
    EXPECT_THROW(small.load(), InvalidModel);
}

}  // namespace
}  // namespace refactor::computation
