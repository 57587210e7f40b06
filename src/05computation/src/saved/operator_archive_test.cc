#include "saved/operator_archive.h"

#include "common/error.h"
#include "computation/if.h"
#include "saved/operator_infos.h"

#include <gtest/gtest.h>

namespace refactor::computation {
namespace {

/// Gives every field a value that it does not begin with.
struct Change {
    int64_t next = 2;

    template <class T>
    void operator()(T& x) {
        if constexpr (std::is_same_v<T, bool>)
            x = !x;
        else if constexpr (std::is_enum_v<T>)
            x = static_cast<T>(1);
        else if constexpr (std::is_arithmetic_v<T>)
            x = static_cast<T>(next++);
        else if constexpr (refactor::detail::kIsArray<T>)
            for (auto& element : x) (*this)(element);
        else if constexpr (refactor::detail::kIsList<T>)
            for (x.resize(2); auto& element : x) (*this)(element);
        else
            std::apply([&](auto&... fields) { ((*this)(fields), ...); }, fields_of(x));
    }
};

template <class Info>
void check() {
    Info info;
    Change()(info);
    std::vector<DimExpr> params{DimExpr::symbol(0) * 2, 5};
    auto op = make_operator(info, params);
    GraphWriter writer;
    write_operator(writer, *op);
    auto bytes = std::move(writer).finish();
    GraphReader reader(bytes, {});
    auto read = read_operator(reader);
    EXPECT_TRUE(reader.at_end());
    ASSERT_TRUE(info_of<Info>(*read)) << Info::kType;
    EXPECT_EQ(read->attributes(), op->attributes()) << Info::kType;
    EXPECT_EQ(std::vector<DimExpr>(read->params().begin(), read->params().end()), params) << Info::kType;

    ArchiveWriter first, second;
    first.write(info), second.write(*info_of<Info>(*read));
    EXPECT_EQ(std::move(first).finish(), std::move(second).finish()) << Info::kType;
    for (size_t length = 0; length < bytes.size(); ++length) {
        auto part = std::span(bytes).first(length);
        EXPECT_THROW(
            {
                GraphReader broken(part, {});
                read_operator(broken);
            },
            InvalidModel)
            << Info::kType << ' ' << length;
    }
}

template <class... Infos>
void check_all(InfoList<Infos...>) {
    (check<Infos>(), ...);
}

TEST(OperatorArchive, EveryOperatorComesBack) { check_all(AllInfos()); }

TEST(OperatorArchive, UnknownTypesAreRefused) {
    GraphWriter writer;
    writer.write(std::string("Nonsense")), writer.write(std::vector<DimExpr>());
    auto bytes = std::move(writer).finish();
    GraphReader reader(bytes, {});
    EXPECT_THROW(read_operator(reader), InvalidModel);
}

}  // namespace
}  // namespace refactor::computation
