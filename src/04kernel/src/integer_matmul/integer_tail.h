#pragma once
#include <cstdint>

namespace refactor::kernel {

enum class IntegerStore : uint8_t { I32, F32, U8, I8 };

/// What becomes of sums, the same for all of a block; see `IntegerResult`.
struct IntegerTail {
    IntegerStore store;
    int32_t y_zero;
    float low, high;
    bool rounded;
    float middle_low, middle_high, middle_scale;
    float slope;
    IntegerStore residual;  ///< its type; I32: none
    float residual_scale;
    int32_t residual_zero;
};

}  // namespace refactor::kernel
