#include "movement/transpose_small.h"

#include "reduce/kernel_test.h"

#include <vector>

namespace refactor::kernel::test {
namespace {

TEST(TransposeSmall, TransposesBytesAndWords) {
    std::mt19937 random(seed_of(314));
    for (int64_t rows : {1, 2, 3, 4, 5, 15, 16, 17, 40})
        for (int64_t columns : {1, 4, 7, 16, 17, 18, 33, 50}) {
            std::vector<uint8_t> bytes(static_cast<size_t>(rows * (columns + 2))),
                bytes_out(static_cast<size_t>(rows * columns));
            for (auto& b : bytes) b = static_cast<uint8_t>(random());
            auto readable = (rows - 1) * (columns + 2) + columns;
            transpose_bytes(bytes.data(), columns + 2, rows, columns, readable, bytes_out.data(), rows);
            std::vector<uint32_t> words(bytes.begin(), bytes.end()), words_out(bytes_out.size());
            transpose_words(words.data(), columns + 2, rows, columns, words_out.data(), rows);
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < columns; ++c) {
                    auto expected = bytes[static_cast<size_t>(r * (columns + 2) + c)];
                    ASSERT_EQ(bytes_out[static_cast<size_t>(c * rows + r)], expected) << rows << " x " << columns;
                    ASSERT_EQ(words_out[static_cast<size_t>(c * rows + r)], expected) << rows << " x " << columns;
                }
        }
}

TEST(TransposeSmall, SplitsRowsOfThreeWords) {
    for (int64_t rows : {1, 3, 4, 5, 16, 33}) {
        std::vector<uint32_t> words(static_cast<size_t>(3 * rows)), out(static_cast<size_t>(3 * (rows + 2)), 7);
        for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i * 37 + 11);
        transpose_words(words.data(), 3, rows, 3, out.data(), rows + 2);
        for (int64_t r = 0; r < rows + 2; ++r)
            for (int64_t c = 0; c < 3; ++c)
                ASSERT_EQ(out[static_cast<size_t>(c * (rows + 2) + r)],
                          r < rows ? words[static_cast<size_t>(3 * r + c)] : 7u)
                    << rows;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
