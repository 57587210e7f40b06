#pragma once
// Products of few rows with panels of a small type, which are read once and widened in registers: bound by reading
// them. Include `product_tile.h` and `widen.h` first, and what they ask for.

namespace refactor::kernel {
namespace {

/// rows × vectors sums over all of k.
template <WeightType type, int rows, int vectors>
[[gnu::noinline]] void few_tile(int64_t k, float const* a, int64_t a_row, int64_t a_k, std::byte const* b, float* y,
                                int64_t y_row, int tail, Finish const& f) {
    constexpr int kVectorBytes = kWidth * bytes_of(type);
    constexpr int kSets = sets_of(rows * vectors);
    Vec c[kSets][rows][vectors];
#pragma GCC unroll 2
    for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[s][i][v] = Vec::zero();
    auto step = [&](int s) __attribute__((always_inline)) {
        Vec x[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) x[v] = widen<type>(b + v * kVectorBytes);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Vec w = Vec::set(a[i * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[s][i][v] = fma(w, x[v], c[s][i][v]);
        }
        a += a_k, b += vectors * kVectorBytes;
    };
    if constexpr (kSets == 2) {
        for (int64_t p = k / 2; p > 0; --p) step(0), step(1);
        if (k & 1) step(0);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[0][i][v] = c[0][i][v] + c[1][i][v];
    } else {
        for (int64_t p = k; p > 0; --p) step(0);
    }
    store_tile(c[0], y, y_row, tail, f);
}

using FewTile = void (*)(int64_t, float const*, int64_t, int64_t, std::byte const*, float*, int64_t, int,
                         Finish const&);
template <WeightType type>
struct FewTiles {
    FewTile of[kRows + 1][kVectors + 1] = {};
    template <int rows, int vectors>
    constexpr void fill() {
        of[rows][vectors] = few_tile<type, rows, vectors>;
        if constexpr (vectors > 1)
            fill<rows, vectors - 1>();
        else if constexpr (rows > 1)
            fill<rows - 1, kVectors>();
    }
    constexpr FewTiles() { fill<kRows, kVectors>(); }
};

template <WeightType type>
void multiply_few(ProductBlock const& t) {
    static constexpr FewTiles<type> kTiles;
    bool after;
    Finish whole = finish_of(t, after);
    whole.last = true;
    for (int64_t j = 0; j < t.n; j += kPanel) {
        int64_t n = smaller(kPanel, t.n - j);
        int vectors = static_cast<int>(width_of(n) / kWidth), tail = static_cast<int>(n - (vectors - 1) * kWidth);
        Finish f = whole;
        if (f.bias && !f.scalar_bias) f.bias += j;
        if (t.scales) f.scales = t.scales + j;
        for (int64_t i = 0; i < t.m;) {
            int64_t rows = rows_of(t.m - i), y = i * t.y_row + j;
            if (whole.residual) f.residual = whole.residual + y;
            kTiles.of[rows][vectors](t.k, t.a + i * t.a_row, t.a_row, t.a_k, t.weights + j * t.k * bytes_of(type),
                                     t.y + y, t.y_row, tail, f);
            i += rows;
            if (after)
                activate_block(t, t.y + y, t.y_row, t.residual && t.residual_last ? t.residual + y : nullptr, rows, n);
        }
    }
}

void multiply_few(ProductBlock const& t) {
    if (t.weight_type == WeightType::F16)
        multiply_few<WeightType::F16>(t);
    else if (t.weight_type == WeightType::BF16)
        multiply_few<WeightType::BF16>(t);
    else
        multiply_few<WeightType::I8>(t);
}

}  // namespace
}  // namespace refactor::kernel
