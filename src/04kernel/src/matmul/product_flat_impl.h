#pragma once
// Products of little depth, which are bound by storing Y: rows of B stay in registers while rows of A pass. Include
// `product_tile.h` first, and what it asks for.
#include "matmul/product_vector_impl.h"

namespace refactor::kernel {
namespace {

/// Vectors of columns whose part of B stays in registers, beside as many sums and biases and an element of A.
constexpr int flat_vectors(int k) {
    int const room = ((kLong ? 32 : 16) - 1) / (k + 2);
    return room < 4 ? room : 4;
}
constexpr int kFlatMost = kLong ? 16 : 13;
/// Bytes of Y that are made of all columns of some rows before those of others: they leave the caches side by side.
constexpr int64_t kFlatBytes = 64 << 10;

/// `rows` rows of columns from `b` on, `tail` of which are in the last vector.
template <int depth, int vectors>
[[gnu::noinline]] void flat_rows(Block const& t, Element const* a, int64_t rows, Element const* b, Element const* bias,
                                 Element* y, int tail) {
    Vec w[depth][vectors], start[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int const lanes = v + 1 == vectors ? tail : kWidth;
#pragma GCC unroll 16
        for (int p = 0; p < depth; ++p) w[p][v] = load_part(b + p * t.b_row + v * kWidth, lanes);
        start[v] = !bias ? Vec::zero() : t.scalar_bias ? Vec::set(*bias) : load_part(bias + v * kWidth, lanes);
    }
    int64_t const a_row = t.a_row, a_k = t.a_k, y_row = t.y_row;
    auto each = [&](auto store) __attribute__((always_inline)) {
        for (int64_t i = 0; i < rows; ++i, a += a_row, y += y_row) {
            Vec c[vectors];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[v] = start[v];
            Element const* element = a;
#pragma GCC unroll 16
            for (int p = 0; p < depth; ++p, element += a_k) {
                Vec const x = Vec::set(*element);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v) c[v] = fma(x, w[p][v], c[v]);
            }
#pragma GCC unroll 4
            for (int v = 0; v + 1 < vectors; ++v) c[v].store(y + v * kWidth);
            store(c[vectors - 1], y + (vectors - 1) * kWidth);
        }
    };
    if (tail == kWidth)
        each([](Vec x, Element * p) __attribute__((always_inline)) { x.store(p); });
    else
        each([=](Vec x, Element * p) __attribute__((always_inline)) { x.store_first(p, tail); });
}

using FlatRows = void (*)(Block const&, Element const*, int64_t, Element const*, Element const*, Element*, int);
struct FlatTable {
    FlatRows of[kFlatMost + 1][5] = {};
    template <int depth, int vectors>
    constexpr void fill() {
        of[depth][vectors] = flat_rows<depth, vectors>;
        if constexpr (vectors > 1)
            fill<depth, vectors - 1>();
        else if constexpr (depth > 1)
            fill<depth - 1, flat_vectors(depth - 1)>();
    }
    constexpr FlatTable() { fill<kFlatMost, flat_vectors(kFlatMost)>(); }
};
constexpr FlatTable kFlat;

void multiply_flat(Block const& t) {
    bool const plain = t.alpha == 1 && t.activation.kind == ActivationKind::None && !t.residual;
    Element const* bias = t.alpha == 1 ? t.bias : nullptr;
    int const depth = static_cast<int>(t.k), most = flat_vectors(depth);
    // No narrow group at the end: 4 vectors of which 3 fit are 2 and 2.
    int64_t const vectors = (t.n + kWidth - 1) / kWidth, groups = (vectors + most - 1) / most;
    int64_t const fit = kFlatBytes / int64_t{sizeof(Element)} / t.n, rows = groups == 1 ? t.m : fit < 8 ? 8 : fit;
    for (int64_t i = 0; i < t.m; i += rows) {
        int64_t const now = smaller(rows, t.m - i);
        for (int64_t g = 0; g < groups; ++g) {
            int64_t const from = vectors * g / groups, end = vectors * (g + 1) / groups, j = from * kWidth;
            int const tail = static_cast<int>(smaller(kWidth, t.n - (end - 1) * kWidth));
            kFlat.of[depth][end - from](t, t.a + i * t.a_row, now, t.b + j,
                                        bias ? bias + (t.scalar_bias ? 0 : j) : bias, t.y + i * t.y_row + j, tail);
        }
        if (plain) continue;
        Block rest = t;
        rest.m = now, rest.y += i * t.y_row, rest.bias = bias ? nullptr : t.bias;
        if (rest.residual) rest.residual += i * t.y_row;
        finish_sums(rest);
    }
}

}  // namespace
}  // namespace refactor::kernel
