#include "common/thread_pool.h"
#include "kernel/kernel.h"
#include "mem_manager/blob.h"

#include <atomic>
#include <cstring>

#include <gtest/gtest.h>

namespace refactor::kernel {

namespace {

using mem_manager::Blob;

/// Bytes that a Reader has to copy.
class Filled final : public mem_manager::BlobSource {
    int value_;
    size_t bytes_;

public:
    Filled(int value, size_t bytes) : value_(value), bytes_(bytes) {}
    void const* direct() const override { return nullptr; }
    void read(void* to) const override { std::memset(to, value_, bytes_); }
};

std::vector<size_t> const kSizes{1, 63, 64, 4097, size_t(1) << 18, (size_t(1) << 21) + 5};

std::vector<std::shared_ptr<Blob>> sources() {
    std::vector<std::shared_ptr<Blob>> all;
    for (size_t i = 0; i < 60; ++i) {
        auto bytes = kSizes[i % kSizes.size()];
        all.push_back(Blob::lazy(bytes, std::make_unique<Filled>(static_cast<int>(i), bytes)));
    }
    return all;
}

TEST(PackCache, PacksEveryKeyOnceOnManyThreads) {
    auto const all = sources();
    PackCache cache;
    std::atomic<int> packed = 0;
    auto get = [&](size_t i, char const* format) {
        auto bytes = all[i]->bytes();
        return cache.get(*all[i], format, bytes, [&](void const* from, void* to) {
            ++packed;
            std::memcpy(to, from, bytes);
        });
    };
    auto keys = static_cast<int64_t>(2 * all.size());
    std::vector<std::shared_ptr<Blob const>> blobs(static_cast<size_t>(keys));
    ThreadPool(4).parallel_for(4 * keys, [&](int64_t task, int) {
        auto key = static_cast<size_t>(task % keys);
        auto blob = get(key / 2, key % 2 ? "odd" : "even");
        EXPECT_TRUE(blob);
        if (task < keys) blobs[key] = blob;
    });
    EXPECT_EQ(packed, keys);
    cache.trim();
    size_t bytes = 0;
    for (size_t key = 0; key < blobs.size(); ++key) {
        auto const& blob = *blobs[key];
        EXPECT_EQ(blob.bytes(), all[key / 2]->bytes());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blob.data()) % 64, 0u);
        std::vector<unsigned char> expected(blob.bytes(), static_cast<unsigned char>(key / 2));
        EXPECT_EQ(std::memcmp(blob.data(), expected.data(), blob.bytes()), 0) << "key " << key;
        EXPECT_EQ(get(key / 2, key % 2 ? "odd" : "even"), blobs[key]);
        bytes += blob.bytes();
    }
    EXPECT_EQ(packed, keys);
    EXPECT_EQ(cache.bytes(), bytes);
}

TEST(PackCache, LetsTheSourceForgetWhatItPacked) {
    auto known = Blob::copy_of("pear", 4);
    std::weak_ptr<Blob> held = known;
    auto source = Blob::renewable(std::move(known), std::make_unique<Filled>(7, 4));
    PackCache cache;
    auto copy = [](void const* from, void* to) { std::memcpy(to, from, 4); };
    EXPECT_EQ(std::memcmp(cache.get(*source, "f", 4, copy)->data(), "pear", 4), 0);
    EXPECT_TRUE(held.expired());
    EXPECT_EQ(static_cast<char const*>(cache.get(*source, "g", 4, copy)->data())[0], 7) << "made again";
}

TEST(PackCache, PacksAgainAfterAFailure) {
    auto source = Blob::lazy(8, std::make_unique<Filled>(7, 8));
    PackCache cache;
    EXPECT_THROW(cache.get(*source, "f", 8, [](void const*, void*) { throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_EQ(cache.bytes(), 0u);
    auto blob = cache.get(*source, "f", 8, [](void const* from, void* to) { std::memcpy(to, from, 8); });
    EXPECT_EQ(static_cast<char const*>(blob->data())[7], 7);
}

TEST(PackCache, TakesWhatWasAddedIfItsSizeFits) {
    auto source = Blob::lazy(8, std::make_unique<Filled>(7, 8));
    auto added = Blob::copy_of("12345678", 8);
    PackCache cache;
    cache.add({source.get(), "fits", added});
    cache.add({source.get(), "does not", added});
    int packed = 0;
    auto get = [&](char const* format, size_t bytes) {
        return cache.get(*source, format, bytes, [&](void const*, void* to) { ++packed, std::memset(to, 1, bytes); });
    };
    EXPECT_EQ(get("fits", 8), added);
    EXPECT_EQ(packed, 0);
    EXPECT_EQ(get("does not", 16)->bytes(), 16u);
    EXPECT_EQ(packed, 1);

    auto entries = cache.entries();
    ASSERT_EQ(entries.size(), 2u);
    for (auto const& entry : entries) {
        EXPECT_EQ(entry.source, source.get());
        EXPECT_EQ(entry.packed, get(entry.format.c_str(), entry.packed->bytes()));
    }
}

}  // namespace

}  // namespace refactor::kernel
