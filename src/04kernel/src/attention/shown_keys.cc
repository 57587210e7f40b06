#include "attention/shown_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace refactor::kernel {

/// What a mask says of so many keys of a row.
ShownKeys::Hiding ShownKeys::hiding_of(void const* mask, int64_t at, int64_t keys) const {
    if (shape_.bool_mask) {
        auto const* allowed = static_cast<unsigned char const*>(mask) + at;
        bool any = std::any_of(allowed, allowed + keys, [](unsigned char x) { return x != 0; });
        return any ? Hiding::None : Hiding::Always;
    }
    auto const *added = static_cast<float const*>(mask) + at, *end = added + keys;
    if (!std::all_of(added, end, [](float x) { return x <= kHiddenBelow; })) return Hiding::None;
    bool all = std::all_of(added, end, [](float x) { return x == -INFINITY; });
    return all ? Hiding::Always : Hiding::BesideOthers;
}

bool ShownKeys::hides_all(MaskedRows const& r, int64_t first, int64_t count) const {
    auto const key_step = shape_.mask_step[3];
    auto head = r.head + r.row / shape_.queries, query = r.row % shape_.queries;
    auto hiding = Hiding::None;
    int64_t before = -1;
    for (int64_t i = 0; r.mask && i < r.rows; ++i) {
        auto at = shape_.mask_at(r.batch, head, query) + first * key_step;
        if (++query == shape_.queries) query = 0, ++head;
        if (std::exchange(before, at) != at) hiding = hiding_of(r.mask, at, key_step ? count : 1);
        bool sees_others = r.maxima[i] > kHiddenBelow / 16;
        if (hiding == Hiding::None || (hiding == Hiding::BesideOthers && !sees_others)) return false;
    }
    return r.mask != nullptr;
}

int64_t ShownKeys::end_of_shown(void const* mask, int64_t at, int64_t from, int64_t count) const {
    if (!shape_.bool_mask) return scores_.end_of_shown(static_cast<float const*>(mask) + at, from, count);
    auto const* allowed = static_cast<unsigned char const*>(mask) + at;
    constexpr int64_t kStep = 16;
    for (auto end = count; end > from; end -= kStep) {
        unsigned any = 0;
        for (auto i = std::max(from, end - kStep); i < end; ++i) any |= allowed[i];
        if (!any) continue;
        // To the key: behind it a cache may hold anything, NaN too.
        while (!allowed[end - 1]) --end;
        return end;
    }
    return from;
}

int64_t ShownKeys::shown(MaskedRows const& r, int64_t first, int64_t count) const {
    auto const key_step = shape_.mask_step[3];
    auto head = r.head + r.row / shape_.queries, query = r.row % shape_.queries;
    int64_t most = r.mask ? 0 : count;
    for (int64_t i = 0; i < r.rows && most < count; ++i) {
        auto at = shape_.mask_at(r.batch, head, query) + first * key_step;
        if (++query == shape_.queries) query = 0, ++head;
        bool sees_more;
        if (key_step) {
            auto end = end_of_shown(r.mask, at, most, count);
            sees_more = end > std::exchange(most, end);
        } else {
            sees_more = end_of_shown(r.mask, at, 0, 1) > 0;
            if (sees_more) return count;
        }
        bool sees_others = sees_more || r.maxima[i] > kHiddenBelow / 16;
        if (!sees_others && hiding_of(r.mask, at, key_step ? count : 1) == Hiding::BesideOthers) return count;
    }
    return most;
}

}  // namespace refactor::kernel
