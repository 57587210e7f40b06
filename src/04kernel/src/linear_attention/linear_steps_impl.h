#pragma once
// The loop over positions, written against `Vec`; include `vec_*.h` first.
#include "linear_attention/linear_steps.h"
#include "simd/math.h"

namespace refactor::kernel {
namespace {

// Sums of all positions, what they add and the state itself: 26 of 32 registers (AVX-512), 14 of 16 (AVX2).
constexpr int W = Vec::width, kVectors = 2, kColumns = kVectors * W, kAtOnce = W == 16 ? 4 : 2;

struct Columns {
    Vec v[kVectors];
};
RG_SIMD Columns zero_columns() { return {{Vec::zero(), Vec::zero()}}; }
RG_SIMD Columns load_columns(float const* p, int n) {
    if (n == kColumns) return {{Vec::load(p), Vec::load(p + W)}};
    return {{Vec::load_first(p, n < W ? n : W), n > W ? Vec::load_first(p + W, n - W) : Vec::zero()}};
}
RG_SIMD void store_columns(Columns const& c, float* p, int n) {
    if (n == kColumns) return c.v[0].store(p), c.v[1].store(p + W);
    c.v[0].store_first(p, n < W ? n : W);
    if (n > W) c.v[1].store_first(p + W, n - W);
}
RG_SIMD void add(Columns& to, float a, Columns const& x) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) to.v[i] = fma(Vec::set(a), x.v[i], to.v[i]);
}

/// Rows of the state in memory: those of the caller, or in scratch.
struct State {
    float const* at;
    int64_t row;
    int columns;
};

/// Rows of `kCoefficientRow` floats.
struct Coefficients {
    float* rows;
    RG_SIMD float* keys(int i) const { return rows + i * kCoefficientRow; }
    RG_SIMD float* queries(int i) const { return keys(kAtOnce + i); }
    RG_SIMD float* added(int i) const { return keys(2 * kAtOnce + i); }
    RG_SIMD float* factors() const { return keys(3 * kAtOnce); }
};

/// Products of a position with those before it (and itself): [i][j], j <= i.
using Pairs = float[kAtOnce][kAtOnce];

struct Positions {
    float const *q, *k, *decay;
};

RG_SIMD Vec factor_of(LinearSteps const& t, float const* decay, int64_t d, int n) {
    if (!decay) return Vec::set(1.f);
    return exp(t.decay_each ? Vec::load_first(decay + d, n) : Vec::set(*decay));
}

/// Of `rows`, keys or queries of n positions: how they read the state, and their products with the keys up to them.
template <int n>
[[gnu::noinline]] void make_readers(LinearSteps const& t, Positions const& at, float const* rows, int64_t row,
                                    float* readers, Pairs& pairs) {
    Vec sums[n][n];
#pragma GCC unroll 16
    for (auto& sum : sums)
#pragma GCC unroll 16
        for (auto& x : sum) x = Vec::zero();
    for (int64_t d = 0; d < t.depth; d += W) {
        int left = static_cast<int>(t.depth - d < W ? t.depth - d : W);
        Vec k[n], f[n], all = Vec::set(1.f);
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) {
            k[i] = Vec::load_first(at.k + i * t.k_step + d, left);
            f[i] = factor_of(t, at.decay ? at.decay + i * t.decay_step : nullptr, d, left);
            Vec x = Vec::load_first(rows + i * row + d, left);
            all = all * f[i];
            (all * x).store(readers + i * kCoefficientRow + d);
#pragma GCC unroll 4
            for (int j = i; j >= 0; --j) {
                sums[i][j] = fma(x, k[j], sums[i][j]);
                x = x * f[j];
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i)
#pragma GCC unroll 4
        for (int j = 0; j <= i; ++j) pairs[i][j] = sum(sums[i][j]);
}

/// How what positions add, and the state before them, have decayed behind the last.
template <int n>
[[gnu::noinline]] void make_writers(LinearSteps const& t, Positions const& at, Coefficients c) {
    for (int64_t d = 0; d < t.depth; d += W) {
        int left = static_cast<int>(t.depth - d < W ? t.depth - d : W);
        Vec all = Vec::set(1.f);
#pragma GCC unroll 4
        for (int i = n - 1; i >= 0; --i) {
            (all * Vec::load_first(at.k + i * t.k_step + d, left)).store(c.added(i) + d);
            all = all * factor_of(t, at.decay ? at.decay + i * t.decay_step : nullptr, d, left);
        }
        all.store(c.factors() + d);
    }
}

/// The state behind the `before` positions whose `u` are added, row by row; `put(row, columns)` takes it.
template <int before, class Put>
RG_SIMD void update(LinearSteps const& t, State const& from, Coefficients c, Columns const* u, Put const& put) {
    for (int64_t d = 0; d < t.depth; ++d) {
        auto s = load_columns(from.at + d * from.row, from.columns);
        if constexpr (before > 0) {
            Vec factor = Vec::set(c.factors()[d]);
#pragma GCC unroll 2
            for (int i = 0; i < kVectors; ++i) s.v[i] = s.v[i] * factor;
        }
#pragma GCC unroll 4
        for (int i = 0; i < before; ++i) add(s, c.added(i)[d], u[i]);
        put(d, s);
    }
}

struct Products {
    Columns keys[kAtOnce], queries[kAtOnce];
};

/// Updates the state, to `to` unless nothing is added, and multiplies it by the readers of n positions.
template <int before, int n, bool delta>
[[gnu::noinline]] void pass(LinearSteps const& t, State const& from, Coefficients c, Columns const* u, float* to,
                            Products& products) {
    Columns keys[n], queries[n];
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) keys[i] = queries[i] = zero_columns();
    Columns added[before > 0 ? before : 1];
#pragma GCC unroll 4
    for (int i = 0; i < before; ++i) added[i] = u[i];
    update<before>(t, from, c, added, [&](int64_t d, Columns const& s) {
        if constexpr (before > 0) store_columns(s, to + d * kColumns, kColumns);
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) {
            if constexpr (delta) add(keys[i], c.keys(i)[d], s);
            add(queries[i], c.queries(i)[d], s);
        }
    });
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) products.keys[i] = keys[i], products.queries[i] = queries[i];
}

/// Products of the state with the readers of another query head.
template <int n>
[[gnu::noinline]] void read(LinearSteps const& t, State const& from, Coefficients readers, Products& products) {
    Columns queries[n];
#pragma GCC unroll 4
    for (auto& sum : queries) sum = zero_columns();
    update<0>(t, from, readers, nullptr, [&](int64_t d, Columns const& s) {
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) add(queries[i], readers.queries(i)[d], s);
    });
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) products.queries[i] = queries[i];
}

template <int n>
RG_SIMD void store_results(LinearSteps const& t, float* y, int columns, Products const& products, Pairs const& pairs,
                           Columns const* u) {
    for (int i = 0; i < n; ++i) {
        auto sum = products.queries[i];
        for (int j = 0; j <= i; ++j) add(sum, pairs[i][j], u[j]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum.v[v] = sum.v[v] * Vec::set(t.scale);
        store_columns(sum, y + i * t.y_step, columns);
    }
}

/// What n positions add to a block, of which `v` is the first value.
template <int n>
RG_SIMD void set_added(LinearSteps const& t, int64_t first, float const* v, int columns, Products const& products,
                       Pairs const& pairs, Columns* u) {
    for (int i = 0; i < n; ++i) {
        u[i] = load_columns(v + i * t.v_step, columns);
        if (!t.beta) continue;
        auto read = products.keys[i];
        for (int j = 0; j < i; ++j) add(read, pairs[i][j], u[j]);
        Vec beta = Vec::set(t.beta[(first + i) * t.beta_step]);
#pragma GCC unroll 2
        for (int b = 0; b < kVectors; ++b) u[i].v[b] = beta * (u[i].v[b] - read.v[b]);
    }
}

class Run {
    LinearSteps const& t_;
    int64_t blocks_;
    Coefficients c_;
    float *states_, *added_;  ///< of each block
    bool in_scratch_;         ///< the states, else they are the caller's
    int before_ = 0;          ///< positions that the states lack

    float* state(int64_t block) const { return states_ + block * t_.depth * kColumns; }
    Columns* added(int64_t block) const { return reinterpret_cast<Columns*>(added_ + block * kAtOnce * kColumns); }
    int columns(int64_t block) const {
        auto left = t_.columns - block * kColumns;
        return static_cast<int>(left < kColumns ? left : kColumns);
    }
    State from(int64_t block) const {
        if (in_scratch_) return {state(block), kColumns, kColumns};
        return {t_.past + block * kColumns, t_.state_row, columns(block)};
    }

    template <int n, bool delta>
    void multiply(int64_t block, Products& products) {
        if (before_)
            pass<kAtOnce, n, delta>(t_, from(block), c_, added(block), state(block), products);
        else
            pass<0, n, delta>(t_, from(block), c_, added(block), nullptr, products);
    }

    template <int n>
    void positions(int64_t first) {
        Positions at{t_.q + first * t_.q_step, t_.k + first * t_.k_step,
                     t_.decay ? t_.decay + first * t_.decay_step : nullptr};
        Pairs keys, queries;
        make_readers<n>(t_, at, at.q, t_.q_step, c_.queries(0), queries);
        if (t_.beta) make_readers<n>(t_, at, at.k, t_.k_step, c_.keys(0), keys);
        auto* y = t_.y + first * t_.y_step;
        for (int64_t b = 0; b < blocks_; ++b) {
            Products products;
            t_.beta ? multiply<n, true>(b, products) : multiply<n, false>(b, products);
            set_added<n>(t_, first, t_.v + first * t_.v_step + b * kColumns, columns(b), products, keys, added(b));
            store_results<n>(t_, y + b * kColumns, columns(b), products, queries, added(b));
        }
        in_scratch_ = in_scratch_ || before_;
        for (int64_t h = 1; h < t_.group; ++h) {
            make_readers<n>(t_, at, at.q + h * t_.depth, t_.q_step, c_.queries(0), queries);
            for (int64_t b = 0; b < blocks_; ++b) {
                Products products;
                read<n>(t_, from(b), c_, products);
                store_results<n>(t_, y + h * t_.y_head + b * kColumns, columns(b), products, queries, added(b));
            }
        }
        make_writers<n>(t_, at, c_);
        before_ = n;
    }

    template <int before>
    void finish() {
        for (int64_t b = 0; b < blocks_; ++b)
            update<before>(t_, from(b), c_, added(b), [&](int64_t d, Columns const& s) {
                store_columns(s, t_.present + d * t_.state_row + b * kColumns, columns(b));
            });
    }

public:
    explicit Run(LinearSteps const& t)
        : t_(t),
          blocks_((t.columns + kColumns - 1) / kColumns),
          c_{t.scratch},
          states_(t.scratch + (3 * kAtOnce + 1) * kCoefficientRow),
          added_(states_ + blocks_ * t.depth * kColumns),
          in_scratch_(!t.past) {
        for (int64_t i = 0; i < blocks_ * t.depth && !t.past; ++i)
            store_columns(zero_columns(), states_ + i * kColumns, kColumns);
    }
    void all() {
        constexpr int kThree = kAtOnce == 4 ? 3 : 1;
        int64_t step = 0;
        for (; step + kAtOnce <= t_.steps; step += kAtOnce) positions<kAtOnce>(step);
        auto left = t_.steps - step;
        if (left == 3) positions<kThree>(step);
        if (left == 2) positions<2>(step);
        if (left == 1) positions<1>(step);
        before_ == 4   ? finish<kAtOnce>()
        : before_ == 3 ? finish<kThree>()
        : before_ == 2 ? finish<2>()
        : before_ == 1 ? finish<1>()
                       : finish<0>();
    }
};

constexpr LinearStepsFunctions kFunctions{kColumns, kAtOnce, [](LinearSteps const& t) { Run(t).all(); }};

}  // namespace
}  // namespace refactor::kernel
