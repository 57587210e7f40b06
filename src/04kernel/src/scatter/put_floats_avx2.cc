#include "scatter/put_floats.h"
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
void put_rows(std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates, int64_t step) {
    auto const* from = reinterpret_cast<float const*>(updates);
    for (int64_t t = 0; t < count; ++t, from += step) {
        auto* at = reinterpret_cast<float*>(y) + to[t];
        int64_t i = 0;
        for (; i + Vec::width <= row; i += Vec::width)
            Operation::of(Vec::load(at + i), Vec::load(from + i)).store(at + i);
        if (int left = static_cast<int>(row - i))
            Operation::of(Vec::load_first(at + i, left), Vec::load_first(from + i, left)).store_first(at + i, left);
    }
}

constexpr PutFloats kFunctions{put_rows<Add>, put_rows<Multiply>, put_rows<Least>, put_rows<Largest>};

}  // namespace

PutFloats const& put_floats_avx2() { return kFunctions; }

}  // namespace refactor::kernel
