#include "elementwise/reference.h"
#include "kernel/ops/elementwise.h"
#include "movement/movement_test.h"

namespace refactor::kernel {
namespace {

using namespace testing;

ExprInstruction real(double value) {
    ExprInstruction code{ExprOp::Constant, DataType::F32};
    code.value = value;
    return code;
}

/// Dequantises, applies `op` and quantises again.
ElementwiseInfo quantized(ExprOp op, DataType from, DataType to) {
    auto f = DataType::F32;
    bool is_signed = to == DataType::I8;
    return {{{ExprOp::Input, from, {0}},
             {ExprOp::Cast, f, {0}},
             real(0.05),
             {ExprOp::Mul, f, {1, 2}},
             {op, f, {3}},
             real(0.03),
             {ExprOp::Div, f, {4, 5}},
             {ExprOp::Round, f, {6}},
             real(is_signed ? -128 : 0),
             real(is_signed ? 127 : 255),
             {ExprOp::Clip, f, {7, 8, 9}},
             {ExprOp::Cast, to, {10}}},
            {11}};
}

std::vector<std::string> tables_of(ElementwiseInfo const& info, Tensor const& x, Tensor const& y,
                                   std::vector<Rejection>* rejections = nullptr, Isa isa = cpu_features().isa) {
    std::vector<Operand> in{{x, nullptr}}, out{{y, nullptr}};
    auto found = candidates(info, {in, out, "cpu", isa, 1, Precision::Default});
    std::vector<std::string> ids;
    for (auto const& kernel : found.kernels)
        if (kernel->id().find(":table:") != std::string::npos) ids.push_back(kernel->id());
    if (rejections) *rejections = std::move(found.rejections);
    return ids;
}

TEST(ElementwiseTable, GivesWhatComputingGives) {
    std::mt19937 random(27);
    for (auto from : {DataType::U8, DataType::I8})
        for (auto to : {DataType::U8, DataType::I8})
            for (auto op : {ExprOp::GeluErf, ExprOp::Silu, ExprOp::Tanh, ExprOp::HardSwish})
                for (int64_t count : {0, 1, 31, 32, 63, 64, 65, 1000, 40001}) {
                    Tensor x(from, {count}), y(to, {count});
                    for (int64_t i = 0; i < count; ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(random());
                    auto info = quantized(op, from, to);
                    std::vector<Tensor> inputs{x};
                    auto answers = run_all(info, inputs, {y});
                    // The candidate behind the table's is the one whose results it holds.
                    for (size_t i = 0; i < answers.size(); ++i) {
                        if (answers[i].id.find(":table:") == std::string::npos) continue;
                        auto &table = answers[i], &computed = answers.at(i + 1);
                        ASSERT_EQ(std::memcmp(table.outputs[0].data(), computed.outputs[0].data(),
                                              static_cast<size_t>(count)),
                                  0)
                            << table.id << ", " << count << " of " << name_of(from) << ", " << name_of(op);
                    }
                    ASSERT_FALSE(tables_of(info, x, y).empty());
                }
}

TEST(ElementwiseTable, CopiesWhereTheTypeAloneChanges) {
    Tensor x(DataType::U8, {8}), y(DataType::I8, {8});
    ElementwiseInfo info{{{ExprOp::Input, DataType::U8, {0}}, {ExprOp::Cast, DataType::I8, {0}}}, {1}};
    auto found = tables_of(info, x, y);
    ASSERT_FALSE(found.empty());
    EXPECT_NE(found[0].find(":copy"), std::string::npos) << found[0];
}

TEST(ElementwiseTable, Declines) {
    Tensor bytes(DataType::U8, {8}), floats(DataType::F32, {8});
    std::vector<Rejection> why;
    auto mentions = [&](std::string_view text) {
        return std::any_of(why.begin(), why.end(),
                           [&](Rejection const& r) { return r.reason.find(text) != std::string::npos; });
    };
    ElementwiseInfo wide{{{ExprOp::Input, DataType::F32, {0}}, {ExprOp::Exp, DataType::F32, {0}}}, {1}};
    EXPECT_TRUE(tables_of(wide, floats, floats, &why).empty());
    EXPECT_TRUE(mentions("both of bytes"));
    ElementwiseInfo cheap{{{ExprOp::Input, DataType::U8, {0}}, {ExprOp::BitNot, DataType::U8, {0}}}, {1}};
    EXPECT_TRUE(tables_of(cheap, bytes, bytes, &why, Isa::Scalar).empty());
    EXPECT_TRUE(mentions("computing takes less time"));
    // 100 / 0 has no value, and x may not have a 0.
    ExprInstruction hundred{ExprOp::Constant, DataType::U8};
    hundred.value = 100, hundred.integer = 100;
    ElementwiseInfo ratio{{{ExprOp::Input, DataType::U8, {0}}, hundred, {ExprOp::Div, DataType::U8, {1, 0}}}, {2}};
    EXPECT_TRUE(tables_of(ratio, bytes, bytes, &why, Isa::Scalar).empty());
    EXPECT_TRUE(mentions("not every byte has a result"));
}

}  // namespace
}  // namespace refactor::kernel
