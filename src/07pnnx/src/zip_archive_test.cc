#include "zip_archive.h"

#include "random_test.h"
#include "test_archive.h"

#include <random>

#include <gtest/gtest.h>

namespace refactor::pnnx {
namespace {

using mem_manager::Blob;

std::shared_ptr<Blob const> blob_of(std::string const& bytes) { return Blob::copy_of(bytes.data(), bytes.size()); }

std::string text_of(Blob const& blob) { return {static_cast<char const*>(blob.data()), blob.bytes()}; }

TEST(ZipArchive, StoredEntriesAreRead) {
    auto archive = ZipArchive::open(blob_of(zip_of({{"a.weight", "0123456789"}, {"b", ""}})));
    ASSERT_TRUE(archive.ok()) << archive.error();
    EXPECT_TRUE(archive->has("a.weight"));
    for (size_t alignment : {1, 8}) {
        auto content = archive->read("a.weight", alignment);
        ASSERT_TRUE(content.ok()) << content.error();
        EXPECT_EQ(text_of(**content), "0123456789");
        EXPECT_EQ(reinterpret_cast<uintptr_t>((*content)->data()) % alignment, 0u);
    }
    EXPECT_EQ((*archive->read("b", 4))->bytes(), 0u);
    EXPECT_FALSE(archive->read("c", 1).ok());
}

TEST(ZipArchive, DamagedDataIsRefused) {
    auto bytes = zip_of({{"a", "0123456789"}});
    bytes[bytes.find("345")] = 'x';
    auto archive = ZipArchive::open(blob_of(bytes));
    ASSERT_TRUE(archive.ok());
    auto content = archive->read("a", 1);
    ASSERT_FALSE(content.ok());
    EXPECT_NE(content.error().find("checksum"), std::string::npos);
}

TEST(ZipArchive, CompressedEntriesAreRefused) {
    auto archive = ZipArchive::open(blob_of(zip_of({{"a", "0123456789"}}, 8)));
    ASSERT_TRUE(archive.ok());
    EXPECT_NE(archive->read("a", 1).error().find("method 8"), std::string::npos);
}

TEST(ZipArchive, NamesAreUnique) { EXPECT_FALSE(ZipArchive::open(blob_of(zip_of({{"a", "1"}, {"a", "2"}}))).ok()); }

/// Whatever is changed, nothing is read out of bounds (sanitizers watch) and nothing crashes.
TEST(ZipArchive, AnyDamageIsSurvived) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    auto const whole = zip_of({{"a.weight", std::string(40, 'x')}, {"b", "1234"}});
    for (int i = 0; i < 20000; ++i) {
        auto bytes = whole;
        bytes.resize(std::uniform_int_distribution<size_t>(0, whole.size())(random));
        if (i % 2) bytes = whole;
        for (int k = 0; k < 3 && !bytes.empty(); ++k)
            bytes[std::uniform_int_distribution<size_t>(0, bytes.size() - 1)(random)] = static_cast<char>(random());
        auto archive = ZipArchive::open(blob_of(bytes));
        if (!archive) continue;
        for (auto name : {"a.weight", "b"})
            if (auto content = archive->read(name, 8)) {
                EXPECT_LE((*content)->bytes(), bytes.size()) << "seed " << seed;
            }
    }
}

}  // namespace
}  // namespace refactor::pnnx
