#include "common/error.h"
#include "mem_manager/blob.h"
#include "pnnx/model_reader.h"
#include "random_test.h"
#include "test_archive.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace refactor::pnnx {
namespace {

using mem_manager::Blob;

std::string const kHead = "7767517\n";

frontend::Model load(std::string const& nodes, std::string const& bin = "", InputShapes const& shapes = {}) {
    auto count = std::count(nodes.begin(), nodes.end(), '\n');
    auto text = kHead + std::to_string(count) + " " + std::to_string(count) + "\n" + nodes;
    return load_pnnx(text, bin.empty() ? nullptr : Blob::copy_of(bin.data(), bin.size()), shapes);
}

/// Shape of output 0.
std::string shape_of(frontend::Model const& model) { return frontend::to_string(model.outputs()[0], model.symbols()); }

template <class E>
std::string message(std::string const& nodes, std::string const& bin = "") {
    try {
        load(nodes, bin);
    } catch (E const& error) {
        return error.what();
    }
    return "no error";
}

std::string floats(std::vector<float> const& values) {
    return {reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float)};
}

std::string with_nodes(std::string const& inner, std::string const& output) {
    return "pnnx.Input in 0 1 0 #0=(?,3,%H,4)f32\n" + inner + "pnnx.Output out 1 0 " + output + "\n";
}

TEST(Importer, SizesStaySymbolic) {
    auto model =
        load(with_nodes("pnnx.Expression e 1 1 0 1 expr=[size(@0,0),mul(size(@0,1),size(@0,2)),-1]\n"
                        "Tensor.reshape r 2 1 0 1 2 $input=0 $shape=1\n",
                        "2"));
    EXPECT_EQ(shape_of(model), "f32[in0.0, 3*H, 4]");
    EXPECT_EQ(model.variables(), (std::vector<std::string>{"in0.0", "H"}));
}

TEST(Importer, NumbersOfOneExpressionFeedOthers) {
    auto model =
        load(with_nodes("pnnx.Expression h 1 1 0 1 expr=floor_divide(size(@0,2),2)\n"
                        "pnnx.Expression e 2 1 0 1 2 expr=[size(@0,0),int(mul(@1,2.0)),-1]\n"
                        "Tensor.slice s 2 1 0 1 3 dim=2 start=0 step=1 $input=0 $end=1\n",
                        "3"));
    EXPECT_EQ(shape_of(model), "f32[in0.0, 3, min(H, floor_div(H, 2)), 4]");
}

TEST(Importer, ShapesOfTheCallerReplaceTheFiles) {
    auto model =
        load(with_nodes("F.relu r 1 1 0 1 $input=0\n", "1"), "", {{"in0", {int64_t{2}, "C", std::monostate{}}}});
    EXPECT_EQ(shape_of(model), "f32[2, C, in0.2]");
    EXPECT_THROW(load(with_nodes("F.relu r 1 1 0 1 $input=0\n", "1"), "", {{"x", {}}}), InvalidInput);
}

TEST(Importer, TuplesAndListsAreFlattened) {
    auto model =
        load(with_nodes("torch.chunk c 1 2 0 1 2 chunks=2 dim=3 $input=0\n"
                        "prim::TupleConstruct t 2 1 1 2 3\n"
                        "prim::TupleConstruct u 2 1 3 0 4\n"
                        "prim::TupleUnpack v 1 2 4 5 6\n",
                        "4"));
    ASSERT_EQ(model.outputs().size(), 3u);
    EXPECT_EQ(model.outputs()[2].name, "out2");
    EXPECT_EQ(shape_of(model), "f32[in0.0, 3, H, 2]");
}

TEST(Importer, WeightsAreReadFromTheArchive) {
    auto nodes =
        with_nodes("nn.Linear l 1 1 0 1 bias=True in_features=4 out_features=2 @bias=(2)f32 @weight=(2,4)f32\n", "1");
    std::vector<std::pair<std::string, std::string>> entries{{"l.bias", floats({1, 2})},
                                                             {"l.weight", floats({1, 2, 3, 4, 5, 6, 7, 8})}};
    EXPECT_EQ(shape_of(load(nodes, zip_of(entries))), "f32[in0.0, 3, H, 2]");
    EXPECT_NE(message<InvalidModel>(nodes).find("needs a bin file"), std::string::npos);
    entries[0].second = "abc";
    auto text = message<InvalidModel>(nodes, zip_of(entries));
    EXPECT_NE(text.find("\"l.bias\" has 3 bytes in the bin file, expected 8"), std::string::npos) << text;
    entries.erase(entries.begin());
    EXPECT_NE(message<InvalidModel>(nodes, zip_of(entries)).find("not in the archive"), std::string::npos);
    EXPECT_NE(message<InvalidModel>(nodes, "no zip").find("no zip archive"), std::string::npos);
}

TEST(Importer, EveryProblemIsReportedAtOnce) {
    auto text =
        message<Unsupported>(with_nodes("torch.bincount a 1 1 0 1 $input=0\n"
                                        "F.relu b 1 1 0 2 slope=3 $input=0\n"
                                        "nn.Frobnicate c 1 1 1 3\n",
                                        "3"));
    for (auto part : {"3 problems", "node \"a\" (torch.bincount): this operator is not supported",
                      "node \"b\" (F.relu): the argument \"slope\" = 3 is not known", "line 6: node \"c\""})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(Importer, InvalidNodesAreNamed) {
    struct Case {
        char const *node, *part;
    };
    for (auto [node, part] : {
             Case{"torch.transpose t 1 1 0 1 dim0=1 dim1=9 $input=0\n", "axis 9 is out of range"},
             Case{"Tensor.reshape t 1 1 0 1 shape=(5,-1,-1) $input=0\n", "more than one -1"},
             Case{"torch.cat t 2 1 0 7 1 dim=0\n", "which nothing produces"},
             Case{"pnnx.Expression t 1 1 0 1 expr=add(@0,@5)\n", "reads an input that the node does not have"},
             Case{"pnnx.Expression t 1 1 0 1 expr=add(@0\n", "takes 2 operands"},
             Case{"F.relu t 1 1 0 1 $input=9\n", "which is no input of the node"},
             Case{"F.relu t 1 1 0 1 $input=0 #0=(1,2\n", "is not in the form"},
             Case{"F.relu t 2 1 0 1\n", "expected 2 inputs and 1 outputs"},
             Case{"F.relu t 4294967295 4294967295 0 1\n", "expected 4294967295 inputs"},
             Case{"F.relu t x 1 0 1\n", "is no count"},
             Case{"F.relu t 1 1 2 1\nF.relu u 1 1 1 2\n", "cycle"},
         }) {
        auto text = message<InvalidModel>(with_nodes(node, "1"));
        EXPECT_NE(text.find(part), std::string::npos) << node << ": " << text;
    }
    EXPECT_THROW(load_pnnx("", nullptr), InvalidModel);
    EXPECT_THROW(load_pnnx("123\n", nullptr), InvalidModel);
    EXPECT_THROW(load_pnnx("7767517\nx y\n", nullptr), InvalidModel);
}

TEST(Importer, AnyDamageIsAnsweredWithATypedError) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    auto const whole = kHead + "6 7\n" +
                       with_nodes(
                           "pnnx.Expression e 1 1 0 1 expr=[size(@0,0),mul(size(@0,1),size(@0,2)),-1]\n"
                           "Tensor.reshape r 2 1 0 1 2 $input=0 $shape=1\n"
                           "nn.MaxPool1d m 1 1 2 3 ceil_mode=False dilation=(1) kernel_size=(3) padding=(1) "
                           "return_indices=False stride=(2)\n"
                           "pnnx.Expression f 2 1 3 3 4 expr=div(add(@0,2.5),sqrt(@1))\n",
                           "4");
    static constexpr std::string_view kBytes = "()[],=@$#?%0123456789-.eE \nNoneTrue";
    for (int i = 0; i < 20000; ++i) {
        auto text = whole;
        for (int k = 0; k < 1 + i % 4; ++k) {
            auto at = std::uniform_int_distribution<size_t>(0, text.size() - 1)(random);
            if (random() % 3 == 0)
                text.erase(at, 1 + random() % 5);
            else
                text[at] = kBytes[random() % kBytes.size()];
            if (text.empty()) text = " ";
        }
        try {
            load_pnnx(text, nullptr);
        } catch (InternalError const& error) {
            ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << text;
        } catch (Error const&) {
        }
    }
}

}  // namespace
}  // namespace refactor::pnnx
