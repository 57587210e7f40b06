// Generated kernels without a GPU: compiled for the host and compared with the reference, and compiled by NVRTC.
#include "common/half.h"
#include "common/thread_pool.h"
#include "cuda/expression_source.h"
#include "cuda/plugin_compiler.h"
#include "elementwise/reference.h"
#include "kernel/device_kernels.h"
#include "movement/movement_test.h"

#include <cmath>
#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

using elementwise::load_number;
using elementwise::Number;
using elementwise::store_number;
using testing::built_plugin;
using testing::table_of;
using testing::Tensor;

struct Case {
    ElementwiseInfo info;
    std::vector<Tensor> inputs, outputs;
    std::vector<Tensor> pieces;  ///< of input 0, if it is joined
    std::string name, source;
    std::vector<uint64_t> words;
};

ExprInstruction input(uint16_t index, DataType type) { return {ExprOp::Input, type, {index}}; }

Tensor random_tensor(DataType type, Dims dims, std::mt19937& random, bool special) {
    Tensor t(type, dims);
    std::normal_distribution<double> normal(0, 2);
    constexpr double kSpecial[] = {0., -0., INFINITY, -INFINITY, NAN, 1., -1., 0.5, 2.5, -3.5, 88., -104.};
    for (int64_t i = 0; i < t.count(); ++i) {
        Number v{normal(random), testing::pick(random, -100, 100)};
        if (special && testing::pick(random, 0, 15) == 0) v.real = kSpecial[testing::pick(random, 0, 11)];
        if (type == DataType::Bool) v.integer &= 1;
        store_number(type, t.data(), i, v);
    }
    return t;
}

void replace_zeros(Tensor& t) {
    for (int64_t i = 0; i < t.count(); ++i)
        if (load_number(t.dtype, t.data(), i).integer == 0) store_number(t.dtype, t.data(), i, {1, 1});
}

/// Piece `i` of every row of `whole`.
Tensor cut(Tensor& whole, Dims const& begins, size_t i) {
    auto bytes = static_cast<size_t>(bits_of(whole.dtype)) / 8;
    auto rows = static_cast<size_t>(whole.count() / begins.back());
    auto first = static_cast<size_t>(begins[i]), width = static_cast<size_t>(begins[i + 1]) - first;
    Tensor piece(whole.dtype, {static_cast<int64_t>(rows), static_cast<int64_t>(width)});
    auto const* from = static_cast<std::byte const*>(whole.data());
    auto* to = static_cast<std::byte*>(piece.data());
    for (size_t row = 0; row < rows; ++row)
        std::memcpy(to + row * width * bytes, from + (row * static_cast<size_t>(begins.back()) + first) * bytes,
                    width * bytes);
    return piece;
}

class Cases {
    std::mt19937 random_{20261121};

public:
    std::vector<Case> all;

    void add(ElementwiseInfo info, std::vector<std::pair<DataType, Dims>> const& inputs, Dims const& output,
             bool special = true, Dims const& begins = {}) {
        Case c;
        c.info = std::move(info), c.name = "k" + std::to_string(all.size());
        for (auto const& [type, dims] : inputs) c.inputs.push_back(random_tensor(type, dims, random_, special));
        if (can_fault(c.info)) replace_zeros(c.inputs[1]);
        for (auto number : c.info.outputs) c.outputs.emplace_back(c.info.code[number].dtype, output);
        std::vector<bool> used(inputs.size());
        std::vector<DataType> types;
        int64_t widest = 1;
        for (auto const& code : c.info.code)
            if (code.op == ExprOp::Input) used[code.operands[0]] = true;
        std::vector<TensorDesc const*> in, out;
        for (auto const& t : c.inputs) {
            in.push_back(&t), types.push_back(t.dtype);
            widest = std::max<int64_t>(widest, bits_of(t.dtype) / 8);
        }
        for (auto const& t : c.outputs) out.push_back(&t), widest = std::max<int64_t>(widest, bits_of(t.dtype) / 8);
        PackCache packs;
        auto loops = ExpressionLoops::make({in, out, {}, packs, 1}, used, widest, begins);
        ASSERT_TRUE(loops.ok()) << loops.error().reason;
        c.source = expression_source(c.info, *loops, types, c.name);
        c.words = expression_words(*loops);
        for (size_t i = 0; i < loops->pieces() && !begins.empty(); ++i)
            c.pieces.push_back(cut(c.inputs[0], begins, std::min(i, begins.size() - 2)));
        all.push_back(std::move(c));
    }

    /// Every operator on every type that it has code for.
    void add_operators() {
        using enum DataType;
        for (auto type : {F32, F64, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, Bool})
            for (auto op = static_cast<int>(ExprOp::Abs); op <= static_cast<int>(ExprOp::Fma); ++op) {
                ExprInstruction code{static_cast<ExprOp>(op), type, {0, 1, 2}, 0.5f, 0.75f};
                auto arity = arity_of(code.op);
                bool to_bool = (code.op >= ExprOp::Equal && code.op <= ExprOp::GreaterEqual) ||
                               code.op == ExprOp::IsNan || code.op == ExprOp::IsInf;
                if (to_bool) code.dtype = Bool;
                ElementwiseInfo info;
                std::vector<std::pair<DataType, Dims>> inputs;
                std::vector<Operand> operands;
                for (int k = 0; k < arity; ++k) {
                    auto of = code.op == ExprOp::Where && k == 0 ? Bool : type;
                    info.code.push_back(input(static_cast<uint16_t>(inputs.size()), of));
                    inputs.push_back({of, {19}});
                    Operand operand;
                    operand.dtype = of, operand.dims = {19};
                    operands.push_back(operand);
                }
                code.operands[0] = 0, code.operands[1] = 1, code.operands[2] = 2;
                info.code.push_back(code), info.outputs = {static_cast<uint16_t>(arity)};
                Operand output;
                output.dtype = code.dtype, output.dims = {19};
                bool unlike_reference = type == Bool && arity > 1 && op < static_cast<int>(ExprOp::And);
                if (unlike_reference || why_no_source(info, {operands, {&output, 1}})) continue;
                add(info, inputs, {19});
            }
    }

    void add_casts() {
        using enum DataType;
        auto const types = {F32, F64, F16, BF16, I8,       U8,         I16,    I32,
                            U32, I64, U64, Bool, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ};
        for (auto from : types)
            for (auto to : types) add({{input(0, from), {ExprOp::Cast, to, {0}}}, {1}}, {{from, {21}}}, {21});
    }

    /// Broadcasts of all kinds through a chain of two instructions over types of three widths.
    void add_shapes() {
        using enum DataType;
        std::pair<std::pair<Dims, Dims>, Dims> const shapes[] = {
            {{{}, {}}, {}},
            {{{7}, {}}, {7}},
            {{{3, 5}, {5}}, {3, 5}},
            {{{2, 3, 4}, {3, 1}}, {2, 3, 4}},
            {{{4, 8}, {1, 8}}, {4, 8}},
            {{{4, 8}, {4, 1}}, {4, 8}},
            {{{2, 1, 3}, {1, 4, 1}}, {2, 4, 3}},
            {{{2, 3, 1, 2, 8}, {3, 5, 1, 8}}, {2, 3, 5, 2, 8}},
            {{{1, 1}, {6, 1}}, {6, 7}},
        };
        for (auto type : {F32, F16, F64, I64, U8})
            for (auto const& [in, out] : shapes)
                add({{input(0, type), input(1, type), {ExprOp::Sub, type, {0, 1}}, {ExprOp::Less, Bool, {2, 1}}},
                     {2, 3}},
                    {{type, in.first}, {type, in.second}}, out);
    }

    /// Rows of 1 to 9 pieces, whole vectors and not, before what is like the output, per column and a scalar.
    void add_joined() {
        using enum DataType;
        std::pair<Dims, Dims> const shapes[] = {
            {{0, 24}, {5, 24}},
            {{0, 16, 48}, {3, 48}},
            {{0, 8, 8, 24, 40}, {7, 40}},
            {{0, 3, 4, 9}, {2, 3, 3}},
            {{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, {4, 18}},
            {{0, 160, 320}, {1, 5, 8, 8}},
        };
        for (auto type : {F32, F16, F64, I64, U8})
            for (auto const& [begins, out] : shapes)
                for (auto const& other : {out, Dims{out.back()}, Dims{}})
                    add({{input(0, type), input(1, type), {ExprOp::Sub, type, {0, 1}}, {ExprOp::Less, Bool, {2, 1}}},
                         {2, 3}},
                        {{type, out}, {type, other}}, out, true, begins);
    }
};

/// Runs generated kernels on the host.
struct Emulator {
    RefactorDeviceKernels const* kernels = nullptr;
    void* device = nullptr;

    Emulator() {
        std::string why;
        auto const* table = table_of(RG_CUDA_EMULATOR, why);
        EXPECT_TRUE(table) << why;
        if (!table || table->open(0, &device, nullptr, 0) != 0) return;
        kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    }
};

/// The reference rounds once from f64; the code is a few f32 functions (each within 1 ulp, sums and products exact to
/// half) whose errors the largest operand bounds: 16 units of max(|y|, |x|, 1).
double tolerance(DataType type, double expected, double operand) {
    double unit = type == DataType::F64    ? 0x1p-52
                  : type == DataType::F16  ? 0x1p-10
                  : type == DataType::BF16 ? 0x1p-7
                  : bits_of(type) == 8     ? 0
                                           : 0x1p-23;
    double scale = std::max({std::abs(expected), std::isfinite(operand) ? std::abs(operand) : 0, 1.});
    return 16 * std::max(unit, 0.) * scale;
}

/// Runs the function of a case; returns the word for faults.
uint64_t launch(Case& c, std::vector<Tensor>& outputs, Emulator const& emulator, std::string const& source) {
    char text[2000] = "";
    void* function = nullptr;
    EXPECT_EQ(emulator.kernels->load(emulator.device, source.c_str(), c.name.c_str(), &function, text, sizeof text), 0)
        << text;
    std::vector<uint64_t> words;
    uint64_t fault = 0;
    for (auto& t : c.pieces) words.push_back(reinterpret_cast<uint64_t>(t.data()));
    for (size_t i = c.pieces.empty() ? 0 : 1; i < c.inputs.size(); ++i)
        words.push_back(reinterpret_cast<uint64_t>(c.inputs[i].data()));
    for (auto& t : outputs) words.push_back(reinterpret_cast<uint64_t>(t.data()));
    if (can_fault(c.info)) words.push_back(reinterpret_cast<uint64_t>(&fault));
    words.insert(words.end(), c.words.begin(), c.words.end());
    EXPECT_EQ(
        emulator.kernels->launch(emulator.device, nullptr, function, 2, kBlockThreads, words.data(), text, sizeof text),
        0)
        << text;
    return fault;
}

void expect_like_reference(Case& c, Emulator const& emulator, std::string const& source) {
    auto outputs = c.outputs;
    ASSERT_EQ(launch(c, outputs, emulator, source), 0u);
    auto expected = testing::run_all(c.info, c.inputs, c.outputs).back().outputs;
    for (size_t k = 0; k < outputs.size(); ++k)
        for (int64_t i = 0; i < outputs[k].count(); ++i) {
            auto type = outputs[k].dtype;
            auto y = load_number(type, outputs[k].data(), i), e = load_number(type, expected[k].data(), i);
            double x = 0;
            for (auto& t : c.inputs)
                if (t.count() == outputs[k].count() && is_float(t.dtype))
                    if (auto v = load_number(t.dtype, t.data(), i).real; std::isfinite(v)) x = std::max(x, std::abs(v));
            auto where = c.info.attributes() + ", element " + std::to_string(i);
            if (!is_float(type)) {
                ASSERT_EQ(y.integer, e.integer) << where;
            } else if (e.real != e.real || !std::isfinite(e.real) || y.real != y.real) {
                ASSERT_TRUE(y.real == e.real || (y.real != y.real && e.real != e.real))
                    << where << ": " << y.real << ", expected " << e.real;
            } else {
                ASSERT_LE(std::abs(y.real - e.real), tolerance(type, e.real, x))
                    << where << ": " << y.real << ", expected " << e.real;
            }
        }
}

TEST(CudaSource, ComputesWhatTheReferenceComputes) {
    Cases cases;
    cases.add_operators(), cases.add_casts(), cases.add_shapes(), cases.add_joined();
    ASSERT_GT(cases.all.size(), 500u);
    std::string source = kPrelude;
    for (auto const& c : cases.all) source += c.source;
    Emulator emulator;
    ASSERT_TRUE(emulator.kernels);
    for (auto& c : cases.all) {
        expect_like_reference(c, emulator, source);
        if (HasFatalFailure()) break;
        if (!can_fault(c.info)) continue;
        store_number(c.inputs[1].dtype, c.inputs[1].data(), 3, {0, 0});
        auto number = static_cast<uint32_t>(load_number(c.inputs[0].dtype, c.inputs[0].data(), 3).integer);
        EXPECT_EQ(launch(c, c.outputs, emulator, source), uint64_t{2} << 32 | number) << c.info.attributes();
    }
}

std::string compiled(RefactorDeviceKernels const& kernels, std::string const& source, char const* architecture) {
    char text[4096] = "";
    void* code = nullptr;
    size_t bytes = 0;
    auto status = kernels.compile(source.c_str(), architecture, &code, &bytes, text, sizeof text);
    EXPECT_EQ(status, 0) << text;
    if (status) return {};
    std::string result(static_cast<char const*>(code), bytes);
    kernels.release(code);
    return result;
}

TEST(CudaPlugin, CompilesGeneratedCodeWithoutADevice) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    ASSERT_TRUE(kernels);
    ASSERT_EQ(kernels->bytes, sizeof(RefactorDeviceKernels));
    Cases operators, shapes;
    operators.add_operators(), shapes.add_shapes(), shapes.add_joined();
    std::string singles = kPrelude, all = kPrelude;
    for (auto const& c : operators.all) {
        bool f32 = c.inputs[0].dtype == DataType::F32 && c.outputs[0].dtype == DataType::F32;
        // pow and the trigonometric functions reduce large arguments by tables in f64.
        if (f32) singles += c.source;
    }
    for (auto const& c : shapes.all) all += c.source;
    for (auto const* architecture : {"sm_80", "sm_90a", "sm_100"}) {
        auto code = compiled(*kernels, all, architecture);
        ASSERT_GT(code.size(), 4u);
        EXPECT_EQ(code.substr(1, 3), "ELF") << architecture;
    }
    auto ptx = compiled(*kernels, singles, "compute_80");
    EXPECT_NE(ptx.find(".entry k0"), std::string::npos);
    EXPECT_NE(ptx.find("ld.global.v4"), std::string::npos) << "linear f32 operands are read 16 bytes at a time";
    EXPECT_EQ(ptx.find("cvt.f64.f32"), std::string::npos) << "f32 code must not compute in f64";
    EXPECT_EQ(ptx.find("fma.rn.f64"), std::string::npos) << "f32 code must not compute in f64";
}

TEST(CudaPlugin, ReportsErrorsOfTheCompiler) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(table->extension(RG_KERNELS_EXTENSION));
    char text[1024] = "";
    void* code = nullptr;
    size_t bytes = 0;
    EXPECT_NE(kernels->compile("void f() { nothing; }", "sm_80", &code, &bytes, text, sizeof text), 0);
    EXPECT_NE(std::string(text).find("nothing"), std::string::npos) << text;
    EXPECT_NE(kernels->compile("", "sm_1", &code, &bytes, text, sizeof text), 0);
}

TEST(CudaPlugin, SaysThatThereIsNoDriver) {
    std::string why;
    auto const* table = built_plugin(why);
    if (!table) GTEST_SKIP() << why;
    EXPECT_STREQ(table->kind, "nvidia");
    EXPECT_EQ(table->abi, RG_DEVICE_PLUGIN_ABI);
    EXPECT_EQ(table->extension("nothing"), nullptr);
    char text[512] = "";
    int32_t count = 0;
    if (table->count(&count, text, sizeof text) == 0) GTEST_SKIP() << "there is a driver, with " << count << " devices";
    EXPECT_NE(std::string(text).find("NVIDIA driver"), std::string::npos) << text;
}

TEST(CudaPlugin, RefusesAnotherInterface) {
    std::string why;
    if (!built_plugin(why)) GTEST_SKIP() << why;
    auto* library = dlopen(RG_CUDA_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    auto entry = reinterpret_cast<RefactorDevicePluginEntry>(dlsym(library, RG_DEVICE_PLUGIN_ENTRY));
    char text[128] = "";
    EXPECT_EQ(entry(RG_DEVICE_PLUGIN_ABI + 1, text, sizeof text), nullptr);
    EXPECT_NE(std::string(text).find("interface 1"), std::string::npos) << text;
}

}  // namespace

}  // namespace refactor::kernel::cuda
