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

}  // namespace

}  // namespace refactor::mem_manager
