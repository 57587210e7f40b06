#pragma once
#include "common/cpu_features.h"
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

/// How updates get to their places, in their order: written over what is there, or combined with it. Offsets and sizes
/// are in elements. A minimum or maximum of NaN is NaN; f16 and bf16 are combined in f32.
struct Put {
    /// Update `i` goes to `to[i]`.
    using Elements = void (*)(std::byte* y, int64_t const* to, int64_t count, std::byte const* updates);
    /// `row` updates, `step` behind those before, go to `to[i]` and behind it.
    using Rows = void (*)(std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates,
                          int64_t step);
    int64_t bytes = 0;  ///< of an element
    Elements elements = nullptr;
    Rows rows = nullptr;

    /// Null functions: there is no such reduction of this type.
    static Put of(ScatterReduction reduction, DataType type, Isa isa);
    /// Writes elements of 1, 2, 4, 8 or 16 bytes.
    static Put words(int64_t bytes);
    /// As `elements`; those that go behind each other, as those of broadcast or counted indices do, at once.
    void runs(std::byte* y, int64_t const* to, int64_t count, std::byte const* updates) const;
};

}  // namespace refactor::kernel
