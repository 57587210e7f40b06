#include "unicode_case.h"

#include "utf8.h"

#include <algorithm>
#include <iterator>

namespace refactor::kernel::text {

namespace {

/// Code points `first`, `first + step` … up to `last` map to themselves plus `delta`.
struct CaseRange {
    int32_t first, last, step, delta;
};

constexpr CaseRange kLower[]{
#define RG_LOWER(first, last, step, delta) {first, last, step, delta},
#include "unicode_case.inc"
#undef RG_LOWER
};
constexpr CaseRange kUpper[]{
#define RG_UPPER(first, last, step, delta) {first, last, step, delta},
#include "unicode_case.inc"
#undef RG_UPPER
};

template <size_t N>
int32_t mapped(CaseRange const (&ranges)[N], int32_t code) {
    auto found = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                  [](int32_t value, CaseRange const& range) { return value < range.first; });
    if (found == std::begin(ranges)) return code;
    auto const& range = *std::prev(found);
    return code <= range.last && (code - range.first) % range.step == 0 ? code + range.delta : code;
}

template <size_t N>
std::string map_text(std::string_view source, CaseRange const (&ranges)[N]) {
    std::string result;
    result.reserve(source.size());
    for (size_t at = 0; at < source.size();) {
        auto [code, length] = decode(source, at);
        if (code < 0)
            result += source[at];
        else
            append(result, mapped(ranges, code));
        at += length;
    }
    return result;
}

}  // namespace

std::string lower(std::string_view source) { return map_text(source, kLower); }
std::string upper(std::string_view source) { return map_text(source, kUpper); }

}  // namespace refactor::kernel::text
