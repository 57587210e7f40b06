#include "mutate.h"
#include "param_model.h"
#include "pnnx/model_reader.h"

namespace refactor::fuzz {

namespace {

size_t mutate(std::vector<std::string> const& vocabulary, char* text, size_t size, size_t most, uint32_t seed) {
    Mutation mutation({text, size}, seed);
    for (auto left = 1 + mutation.below(3); left; --left) mutation.change(vocabulary);
    // The head counts the nodes: wrong most of the time otherwise.
    auto& lines = mutation.lines();
    size_t nodes = 0;
    for (size_t i = 2; i < lines.size() && lines[i] != "%bin"; ++i) nodes += !lines[i].empty();
    if (lines.size() > 1 && mutation.below(16)) lines[1] = std::to_string(nodes) + ' ' + std::to_string(nodes);
    return put(mutation, text, most);
}

std::vector<std::string> pnnx_words() {
    auto words = pnnx::supported_operators();
    for (auto const* word : {"pnnx.Input",
                             "pnnx.Output",
                             "pnnx.Attribute",
                             "pnnx.Expression",
                             "prim::TupleConstruct",
                             "prim::TupleUnpack",
                             "prim::ListConstruct",
                             "dim=1",
                             "dim=-1",
                             "keepdim=True",
                             "bias=False",
                             "stride=(2,2)",
                             "padding=(1,1)",
                             "padding=same",
                             "groups=2",
                             "ceil_mode=True",
                             "None",
                             "True",
                             "(1,-1)",
                             "$input=0",
                             "$other=1",
                             "#0=(1,?,4)f32",
                             "#1=(2,3)i64",
                             "@data=(2,3)f32",
                             "expr=add(@0,2)",
                             "expr=[size(@0,0),-1]",
                             "expr=floor_divide(@0,0)",
                             "f32",
                             "i64",
                             "bool"})
        words.emplace_back(word);
    return words;
}

}  // namespace

size_t mutate_pnnx(char* text, size_t size, size_t most, uint32_t seed) {
    static auto const kWords = pnnx_words();
    return mutate(kWords, text, size, most, seed);
}

size_t mutate_ncnn(char* text, size_t size, size_t most, uint32_t seed) {
    static std::vector<std::string> const kWords{"AbsVal",
                                                 "BatchNorm",
                                                 "BinaryOp",
                                                 "CELU",
                                                 "Clip",
                                                 "Concat",
                                                 "Convolution",
                                                 "ConvolutionDepthWise",
                                                 "Crop",
                                                 "Deconvolution",
                                                 "Dropout",
                                                 "ELU",
                                                 "Eltwise",
                                                 "Embed",
                                                 "Erf",
                                                 "ExpandDims",
                                                 "Flatten",
                                                 "GELU",
                                                 "Gemm",
                                                 "GroupNorm",
                                                 "HardSigmoid",
                                                 "HardSwish",
                                                 "InnerProduct",
                                                 "Input",
                                                 "Interp",
                                                 "LayerNorm",
                                                 "MatMul",
                                                 "MemoryData",
                                                 "Mish",
                                                 "MultiHeadAttention",
                                                 "Noop",
                                                 "PReLU",
                                                 "Padding",
                                                 "Permute",
                                                 "PixelShuffle",
                                                 "Pooling",
                                                 "ReLU",
                                                 "Reduction",
                                                 "Reshape",
                                                 "SELU",
                                                 "ShuffleChannel",
                                                 "Sigmoid",
                                                 "Slice",
                                                 "Softmax",
                                                 "Softplus",
                                                 "Split",
                                                 "Squeeze",
                                                 "Swish",
                                                 "TanH",
                                                 "UnaryOp",
                                                 "0=1",
                                                 "0=2",
                                                 "1=2",
                                                 "1=3",
                                                 "2=1",
                                                 "3=2",
                                                 "4=1",
                                                 "5=1",
                                                 "6=12",
                                                 "7=2",
                                                 "9=1",
                                                 "8=1",
                                                 "-23300=2,1,2",
                                                 "-23309=1,1",
                                                 "-23310=1,0.5",
                                                 "-23303=1,0"};
    return mutate(kWords, text, size, most, seed);
}

}  // namespace refactor::fuzz
