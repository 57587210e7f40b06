#include "common/error.h"
#include "common/thread_pool.h"
#include "kernel/procedures/image.h"
#include "mem_manager/blob.h"

#include <cstring>

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

/// Pictures of one row, whose bytes are those of the file.
class Strip final : public ImageDecoder {
public:
    std::string missing_;
    std::string missing() const override { return missing_; }
    void decode(std::span<std::byte const> file, PixelFormat format, runtime::Value& picture) const override {
        if (file.empty()) throw InvalidInput("no picture");
        auto channels = channels_of(format), columns = static_cast<int64_t>(file.size()) / channels;
        std::memcpy(picture.resize(DataType::U8, {1, columns, channels}), file.data(),
                    static_cast<size_t>(columns * channels));
    }
};

struct ImageDecode : testing::Test {
    std::shared_ptr<Strip> strip = std::make_shared<Strip>();
    ~ImageDecode() override { set_image_decoder(nullptr); }

    runtime::Value decode(std::string_view bytes, PixelFormat format) {
        auto pool = std::make_shared<ThreadPool>(1);
        runtime::RunOptions options;
        std::string allocator = "default";
        runtime::Value file, picture;
        std::memcpy(file.resize(DataType::U8, {static_cast<int64_t>(bytes.size())}), bytes.data(), bytes.size());
        runtime::Value const* inputs[]{&file};
        make_image_decode(format)->call(inputs, {&picture, 1}, {pool, options, nullptr, allocator});
        return picture;
    }
};

TEST_F(ImageDecode, AsksTheHost) {
    set_image_decoder(strip);
    auto picture = decode("abcdef", PixelFormat::Bgr);
    EXPECT_EQ(picture.dims, (Dims{1, 2, 3}));
    EXPECT_EQ(std::memcmp(picture.data<char>(), "abcdef", 6), 0);
    EXPECT_EQ(decode("abcdef", PixelFormat::Grayscale).dims, (Dims{1, 6, 1}));
    EXPECT_THROW(decode("", PixelFormat::Rgb), InvalidInput);
}

TEST_F(ImageDecode, SaysWhatIsMissing) {
    EXPECT_FALSE(image_decoder_missing().empty());
    EXPECT_THROW(decode("abc", PixelFormat::Rgb), Unsupported);
    strip->missing_ = "the package p";
    set_image_decoder(strip);
    EXPECT_EQ(image_decoder_missing(), "the package p");
}

}  // namespace
}  // namespace refactor::kernel
