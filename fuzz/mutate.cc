#include "mutate.h"

#include <algorithm>
#include <cstring>

namespace refactor::fuzz {

namespace {

constexpr std::string_view kBreaks = " ,=:;()[]";

bool is_number(std::string_view word) {
    auto digits = word.substr(word.starts_with('-') ? 1 : 0);
    return !digits.empty() && digits[0] >= '0' && digits[0] <= '9';
}

}  // namespace

Mutation::Mutation(std::string_view text, uint32_t seed) : random_(seed) {
    while (!text.empty()) {
        auto end = std::min(text.find('\n'), text.size());
        lines_.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

std::vector<Mutation::Word> Mutation::words() const {
    std::vector<Word> words;
    for (size_t line = 0; line < lines_.size(); ++line) {
        auto const& text = lines_[line];
        for (size_t at = 0; at < text.size(); ++at) {
            auto end = std::min(text.find_first_of(kBreaks, at), text.size());
            if (end > at) words.push_back({line, at, end});
            at = end;
        }
    }
    return words;
}

std::string_view Mutation::text_of(Word const& word) const {
    return std::string_view(lines_[word.line]).substr(word.begin, word.end - word.begin);
}

void Mutation::replace(Word const& word, std::string_view by) {
    lines_[word.line].replace(word.begin, word.end - word.begin, std::string(by));
}

std::string Mutation::text() const {
    std::string text;
    for (auto const& line : lines_) text += line + '\n';
    return text;
}

std::string Mutation::number() {
    switch (below(8)) {
        case 0:
            return std::to_string(int64_t{1} << below(63));
        case 1:
            return std::to_string(-(int64_t{1} << below(63)));
        case 2:
            return std::to_string(INT64_MAX - below(3));
        case 3:
            return std::to_string(INT64_MIN + static_cast<int64_t>(below(3)));
        case 4:
            return std::to_string((int64_t{1} << (31 + below(3))) - 1 + below(3));
        default:
            return std::to_string(static_cast<int>(below(24)) - 6);
    }
}

void Mutation::change(std::vector<std::string> const& vocabulary) {
    if (lines_.empty()) lines_.emplace_back();
    auto line = below(lines_.size());
    auto at = lines_.begin() + line;
    auto all = words();
    switch (below(12)) {
        case 0:
            lines_.insert(at, std::string(*at));
            return;
        case 1:
            lines_.erase(at);
            return;
        case 2:
            std::swap(*at, lines_[below(lines_.size())]);
            return;
        case 3:
            *at += ' ' + pick(vocabulary);
            return;
        case 4: {
            auto space = at->find_last_of(' ');
            if (space != at->npos) at->erase(space);
            return;
        }
        default:
            break;
    }
    if (all.empty()) return;
    auto word = pick(all);
    // Numbers are what goes wrong most: two of three times one of them.
    for (int i = 0; i < 4 && !is_number(text_of(word)) && below(3); ++i) word = pick(all);
    if (is_number(text_of(word))) {
        auto old = std::string(text_of(word));
        if (below(5) == 0) return replace(word, below(2) ? old + ',' + number() : old + ",1");
        if (below(6) == 0 && word.begin && lines_[word.line][word.begin - 1] == ',')
            return replace({word.line, word.begin - 1, word.end}, "");
        return replace(word, number());
    }
    replace(word, below(3) ? std::string(text_of(pick(all))) : pick(vocabulary));
}

size_t put(Mutation const& mutation, char* text, size_t most) {
    auto result = mutation.text();
    auto size = std::min(result.size(), most);
    std::memcpy(text, result.data(), size);
    return size;
}

}  // namespace refactor::fuzz
