#pragma once
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace refactor {

namespace detail {

/// Stands for a field of any type where an aggregate is initialised.
template <class Aggregate>
struct AnyField {
    template <class T>
        requires(!std::is_same_v<T, Aggregate>)
    operator T() const;
};

template <class T, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
    return requires { T{((void)I, AnyField<T>{})...}; };
}

inline constexpr size_t kMostFields = 20;

template <class T, size_t N = kMostFields + 1>
constexpr size_t field_count() {
    if constexpr (takes<T>(std::make_index_sequence<N>{}))
        return N;
    else
        return field_count<T, N - 1>();
}

}  // namespace detail

/// References to the fields of an aggregate without base classes and C arrays, in the order of their declaration.
/// Source of the technique: structured bindings over as many fields as brace initialisation takes, as in Boost.PFR.
template <class T>
constexpr auto fields_of(T& x) {
    static_assert(std::is_aggregate_v<T>);
    constexpr auto kCount = detail::field_count<std::remove_const_t<T>>();
    static_assert(kCount <= detail::kMostFields, "add a case below");
    if constexpr (kCount == 0) {
        return std::tuple<>();
    }
    if constexpr (kCount == 1) {
        auto& [a] = x;
        return std::tie(a);
    }
    if constexpr (kCount == 2) {
        auto& [a, b] = x;
        return std::tie(a, b);
    }
    if constexpr (kCount == 3) {
        auto& [a, b, c] = x;
        return std::tie(a, b, c);
    }
    if constexpr (kCount == 4) {
        auto& [a, b, c, d] = x;
        return std::tie(a, b, c, d);
    }
    if constexpr (kCount == 5) {
        auto& [a, b, c, d, e] = x;
        return std::tie(a, b, c, d, e);
    }
    if constexpr (kCount == 6) {
        auto& [a, b, c, d, e, f] = x;
        return std::tie(a, b, c, d, e, f);
    }
    if constexpr (kCount == 7) {
        auto& [a, b, c, d, e, f, g] = x;
        return std::tie(a, b, c, d, e, f, g);
    }
    if constexpr (kCount == 8) {
        auto& [a, b, c, d, e, f, g, h] = x;
        return std::tie(a, b, c, d, e, f, g, h);
    }
    if constexpr (kCount == 9) {
        auto& [a, b, c, d, e, f, g, h, i] = x;
        return std::tie(a, b, c, d, e, f, g, h, i);
    }
    if constexpr (kCount == 10) {
        auto& [a, b, c, d, e, f, g, h, i, j] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j);
    }
    if constexpr (kCount == 11) {
        auto& [a, b, c, d, e, f, g, h, i, j, k] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k);
    }
    if constexpr (kCount == 12) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
    }
    if constexpr (kCount == 13) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
    }
    if constexpr (kCount == 14) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
    }
    if constexpr (kCount == 15) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
    }
    if constexpr (kCount == 16) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
    }
    if constexpr (kCount == 17) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
    }
    if constexpr (kCount == 18) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r);
    }
    if constexpr (kCount == 19) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s);
    }
    if constexpr (kCount == 20) {
        auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = x;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
    }
}

}  // namespace refactor
