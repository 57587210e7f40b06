#include "kernel/ops/elementwise.h"

#include "common/error.h"
#include "common/half.h"
#include "elementwise/reference.h"
#include "movement/movement_test.h"

#include <cmath>

namespace refactor::kernel {
namespace {

using namespace testing;
using elementwise::load_number;
using elementwise::Number;
using elementwise::store_number;

constexpr DataType kFloats[] = {DataType::F32, DataType::F64, DataType::F16, DataType::BF16};
constexpr DataType kIntegers[] = {DataType::I8, DataType::I16, DataType::I32, DataType::I64,
                                  DataType::U8, DataType::U16, DataType::U32, DataType::U64};

ExprInstruction input(uint16_t index, DataType type) { return {ExprOp::Input, type, {index}}; }
ExprInstruction real_constant(DataType type, double value) {
    ExprInstruction code{ExprOp::Constant, type};
    code.value = value;
    return code;
}

/// Values of moderate size with specials strewn in.
Tensor random_tensor(DataType type, Dims dims, std::mt19937& random, Layout layout = Layout::Plain,
                     bool special = true) {
    Tensor t(type, dims, layout);
    std::normal_distribution<double> normal(0, 2);
    constexpr double kSpecial[] = {0., -0., INFINITY, -INFINITY, NAN, 1., -1., 0.5, 2.5, -3.5, 88., -104.};
    std::fill(t.storage.begin(), t.storage.end(), 0);
    for (int64_t i = 0; i < t.stored_count(); ++i) {
        Number v{normal(random), pick(random, -100, 100)};
        if (special && pick(random, 0, 15) == 0) v.real = kSpecial[pick(random, 0, 11)];
        if (type == DataType::Bool) v.integer &= 1;
        store_number(type, t.data(), i, v);
    }
    if (layout != Layout::Plain && dims[1] % block_of(layout)) {
        // Channels past C are zero.
        auto block = block_of(layout), blocks = (dims[1] + block - 1) / block,
             inner = t.stored_count() / dims[0] / blocks;
        for (int64_t n = 0; n < dims[0]; ++n)
            for (int64_t i = 0; i < inner; ++i)
                if (i % block >= dims[1] % block) store_number(type, t.data(), ((n + 1) * blocks - 1) * inner + i, {});
    }
    return t;
}

/// Unit in the last place of `type` at `x`.
double ulp(DataType type, double x) {
    int bits = type == DataType::F64 ? 52 : type == DataType::F32 ? 23 : type == DataType::F16 ? 10 : 7;
    int least = type == DataType::F64 ? -1022 : type == DataType::F16 ? -14 : -126;
    int exponent = x == 0 ? least : std::max(least, std::ilogb(x));
    return std::ldexp(1., exponent - bits);
}

/// Floats within `ulps` (or both NaN), integers equal.
void expect_near(DataType type, Number actual, Number expected, double ulps, double absolute, std::string const& what) {
    if (!is_float(type)) {
        ASSERT_EQ(actual.integer, expected.integer) << what;
        return;
    }
    if (expected.real != expected.real) {
        ASSERT_TRUE(actual.real != actual.real) << what << ": " << actual.real << ", expected NaN";
        return;
    }
    if (actual.real == expected.real) return;
    ASSERT_LE(std::abs(actual.real - expected.real), std::max(ulps * ulp(type, expected.real), absolute))
        << what << ": " << actual.real << ", expected " << expected.real;
}

void check(ElementwiseInfo const& info, std::vector<Tensor> inputs, std::vector<Tensor> const& outputs, double ulps = 0,
           double absolute = 0) {
    auto answers = run_all(info, inputs, outputs);
    ASSERT_FALSE(answers.empty());
    for (auto& answer : answers)
        for (size_t k = 0; k < outputs.size(); ++k)
            for (int64_t i = 0; i < outputs[k].stored_count(); ++i) {
                auto type = outputs[k].dtype;
                auto actual = load_number(type, answer.outputs[k].data(), i);
                auto expected = load_number(type, answers.back().outputs[k].data(), i);
                std::string at;
                for (size_t j = 0; j < inputs.size() && inputs[j].count() == outputs[k].count(); ++j) {
                    auto x = load_number(inputs[j].dtype, inputs[j].data(), i);
                    at += " " + std::to_string(is_float(inputs[j].dtype) ? x.real : static_cast<double>(x.integer));
                }
                expect_near(type, actual, expected, ulps, absolute,
                            answer.id + " element " + std::to_string(i) + " of" + at + " " + info.attributes());
                if (::testing::Test::HasFatalFailure()) return;
            }
}

bool is_accepted(ElementwiseInfo const& info, std::vector<Tensor> const& inputs, Tensor const& output) {
    std::vector<Operand> in, out{{output, nullptr}};
    for (auto const& t : inputs) in.push_back({t, nullptr});
    return !candidates(info, {in, out, "cpu", cpu_features().isa, 1, Precision::Default}).kernels.empty();
}

/// Largest error of the vector functions in f32 in ulp, as stated where they are defined; products of a function and x
/// add one.
double f32_ulps(ExprOp op) {
    switch (op) {
        case ExprOp::Exp:
            return 2;
        case ExprOp::Log:
        case ExprOp::Erf:
            return 2;
        case ExprOp::Acos:
        case ExprOp::Atan:
            return 2;
        case ExprOp::Asin:
        case ExprOp::Tanh:
        case ExprOp::Sigmoid:
        case ExprOp::Sinh:
        case ExprOp::Cosh:
            return 3;
        case ExprOp::Tan:
            return 4;
        case ExprOp::Asinh:
        case ExprOp::Acosh:
        case ExprOp::Atanh:
            return 5;
        case ExprOp::Silu:
        case ExprOp::Mish:
        case ExprOp::Selu:
        case ExprOp::Celu:
        case ExprOp::Elu:
            return 5;
        case ExprOp::Softplus:
            return 5;
        case ExprOp::Rsqrt:
        case ExprOp::Fma:
        case ExprOp::HardSigmoid:
        case ExprOp::HardSwish:
            return 2;
        default:
            return 1.01;
    }
}

TEST(Elementwise, UnaryOfFloats) {
    std::mt19937 random(11);
    for (auto type : kFloats)
        for (int op = static_cast<int>(ExprOp::Abs); op <= static_cast<int>(ExprOp::Shrink); ++op) {
            auto kind = static_cast<ExprOp>(op);
            auto result = kind == ExprOp::IsNan || kind == ExprOp::IsInf ? DataType::Bool : type;
            ExprInstruction code{
                kind, result, {0}, kind == ExprOp::Selu ? 1.67f : 0.3f, kind == ExprOp::Selu ? 1.05f : 0.6f};
            ElementwiseInfo info{{input(0, type), code}, {1}};
            std::vector<Tensor> inputs{random_tensor(type, {3, 337}, random)};
            if (kind == ExprOp::Not || kind == ExprOp::BitNot) {
                EXPECT_FALSE(is_accepted(info, inputs, inputs[0]));
                continue;
            }
            // Cancelling functions (Gelu, Sin and Shrink-like sums) have an absolute bound of a few eps of the
            // argument's scale.
            double eps = ulp(type, 1.),
                   absolute = kind == ExprOp::GeluErf || kind == ExprOp::GeluTanh ? 16 * eps
                              : kind == ExprOp::Sin || kind == ExprOp::Cos        ? 2 * eps
                              : kind == ExprOp::HardSwish || kind == ExprOp::HardSigmoid || kind == ExprOp::Softplus
                                  ? eps
                                  : 0;
            double ulps = type == DataType::F64 ? 4 : f32_ulps(kind);
            // The vector functions are stated for normal results.
            absolute = std::max(absolute, std::ldexp(1., -126));
            check(info, inputs, {Tensor(result, {3, 337})}, ulps, absolute);
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, PowersOfWhatWasComputed) {
    std::mt19937 random(21);
    for (auto type : kFloats)
        for (double power : {1., 2., 3., 0.5, -1., 1.5}) {
            ElementwiseInfo info{
                {input(0, type), {ExprOp::Abs, type, {0}}, real_constant(type, power), {ExprOp::Pow, type, {1, 2}}},
                {3}};
            check(info, {random_tensor(type, {3, 337}, random)}, {Tensor(type, {3, 337})}, 4, std::ldexp(1., -126));
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, BinaryOfFloats) {
    std::mt19937 random(12);
    for (auto type : kFloats)
        for (int op = static_cast<int>(ExprOp::Add); op <= static_cast<int>(ExprOp::GreaterEqual); ++op) {
            auto kind = static_cast<ExprOp>(op);
            if (kind >= ExprOp::And && kind <= ExprOp::ShiftRight) continue;
            auto result = kind >= ExprOp::Equal ? DataType::Bool : type;
            ElementwiseInfo info{{input(0, type), input(1, type), {kind, result, {0, 1}}}, {2}};
            check(info, {random_tensor(type, {1001}, random), random_tensor(type, {1001}, random)},
                  {Tensor(result, {1001})}, kind == ExprOp::Pow || kind == ExprOp::Mod ? 2 : 0.51);
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, Integers) {
    std::mt19937 random(13);
    for (auto type : kIntegers)
        for (int op = static_cast<int>(ExprOp::Abs); op <= static_cast<int>(ExprOp::GreaterEqual); ++op) {
            auto kind = static_cast<ExprOp>(op);
            auto result = kind >= ExprOp::Equal ? DataType::Bool : type;
            ElementwiseInfo info{{input(0, type)}, {}};
            std::vector<Tensor> inputs{Tensor(type, {517}).fill(random)};
            if (arity_of(kind) == 2) {
                info.code.push_back(input(1, type));
                inputs.push_back(random_tensor(type, {517}, random));
                for (int64_t i = 0; i < 517; ++i)
                    if (load_number(type, inputs[1].data(), i).integer == 0)
                        store_number(type, inputs[1].data(), i, {0, 3});
            }
            info.code.push_back({kind, result, {0, 1}});
            info.outputs = {static_cast<uint16_t>(info.code.size() - 1)};
            if (!is_accepted(info, inputs, Tensor(result, {517}))) continue;
            check(info, inputs, {Tensor(result, {517})});
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, Casts) {
    std::mt19937 random(14);
    std::vector<DataType> types(std::begin(kFloats), std::end(kFloats));
    types.insert(types.end(), std::begin(kIntegers), std::end(kIntegers));
    types.insert(types.end(), {DataType::Bool, DataType::F8E4M3FN, DataType::F8E5M2});
    for (auto from : types)
        for (auto to : types) {
            ElementwiseInfo info{{input(0, from), {ExprOp::Cast, to, {0}}}, {1}};
            auto x = random_tensor(from, {1000}, random);
            if (from == DataType::F32)
                for (int64_t i = 0; i < 100; ++i) x.as<float>()[i * 7] *= 1e9f, x.as<float>()[i * 9] *= 1e19f;
            if (is_integer(from) && bits_of(from) >= 32)
                for (int64_t i = 0; int64_t value : {2049, 2051, 65503, 65519, 65520, 65535, 16777217, 2147483647})
                    store_number(from, x.data(), 11 * i++ + 3, {0, value});
            check(info, {x}, {Tensor(to, {1000})});
            if (HasFatalFailure()) return;
            // The same as the conversion that folds constants; f64 and wide integers to a small float may round twice
            // here, but not integers to f16.
            if (from == DataType::F64 || (is_integer(from) && to != DataType::F16)) continue;
            std::vector<Tensor> inputs{x}, outputs{Tensor(to, {1000})};
            auto answers = run_all(info, inputs, outputs);
            ASSERT_TRUE(convert(from, x.data(), to, outputs[0].data(), 1000, true));
            for (int64_t i = 0; i < 1000 && !HasFatalFailure(); ++i)
                expect_near(to, load_number(to, answers.back().outputs[0].data(), i),
                            load_number(to, outputs[0].data(), i), 0, 0,
                            std::string(name_of(from)) + " " + std::to_string(load_number(from, x.data(), i).real) +
                                " to " + std::string(name_of(to)));
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, Logic) {
    std::mt19937 random(15);
    auto b = DataType::Bool;
    ElementwiseInfo info{{input(0, b),
                          input(1, b),
                          {ExprOp::And, b, {0, 1}},
                          {ExprOp::Or, b, {0, 1}},
                          {ExprOp::Xor, b, {2, 3}},
                          {ExprOp::Not, b, {4}},
                          {ExprOp::Equal, b, {0, 5}}},
                         {2, 3, 4, 5, 6}};
    check(info, {random_tensor(b, {5, 77}, random), random_tensor(b, {77}, random)},
          std::vector<Tensor>(5, Tensor(b, {5, 77})));
}

TEST(Elementwise, TernaryOfAllTypes) {
    std::mt19937 random(16);
    std::vector<DataType> types(std::begin(kFloats), std::end(kFloats));
    types.insert(types.end(), std::begin(kIntegers), std::end(kIntegers));
    for (auto type : types)
        for (auto op : {ExprOp::Where, ExprOp::Clip, ExprOp::Fma}) {
            auto first = op == ExprOp::Where ? DataType::Bool : type;
            ElementwiseInfo info{{input(0, first), input(1, type), input(2, type), {op, type, {0, 1, 2}}}, {3}};
            // A fused and an unfused product differ by a rounding of the product.
            check(info,
                  {random_tensor(first, {4, 1, 65}, random),
                   random_tensor(type, {3, 65}, random, Layout::Plain, op != ExprOp::Fma),
                   random_tensor(type, {1}, random)},
                  {Tensor(type, {4, 3, 65})}, 1, op == ExprOp::Fma ? 64 * ulp(type, 1.) : 0);
            if (HasFatalFailure()) return;
        }
}

/// A random program over f32, i64 and bool on randomly broadcast shapes.
TEST(Elementwise, RandomProgramsAndShapes) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto dims = random_dims(random, pick(random, 0, 4), 5);
        if (seed % 4 == 0 && !dims.empty()) dims.back() = pick(random, 100, 700);
        std::vector<Tensor> inputs;
        ElementwiseInfo info;
        constexpr DataType kTypes[] = {DataType::F32, DataType::I64, DataType::Bool, DataType::F16};
        for (int64_t i = 0, n = pick(random, 1, 4); i < n; ++i) {
            Dims shape = dims;
            for (auto& size : shape)
                if (pick(random, 0, 2) == 0) size = 1;
            while (!shape.empty() && pick(random, 0, 3) == 0) shape.erase(shape.begin());
            auto type = kTypes[pick(random, 0, 3)];
            inputs.push_back(random_tensor(type, shape, random, Layout::Plain, false));
            info.code.push_back(input(static_cast<uint16_t>(i), type));
        }
        info.code.push_back(real_constant(DataType::F32, 0.75));
        info.code.push_back(real_constant(DataType::I64, 3));
        auto operand = [&](DataType type) -> int {
            std::vector<int> fit;
            for (size_t i = 0; i < info.code.size(); ++i)
                if (info.code[i].dtype == type) fit.push_back(static_cast<int>(i));
            return fit.empty() ? -1 : fit[pick(random, 0, static_cast<int64_t>(fit.size()) - 1)];
        };
        constexpr ExprOp kOps[] = {ExprOp::Add, ExprOp::Mul,  ExprOp::Max,  ExprOp::Less, ExprOp::Where,
                                   ExprOp::Abs, ExprOp::Relu, ExprOp::Cast, ExprOp::Sub,  ExprOp::Clip};
        for (int64_t i = 0, n = pick(random, 1, 12); i < n; ++i) {
            auto op = kOps[pick(random, 0, 9)];
            auto type = kTypes[pick(random, 0, 1) ? 0 : pick(random, 0, 1) * 3];
            if (pick(random, 0, 2) == 0) type = DataType::I64;
            auto condition = operand(DataType::Bool), a = operand(type), b = operand(type), c = operand(type);
            if (a < 0 || (op == ExprOp::Where && condition < 0)) continue;
            ExprInstruction code{op, op == ExprOp::Less ? DataType::Bool : type, {}};
            int args[3] = {op == ExprOp::Where ? condition : a, b, c};
            for (int k = 0; k < arity_of(op); ++k) code.operands[k] = static_cast<uint16_t>(args[k]);
            if (op == ExprOp::Cast) {
                if (type == DataType::F16) continue;
                code.dtype = kTypes[pick(random, 0, 2)];
                // Large floats have no defined integer.
                if (is_float(type) && code.dtype == DataType::I64) code.dtype = DataType::F32;
            }
            info.code.push_back(code);
        }
        std::vector<Tensor> outputs;
        for (int64_t i = 0, n = pick(random, 1, 3); i < n; ++i) {
            auto which = static_cast<uint16_t>(pick(random, 0, static_cast<int64_t>(info.code.size()) - 1));
            info.outputs.push_back(which);
            outputs.emplace_back(info.code[which].dtype, dims);
        }
        check(info, inputs, outputs);
        if (HasFatalFailure()) return;
    }
}

TEST(Elementwise, BlockedLayouts) {
    std::mt19937 random(17);
    auto type = DataType::F32;
    for (auto layout : {Layout::Blocked16, Layout::Blocked8})
        for (Dims dims : {Dims{2, 32, 5, 7}, Dims{3, 19, 3, 3}, Dims{1, 5, 31, 31}, Dims{2, 48, 1, 1},
                          Dims{2, 21, 1, 1}, Dims{2, 16, 9}}) {
            Dims channel(dims.size() - 1, 1), batch(dims.size(), 1);
            channel[0] = batch[1] = dims[1], batch[0] = dims[0];
            ElementwiseInfo info{{input(0, type),
                                  input(1, type),
                                  input(2, type),
                                  input(3, type),
                                  input(4, type),
                                  {ExprOp::Mul, type, {0, 2}},
                                  {ExprOp::Add, type, {5, 1}},
                                  {ExprOp::Sub, type, {6, 3}},
                                  {ExprOp::Mul, type, {7, 4}},
                                  {ExprOp::Cast, DataType::I32, {0}},
                                  real_constant(DataType::I32, 1),
                                  {ExprOp::Add, DataType::I32, {9, 10}}},
                                 {8, 11}};
            check(info,
                  {random_tensor(type, dims, random, layout, false), random_tensor(type, dims, random, layout, false),
                   random_tensor(type, channel, random, Layout::Plain, false),
                   random_tensor(type, {}, random, Layout::Plain, false),
                   random_tensor(type, batch, random, dims[1] % 2 ? Layout::Plain : layout, false)},
                  {Tensor(type, dims, layout), Tensor(DataType::I32, dims, layout)});
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, BlockedLayoutsRepeated) {
    std::mt19937 random(19);
    auto type = DataType::F32;
    ElementwiseInfo info{
        {input(0, type), input(1, type), input(2, type), {ExprOp::Mul, type, {0, 1}}, {ExprOp::Sub, type, {3, 2}}},
        {4}};
    // Along the batch, rows, columns and planes, of whole and other numbers of channels; beside an input by channel.
    Dims const whole[] = {{2, 16, 2, 3, 5}, {2, 19, 3, 2, 4}, {1, 8, 1, 40, 3}};
    for (auto layout : {Layout::Blocked16, Layout::Blocked8})
        for (auto const& dims : whole)
            for (int repeated : {1, 2, 4, 8, 6, 11}) {
                auto part = dims;
                for (int axis : {0, 2, 3, 4})
                    if (repeated >> (axis ? axis - 1 : 0) & 1) part[static_cast<size_t>(axis)] = 1;
                Dims channel{dims[1], 1, 1, 1};
                std::vector<Tensor> inputs{random_tensor(type, dims, random, layout, false),
                                           random_tensor(type, part, random, layout, false),
                                           random_tensor(type, channel, random, Layout::Plain, false)};
                std::vector<Tensor> outputs{Tensor(type, dims, layout)};
                EXPECT_NE(run_all(info, inputs, outputs).front().id.find("tile"), std::string::npos);
                check(info, inputs, outputs);
                if (HasFatalFailure()) return;
            }
}

TEST(Elementwise, OneChannelBesideBlockedLayouts) {
    std::mt19937 random(24);
    auto type = DataType::F32;
    ElementwiseInfo info{{input(0, type),
                          input(1, type),
                          input(2, type),
                          input(3, DataType::U8),
                          {ExprOp::Mul, type, {0, 1}},
                          {ExprOp::Add, type, {4, 2}},
                          {ExprOp::Cast, type, {3}},
                          {ExprOp::Sub, type, {5, 6}}},
                         {7}};
    auto one = [](Dims dims) {
        dims[1] = 1;
        return dims;
    };
    for (auto layout : {Layout::Blocked16, Layout::Blocked8})
        for (Dims dims :
             {Dims{2, 32, 5, 7}, Dims{1, 19, 67, 71}, Dims{3, 5, 1, 9}, Dims{2, 16, 301}, Dims{2, 24, 3, 4, 5}})
            for (int threads : {1, 3}) {
                auto row = one(dims), spatial = Dims(dims.begin() + 2, dims.end());
                row[0] = row[2] = 1;
                check(info,
                      {random_tensor(type, dims, random, layout, false),
                       random_tensor(type, one(dims), random, Layout::Plain, false),
                       random_tensor(type, row, random, Layout::Plain, false),
                       random_tensor(DataType::U8, spatial, random, Layout::Plain, false)},
                      {Tensor(type, dims, layout)}, threads);
                if (HasFatalFailure()) return;
            }
}

TEST(Elementwise, LargeTensorsOnThreads) {
    std::mt19937 random(18);
    auto type = DataType::F32;
    ElementwiseInfo info{{input(0, type), input(1, type), {ExprOp::Add, type, {0, 1}}, {ExprOp::Tanh, type, {2}}}, {3}};
    check(info, {random_tensor(type, {16, 7, 301}, random), random_tensor(type, {7, 1}, random)},
          {Tensor(type, {16, 7, 301})}, 3);
    check(info, {random_tensor(type, {1501, 31}, random), random_tensor(type, {31}, random)},
          {Tensor(type, {1501, 31})}, 3);
    check(info, {random_tensor(type, {1501, 31}, random), random_tensor(type, {1501, 1}, random)},
          {Tensor(type, {1501, 31})}, 3);
}

TEST(Elementwise, PlanesOnThreads) {
    std::mt19937 random(25);
    auto type = DataType::F32;
    ElementwiseInfo linear{{input(0, type), input(1, type), {ExprOp::Add, type, {0, 1}}, {ExprOp::Tanh, type, {2}}},
                           {3}};
    ElementwiseInfo scaled{{input(0, type), input(1, type), {ExprOp::Mul, type, {0, 1}}, {ExprOp::Tanh, type, {2}}},
                           {3}};
    for (auto layout : {Layout::Blocked16, Layout::Blocked8})
        for (Dims dims : {Dims{1, 32, 31, 33}, Dims{1, 37, 31, 33}, Dims{1, 256, 12, 12}}) {
            auto x = random_tensor(type, dims, random, layout);
            Tensor y(type, dims, layout);
            check(linear, {x, random_tensor(type, dims, random, layout)}, {y}, 3);
            check(scaled, {x, random_tensor(type, {dims[1], 1, 1}, random)}, {y}, 3);
            if (HasFatalFailure()) return;
        }
}

TEST(Elementwise, EmptyTensors) {
    ElementwiseInfo info{{input(0, DataType::F32), {ExprOp::Exp, DataType::F32, {0}}}, {1}};
    check(info, {Tensor(DataType::F32, {3, 0, 2})}, {Tensor(DataType::F32, {3, 0, 2})});
}

TEST(Elementwise, DivisionOfExtremeIntegers) {
    constexpr int64_t kValues[]{INT32_MIN, INT32_MIN + 1, -46341,        -7,       -2, -1, 1, 2, 3,
                                7,         46340,         INT32_MAX - 1, INT32_MAX};
    constexpr int kCount = static_cast<int>(std::size(kValues));
    auto type = DataType::I32;
    Tensor a(type, {kCount * kCount}), b = a;
    for (int i = 0; i < kCount * kCount; ++i) {
        auto x = kValues[i / kCount], y = kValues[i % kCount];
        store_number(type, a.data(), i, {0, x == INT32_MIN && y == -1 ? 5 : x});
        store_number(type, b.data(), i, {0, y});
    }
    for (auto op : {ExprOp::Div, ExprOp::Mod, ExprOp::Fmod})
        check({{input(0, type), input(1, type), {op, type, {0, 1}}}, {2}}, {a, b}, {Tensor(type, {kCount * kCount})});
}

/// The definition by fmod, at every position of a block and behind the last; NaN for no number.
TEST(Elementwise, RemaindersOfExtremeFloats) {
    constexpr float kInf = INFINITY;
    float const values[]{0.f,     -0.f,      1.f,        -1.f,          0.1f,       -0.3f,          3.f,
                         -7.5f,   0x1p-149f, -0x1p-149f, 0x1p-126f,     1e-40f,     1e10f,          -1e10f,
                         3.4e38f, kInf,      -kInf,      NAN,           16777215.f, 0x1.fffffep27f, 0x1p28f,
                         0.75f,   1e-38f,    6.25e-2f,   0x1.000002p0f, 5.f,        -5.f,           123.456f};
    constexpr int kCount = static_cast<int>(std::size(values));
    constexpr int64_t kPairs = int64_t{kCount} * kCount;
    auto type = DataType::F32;
    for (bool clustered : {true, false}) {
        Tensor a(type, {kPairs}), b = a;
        for (int i = 0; i < kPairs; ++i) {
            a.as<float>()[i] = values[clustered ? i / kCount : i % kCount];
            b.as<float>()[i] = values[clustered ? i % kCount : i / kCount];
        }
        for (auto op : {ExprOp::Mod, ExprOp::Fmod}) {
            std::vector<Tensor> inputs{a, b}, outputs{Tensor(type, {kPairs})};
            ElementwiseInfo info{{input(0, type), input(1, type), {op, type, {0, 1}}}, {2}};
            for (auto& answer : run_all(info, inputs, outputs))
                for (int64_t i = 0; i < kPairs; ++i) {
                    float x = a.as<float>()[i], y = b.as<float>()[i], want = std::fmod(x, y);
                    if (op == ExprOp::Mod) {
                        if (want == 0)
                            want = std::copysign(want, y);
                        else if (std::signbit(want) != std::signbit(y))
                            want += y;
                    }
                    float got = answer.outputs[0].as<float>()[i];
                    EXPECT_TRUE(std::isnan(want) ? std::isnan(got)
                                                 : got == want && std::signbit(got) == std::signbit(want))
                        << answer.id << " " << name_of(op) << "(" << x << ", " << y << ") = " << got << ", not "
                        << want;
                }
        }
    }
}

TEST(Elementwise, DivisionThatTrapsThrows) {
    for (auto type : {DataType::I32, DataType::I64, DataType::U8})
        for (auto op : {ExprOp::Div, ExprOp::Mod, ExprOp::Fmod}) {
            ElementwiseInfo info{{input(0, type), input(1, type), {op, type, {0, 1}}}, {2}};
            std::vector<Tensor> inputs{Tensor(type, {20}), Tensor(type, {20})}, outputs{Tensor(type, {20})};
            for (int i = 0; i < 20; ++i) store_number(type, inputs[1].data(), i, {0, i == 17 ? 0 : 2});
            EXPECT_THROW(run_all(info, inputs, outputs), InvalidInput);
            if (!is_signed(type)) continue;
            store_number(type, inputs[1].data(), 17, {0, -1});
            store_number(type, inputs[0].data(), 17, {0, int64_t{-1} << (bits_of(type) - 1)});
            if (op == ExprOp::Div) {
                EXPECT_THROW(run_all(info, inputs, outputs), InvalidInput);
                continue;
            }
            check(info, inputs, outputs);
            for (auto& answer : run_all(info, inputs, outputs))
                EXPECT_EQ(load_number(type, answer.outputs[0].data(), 17).integer, 0) << name_of(op);
        }
}

TEST(Elementwise, Refusals) {
    auto f = DataType::F32;
    Tensor x(f, {4});
    EXPECT_FALSE(is_accepted({{input(1, f)}, {0}}, {x}, x));
    EXPECT_FALSE(is_accepted({{input(0, f), {ExprOp::Add, f, {0, 2}}}, {1}}, {x}, x));
    EXPECT_FALSE(is_accepted({{input(0, f), {ExprOp::Add, DataType::I32, {0, 0}}}, {1}}, {x}, x));
    EXPECT_FALSE(is_accepted({{input(0, f), {ExprOp::BitAnd, f, {0, 0}}}, {1}}, {x}, x));
    EXPECT_FALSE(is_accepted({{input(0, DataType::String)}, {0}}, {x}, x));
    EXPECT_TRUE(is_accepted({{input(0, f), {ExprOp::Add, f, {0, 0}}}, {1}}, {x}, x));
}

}  // namespace
}  // namespace refactor::kernel
