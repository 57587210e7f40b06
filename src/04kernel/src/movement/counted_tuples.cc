#include "movement/counted_tuples.h"

namespace refactor::kernel::movement {

namespace {

/// Whether no sums and differences of such numbers overflow; no axis is as large.
template <class I>
bool are_small(I const* numbers, int64_t count) {
    constexpr int64_t kLarge = int64_t{1} << 40;
    return std::all_of(numbers, numbers + count, [](int64_t x) { return -kLarge < x && x < kLarge; });
}

template <class I>
std::optional<CountedTuples> count(I const* indices, int64_t tuples, int64_t depth, size_t most) {
    if (!are_small(indices, tuples * depth)) return std::nullopt;
    CountedTuples result{Dims(indices, indices + depth), {}};
    for (int64_t period = 1; period < tuples;) {
        if (tuples % period || result.levels.size() == most) return std::nullopt;
        CountedTuples::Level level{1, Dims(depth)};
        for (int64_t k = 0; k < depth; ++k) level.step[k] = int64_t{indices[period * depth + k]} - indices[k];
        // Blocks of tuples follow each other by this step: each is the one before, moved.
        auto moved = [&](int64_t block) {
            auto const *to = indices + block * period * depth, *from = to - period * depth;
            for (int64_t t = 0; t < period; ++t, to += depth, from += depth)
                for (int64_t k = 0; k < depth; ++k)
                    if (to[k] != from[k] + level.step[k]) return false;
            return true;
        };
        while ((level.count + 1) * period <= tuples && moved(level.count)) ++level.count;
        if (level.count == 1) return std::nullopt;
        period *= level.count;
        result.levels.insert(result.levels.begin(), std::move(level));
    }
    return result;
}

}  // namespace

Dims CountedTuples::last() const {
    auto at = first;
    for (auto const& level : levels)
        for (size_t k = 0; k < at.size(); ++k) at[k] += (level.count - 1) * level.step[k];
    return at;
}

std::optional<CountedTuples> CountedTuples::of(void const* indices, DataType type, int64_t tuples, int64_t depth,
                                               size_t most) {
    if (type == DataType::I32) return count(static_cast<int32_t const*>(indices), tuples, depth, most);
    return count(static_cast<int64_t const*>(indices), tuples, depth, most);
}

}  // namespace refactor::kernel::movement
