#include "scatter/combine_rows.h"
#include "simd/vec_avx2.h"

namespace refactor::kernel {
namespace {

struct Add {
    RG_SIMD static Vec of(Vec a, Vec b) { return a + b; }
};
struct Multiply {
    RG_SIMD static Vec of(Vec a, Vec b) { return a * b; }
};
struct Least {
    RG_SIMD static Vec of(Vec a, Vec b) { return select(is_nan(a) | (a < b), a, b); }
};
struct Largest {
    RG_SIMD static Vec of(Vec a, Vec b) { return select(is_nan(a) | (a > b), a, b); }
};

template <class Operation>
void combine(std::byte* y, std::byte const* updates, int64_t count) {
    auto* to = reinterpret_cast<float*>(y);
    auto const* from = reinterpret_cast<float const*>(updates);
    int64_t i = 0;
    for (; i + Vec::width <= count; i += Vec::width)
        Operation::of(Vec::load(to + i), Vec::load(from + i)).store(to + i);
    if (int left = static_cast<int>(count - i))
        Operation::of(Vec::load_first(to + i, left), Vec::load_first(from + i, left)).store_first(to + i, left);
}

constexpr CombineRows kFunctions{combine<Add>, combine<Multiply>, combine<Least>, combine<Largest>};

}  // namespace

CombineRows const& combine_rows_avx2() { return kFunctions; }

}  // namespace refactor::kernel
