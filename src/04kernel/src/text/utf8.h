#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace refactor::kernel::text {

/// A code point and its bytes; `length` 1 and `code` -1 for a byte that is no UTF-8.
struct CodePoint {
    int32_t code;
    uint32_t length;
};

/// The code point that begins at `at`, which must be within the text. Overlong forms and surrogates are no UTF-8.
inline CodePoint decode(std::string_view text, size_t at) {
    auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    auto first = byte(at);
    if (first < 0x80) return {first, 1};
    uint32_t length = first >= 0xf0 && first < 0xf5   ? 4
                      : first >= 0xe0 && first < 0xf0 ? 3
                      : first >= 0xc2 && first < 0xe0 ? 2
                                                      : 0;
    if (length == 0 || at + length > text.size()) return {-1, 1};
    int32_t code = first & (0x7f >> length);
    for (size_t i = at + 1; i < at + length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {-1, 1};
        code = code << 6 | (byte(i) & 0x3f);
    }
    bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    if (overlong || surrogate || code > 0x10ffff) return {-1, 1};
    return {code, length};
}

inline void append(std::string& text, int32_t code) {
    auto put = [&](int32_t byte) { text += static_cast<char>(byte); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)),
            put(0x80 | (code & 0x3f));
    }
}

/// White space as Python's `str.split` knows it (Unicode `White_Space` and the separators 0x1c to 0x1f).
inline bool is_space(int32_t code) {
    if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

}  // namespace refactor::kernel::text
