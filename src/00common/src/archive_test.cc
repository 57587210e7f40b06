#include "common/archive.h"

#include <limits>

#include <gtest/gtest.h>

namespace refactor {
namespace {

enum class Shade : uint8_t { Dark, Light };

struct Nothing {
    bool operator==(Nothing const&) const = default;
};

struct Inner {
    SmallVector<int64_t, 4> steps;
    Shade shade = Shade::Dark;
    bool operator==(Inner const&) const = default;
};

struct One {
    Inner inner;
    bool operator==(One const&) const = default;
};

struct Outer {
    static constexpr char const* kName = "not a field";
    std::string text;
    std::array<uint16_t, 3> places{};
    std::vector<Inner> inners;
    One one;
    Nothing nothing;
    double value = 0;
    bool flag = false;
    std::shared_ptr<Inner const> pointer;
    std::vector<DimExpr> sizes;
    std::optional<int64_t> some, none;
    std::vector<bool> flags;
};

struct Twenty {
    int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10;
    int k = 11, l = 12, m = 13, n = 14, o = 15, p = 16, q = 17, r = 18, s = 19, t = 20;
    bool operator==(Twenty const&) const = default;
};

class Archive : public testing::Test {
protected:
    SymbolTable table;
    DimExpr N = DimExpr::symbol(table.intern("N")), S = DimExpr::symbol(table.intern("S"));

    template <class T>
    static std::vector<std::byte> bytes_of(T const& value) {
        ArchiveWriter writer;
        writer.write(value);
        return std::move(writer).finish();
    }
    Outer outer() const {
        auto inner = Inner{{1, -2, 3, 4, 5}, Shade::Light};
        return {"a\0b", {7, 8, 9}, {inner, {}}, {inner},      {}, -0.5, true, std::make_shared<Inner const>(inner),
                {N, 3}, 5,         {},          {true, false}};
    }
};

TEST_F(Archive, FieldsComeBack) {
    auto written = outer();
    auto bytes = bytes_of(written);
    ArchiveReader reader(bytes);
    auto read = reader.read<Outer>();
    EXPECT_TRUE(reader.at_end());
    EXPECT_EQ(read.text, written.text);
    EXPECT_EQ(read.places, written.places);
    EXPECT_EQ(read.inners, written.inners);
    EXPECT_EQ(read.one, written.one);
    EXPECT_EQ(read.value, -0.5);
    EXPECT_TRUE(read.flag);
    EXPECT_EQ(*read.pointer, *written.pointer);
    EXPECT_EQ(read.sizes, written.sizes);
    EXPECT_EQ(read.some, 5);
    EXPECT_FALSE(read.none);
    EXPECT_EQ(read.flags, written.flags);
    EXPECT_EQ(reader.symbols(), 1u);

    auto twenty = bytes_of(Twenty{});
    EXPECT_EQ(ArchiveReader(twenty).read<Twenty>(), Twenty{});
    EXPECT_EQ(ArchiveReader(bytes_of(std::shared_ptr<Inner const>())).read<std::shared_ptr<Inner const>>(), nullptr);
}

TEST_F(Archive, SizesComeBackInNormalForm) {
    auto between = min(N + 3, max(S, 2));
    std::vector<DimExpr> sizes{N,
                               DimExpr(std::numeric_limits<int64_t>::min()),
                               N * S * 2 - S + 7,
                               floor_div(N + 1, S),
                               ceil_div(N, 3),
                               mod(S, N),
                               between,
                               floor_div(between * 5, 4),
                               *broadcast(N, S),
                               floor_div(N, 0)};
    auto bytes = bytes_of(sizes);
    ArchiveReader reader(bytes);
    EXPECT_EQ(reader.symbols(), 2u);
    EXPECT_EQ(reader.read<std::vector<DimExpr>>(), sizes);
}

TEST_F(Archive, EveryBeginningIsRefused) {
    auto bytes = bytes_of(outer());
    for (size_t length = 0; length < bytes.size(); ++length) {
        auto part = std::span(bytes).first(length);
        EXPECT_THROW(ArchiveReader(part).read<Outer>(), InvalidModel) << length;
    }
}

TEST_F(Archive, WhatCannotBeIsRefused) {
    auto with_last = [](auto const& value, std::byte last) {
        auto bytes = bytes_of(value);
        bytes.back() = last;
        return bytes;
    };
    EXPECT_THROW(ArchiveReader(with_last(true, std::byte{2})).read<bool>(), InvalidModel);
    EXPECT_THROW(ArchiveReader(with_last(std::vector<char>(), std::byte{1})).read<std::string>(), InvalidModel);
    EXPECT_THROW(ArchiveReader(with_last(N, std::byte{1})).read<DimExpr>(), InvalidModel);

    using Step = DimProgram::Instruction;
    auto with_table = [](std::vector<Step> const& steps) {
        auto bytes = bytes_of(steps);  // behind an empty table of its own
        return std::vector(bytes.begin() + sizeof(uint64_t), bytes.end());
    };
    EXPECT_NO_THROW(ArchiveReader(with_table({{Step::Op::Constant, 0, 0, 4}, {Step::Op::Add, 0, 0, 0}})));
    for (auto const& wrong : std::vector<std::vector<Step>>{
             {{Step::Op::Constant, 0, 0, 4}, {Step::Op::Add, 0, 1, 0}},
             {{Step::Op::Add, 0, 0, 0}},
             {{Step::Op::Symbol, UINT32_MAX, 0, 0}},
             {{Step::Op::Constant, 0, 0, 4}, {static_cast<Step::Op>(99), 0, 0, 0}},
             {{Step::Op::Constant, 0, 0, 4}, {Step::Op::Constant, 0, 0, 5}, {Step::Op::Broadcast, 0, 1, 0}}})
        EXPECT_THROW(ArchiveReader(with_table(wrong)), InvalidModel);
}

}  // namespace
}  // namespace refactor
