#include "made_constants.h"

#include "common/error.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace refactor::computation {

namespace {

using mem_manager::Blob;

constexpr int64_t kMany = 1 << 16;

SharedBlob numbers(int64_t count, float value) {
    std::vector<float> all(static_cast<size_t>(count), value);
    return Blob::copy_of(all.data(), all.size() * sizeof(float));
}

std::vector<float> floats(Blob const& blob) {
    Blob::Reader reader(blob);
    auto const* first = static_cast<float const*>(reader.data());
    return {first, first + blob.bytes() / sizeof(float)};
}

/// Sums of two constants, and how often they were made.
struct Sums {
    int made = 0;
    SharedBlob of(SharedBlob a, SharedBlob b, int64_t count) {
        return make_constant(static_cast<size_t>(count) * sizeof(float), {std::move(a), std::move(b)},
                             [this, count](std::span<void const* const> from, void* to) {
                                 ++made;
                                 auto const *x = static_cast<float const*>(from[0]),
                                            *y = static_cast<float const*>(from[1]);
                                 std::transform(x, x + count, y, static_cast<float*>(to), std::plus());
                             });
    }
};

TEST(MadeConstants, AreMadeAgainOnceForgotten) {
    Sums sums;
    auto constant = sums.of(numbers(kMany, 1), numbers(kMany, 2), kMany);
    EXPECT_EQ(floats(*constant), std::vector<float>(kMany, 3));
    EXPECT_EQ(sums.made, 1);
    constant->forget();
    EXPECT_EQ(floats(*constant), std::vector<float>(kMany, 3));
    EXPECT_EQ(sums.made, 2);
}

TEST(MadeConstants, ForgetWhatTheyAreMadeOf) {
    Sums inner, outer;
    auto part = inner.of(numbers(kMany, 1), numbers(kMany, 2), kMany);
    auto constant = outer.of(part, numbers(kMany, 4), kMany);
    EXPECT_EQ(floats(*part), std::vector<float>(kMany, 3));
    EXPECT_EQ(inner.made, 1);
    constant->forget();
    EXPECT_EQ(floats(*part), std::vector<float>(kMany, 3));
    EXPECT_EQ(inner.made, 2);
    EXPECT_EQ(floats(*constant), std::vector<float>(kMany, 7));
    EXPECT_EQ(outer.made, 2);
}

TEST(MadeConstants, ReadInPlaceForgetWhatTheyAreMadeOf) {
    Sums inner, outer;
    auto part = inner.of(numbers(kMany, 1), numbers(kMany, 2), kMany);
    auto constant = outer.of(part, numbers(kMany, 4), kMany);
    EXPECT_EQ(*static_cast<float const*>(constant->data()), 7.f);
    EXPECT_EQ(floats(*part), std::vector<float>(kMany, 3));
    EXPECT_EQ(inner.made, 2) << "the part was given up";
    constant->forget();
    EXPECT_EQ(floats(*constant), std::vector<float>(kMany, 7));
    EXPECT_EQ(outer.made, 1) << "what is read in place stays";
}

TEST(MadeConstants, KeepWhatIsSmallOrMadeOfFarMore) {
    Sums sums;
    auto small = sums.of(numbers(4, 1), numbers(4, 2), 4);
    auto part = sums.of(numbers(16 * kMany, 1), numbers(16 * kMany, 2), kMany);
    small->forget(), part->forget();
    EXPECT_EQ(floats(*small), std::vector<float>(4, 3));
    EXPECT_EQ(floats(*part), std::vector<float>(kMany, 3));
    EXPECT_EQ(sums.made, 2);
}

TEST(MadeConstants, TellReadersWhatFailed) {
    bool fails = false;
    auto constant = make_constant(size_t(kMany), {nullptr}, [&](std::span<void const* const> from, void* to) {
        if (fails) throw InternalError("no kernel");
        EXPECT_EQ(from[0], nullptr) << "an absent operand";
        std::fill_n(static_cast<char*>(to), kMany, '\1');
    });
    fails = true;
    EXPECT_EQ(*static_cast<char const*>(Blob::Reader(*constant).data()), '\1');
    constant->forget();
    EXPECT_THROW(Blob::Reader reader(*constant), InternalError);
    EXPECT_THROW(constant->data(), InternalError);
    fails = false;
    EXPECT_EQ(*static_cast<char const*>(constant->data()), '\1');
}

}  // namespace

}  // namespace refactor::computation
