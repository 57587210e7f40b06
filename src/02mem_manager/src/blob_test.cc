#include "mem_manager/blob.h"

#include "common/error.h"
#include "mem_manager/device.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace refactor::mem_manager {

namespace {

TEST(Blob, OwnsAlignedMemory) {
    for (size_t bytes : {size_t(1), size_t(63), size_t(4097), (size_t(2) << 20) + 1}) {
        auto blob = Blob::make(cpu_device(), bytes);
        EXPECT_EQ(blob->bytes(), bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blob->data()) % 64, 0u);
        EXPECT_EQ(&blob->device(), &cpu_device());
        std::memset(blob->data(), 1, bytes);
    }
    EXPECT_EQ(Blob::make(cpu_device(), 0)->data(), nullptr);
    EXPECT_THROW(Blob::make(cpu_device(), SIZE_MAX), OutOfMemory);
    EXPECT_THROW(Blob::make(cpu_device(), SIZE_MAX / 4), OutOfMemory);
}

TEST(Blob, OwnsPages) {
    for (size_t bytes : {size_t(0), size_t(5), (size_t(1) << 17) + 1, size_t(2) << 20, (size_t(7) << 20) + 12345}) {
        auto blob = Blob::make_pages(bytes);
        EXPECT_EQ(blob->bytes(), bytes);
        if (!bytes) continue;
        auto alignment = bytes < size_t(2) << 20 ? size_t(64) : size_t(2) << 20;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blob->data()) % alignment, 0u);
        std::memset(blob->data(), 1, bytes);
    }
    EXPECT_THROW(Blob::make_pages(SIZE_MAX), OutOfMemory);
    EXPECT_THROW(Blob::make_pages(SIZE_MAX / 4), OutOfMemory);
}

TEST(Blob, TellsTheOwnerOfForeignMemoryOnce) {
    int released = 0;
    int data[4] = {1, 2, 3, 4};
    auto blob = Blob::wrap(cpu_device(), data, sizeof data, [&] { ++released; });
    auto second = blob;
    EXPECT_EQ(blob->data(), data);
    blob.reset();
    EXPECT_EQ(released, 0);
    second.reset();
    EXPECT_EQ(released, 1);
    Blob::wrap(cpu_device(), data, sizeof data, nullptr).reset();
}

TEST(Blob, CopiesHostMemory) {
    std::string text = "odd-sized";
    auto blob = Blob::copy_of(text.data(), text.size());
    text.assign(9, 'x');
    EXPECT_EQ(std::string(static_cast<char*>(blob->data()), blob->bytes()), "odd-sized");
    EXPECT_EQ(Blob::copy_of(nullptr, 0)->bytes(), 0u);
}

class CountedSource final : public BlobSource {
    std::string text_;
    int& reads_;

public:
    CountedSource(std::string text, int& reads) : text_(std::move(text)), reads_(reads) {}
    void const* direct() const override { return nullptr; }
    void read(void* to) const override {
        ++reads_;
        std::memcpy(to, text_.data(), text_.size());
    }
};

std::string text_of(void const* data, size_t bytes) { return {static_cast<char const*>(data), bytes}; }

TEST(Blob, ReadsItsSourceOnlyWhenAsked) {
    int reads = 0;
    auto blob = Blob::lazy(5, std::make_unique<CountedSource>("lemon", reads));
    EXPECT_EQ(reads, 0);
    for (int i = 1; i <= 2; ++i) {
        EXPECT_EQ(text_of(Blob::Reader(*blob).data(), 5), "lemon");
        EXPECT_EQ(reads, i) << "a Reader leaves a lazy blob as it is";
    }
    EXPECT_EQ(text_of(blob->data(), 5), "lemon");
    EXPECT_EQ(blob->data(), Blob::Reader(*blob).data());
    EXPECT_EQ(reads, 3) << "data() reads once, and readers then see what it keeps";
}

TEST(Blob, StagesReadersInOneBlock) {
    int reads = 0;
    auto small = Blob::lazy(3, std::make_unique<CountedSource>("fig", reads));
    auto large = Blob::lazy(6, std::make_unique<CountedSource>("cherry", reads));
    std::shared_ptr<Blob> staging;
    EXPECT_EQ(text_of(Blob::Reader(*large, staging).data(), 6), "cherry");
    auto* block = staging->data();
    EXPECT_EQ(text_of(Blob::Reader(*small, staging).data(), 3), "fig");
    EXPECT_EQ(staging->data(), block);
    auto known = Blob::copy_of("plum", 4);
    EXPECT_EQ(Blob::Reader(*known, staging).data(), known->data());
}

TEST(Blob, MakesWhatItForgotAgain) {
    int reads = 0;
    auto blob = Blob::renewable(Blob::copy_of("peach", 5), std::make_unique<CountedSource>("peach", reads));
    EXPECT_EQ(blob->bytes(), 5u);
    EXPECT_EQ(text_of(Blob::Reader(*blob).data(), 5), "peach");
    EXPECT_EQ(reads, 0);
    {
        Blob::Reader reader(*blob);
        blob->forget();
        EXPECT_EQ(text_of(reader.data(), 5), "peach") << "readers keep what they see";
    }
    EXPECT_EQ(text_of(Blob::Reader(*blob).data(), 5), "peach");
    EXPECT_EQ(reads, 1);
    auto* data = blob->data();
    EXPECT_EQ(text_of(data, 5), "peach");
    EXPECT_EQ(reads, 2);
    blob->forget();
    EXPECT_EQ(blob->data(), data) << "an address that was given out stays";
    EXPECT_EQ(reads, 2);
}

TEST(Blob, ForgetsNothingThatNobodyCanMake) {
    auto blob = Blob::copy_of("pear", 4);
    auto* data = blob->data();
    blob->forget();
    EXPECT_EQ(text_of(data, 4), "pear");
    int reads = 0;
    auto renewable = Blob::renewable(Blob::copy_of("pear", 4), std::make_unique<CountedSource>("pear", reads));
    data = renewable->data();
    renewable->forget();
    EXPECT_EQ(text_of(data, 4), "pear");
    EXPECT_EQ(reads, 0);
}

}  // namespace

}  // namespace refactor::mem_manager
