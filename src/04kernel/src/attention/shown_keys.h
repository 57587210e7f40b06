#pragma once
#include "attention/attention.h"
#include "attention/scores.h"

namespace refactor::kernel {

/// Rows of an attention: queries of heads behind each other.
struct MaskedRows {
    void const* mask;  ///< null: all keys are seen
    int64_t batch, head;
    int64_t row, rows;    ///< from query `row` on, counted from the first of `head`
    float const* maxima;  ///< the largest score so far of each
};

/// Which keys a mask shows to rows.
class ShownKeys {
    enum class Hiding { None, BesideOthers, Always };

    ScoreFunctions const& scores_;
    AttentionShape shape_;

    Hiding hiding_of(void const* mask, int64_t at, int64_t keys) const;
    int64_t end_of_shown(void const* mask, int64_t at, int64_t from, int64_t count) const;

public:
    ShownKeys(ScoreFunctions const& scores, AttentionShape const& shape) : scores_(scores), shape_(shape) {}

    /// Whether no row has a use for `count` keys from `first` on. Most masks show the first key that is asked for.
    bool hides_all(MaskedRows const&, int64_t first, int64_t count) const;
    /// As many keys from `first`, at most `count`, as have any weight for a row.
    int64_t shown(MaskedRows const&, int64_t first, int64_t count) const;
};

}  // namespace refactor::kernel
