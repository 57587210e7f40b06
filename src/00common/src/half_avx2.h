#pragma once
#include <cstddef>
#include <cstdint>

namespace refactor::half_avx2 {

/// Whole-array conversions with the results of the scalar functions in `half.h`.
struct Functions {
    void (*f16_from_f32)(float const*, uint16_t*, size_t);
    void (*f32_from_f16)(uint16_t const*, float*, size_t);
    void (*bf16_from_f32)(float const*, uint16_t*, size_t);
    void (*f32_from_bf16)(uint16_t const*, float*, size_t);
};
/// Needs AVX2 and F16C.
Functions functions();

}  // namespace refactor::half_avx2
