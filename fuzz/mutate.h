#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace refactor::fuzz {

/// A text of lines and words under mutation. Words are what stands between spaces and `,=:;()[]`.
class Mutation {
    std::mt19937 random_;
    std::vector<std::string> lines_;

    struct Word {
        size_t line, begin, end;
    };
    std::vector<Word> words() const;
    std::string_view text_of(Word const& word) const;
    void replace(Word const& word, std::string_view by);

public:
    Mutation(std::string_view text, uint32_t seed);

    std::vector<std::string>& lines() { return lines_; }
    std::string text() const;
    uint32_t below(size_t count) { return count ? static_cast<uint32_t>(random_() % count) : 0; }
    template <class T>
    T const& pick(std::vector<T> const& from) {
        return from[below(from.size())];
    }
    /// A number that borders on something: small, a power of two, an end of a type.
    std::string number();

    /// One change of numbers, words, items of lists or lines.
    void change(std::vector<std::string> const& vocabulary);
};

/// The result of a mutator: `mutation`'s text in `text`, cut to `most` bytes.
size_t put(Mutation const& mutation, char* text, size_t most);

}  // namespace refactor::fuzz
