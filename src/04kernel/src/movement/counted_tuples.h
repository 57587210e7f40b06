#pragma once
#include "movement/indices.h"

#include <vector>

namespace refactor::kernel::movement {

/// Tuples of indices that count, as those of x[:, a:b, ::2] do: tuple t, whose digits are p where level i has
/// `counts[i]` digits (the last level is the fastest), is `first + Σ p[i] · steps[i]`.
///
/// Example: (1, 4), (1, 5), (1, 6), (3, 4), (3, 5), (3, 6) are (1, 4) with the levels 2 × (2, 0) and 3 × (0, 1).
struct CountedTuples {
    struct Level {
        int64_t count;
        Dims step;  ///< one number per place of a tuple
    };
    Dims first;
    std::vector<Level> levels;

    Dims last() const;
    /// `tuples` > 0 tuples of `depth` > 0 indices, or nothing if they do not count, or need more than `most` levels.
    static std::optional<CountedTuples> of(void const* indices, DataType type, int64_t tuples, int64_t depth,
                                           size_t most);
};

}  // namespace refactor::kernel::movement
