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

template <size_t N>
using Count = std::integral_constant<size_t, N>;

template <class T>
constexpr std::tuple<> tie_fields(T&, Count<0>) {
    return {};
}
#define RG_TIE(count, ...)                          \
    template <class T>                              \
    constexpr auto tie_fields(T& x, Count<count>) { \
        auto& [__VA_ARGS__] = x;                    \
        return std::tie(__VA_ARGS__);               \
    }
RG_TIE(1, a)
RG_TIE(2, a, b)
RG_TIE(3, a, b, c)
RG_TIE(4, a, b, c, d)
RG_TIE(5, a, b, c, d, e)
RG_TIE(6, a, b, c, d, e, f)
RG_TIE(7, a, b, c, d, e, f, g)
RG_TIE(8, a, b, c, d, e, f, g, h)
RG_TIE(9, a, b, c, d, e, f, g, h, i)
RG_TIE(10, a, b, c, d, e, f, g, h, i, j)
RG_TIE(11, a, b, c, d, e, f, g, h, i, j, k)
RG_TIE(12, a, b, c, d, e, f, g, h, i, j, k, l)
RG_TIE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
RG_TIE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
RG_TIE(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
RG_TIE(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
RG_TIE(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
RG_TIE(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
RG_TIE(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
RG_TIE(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
#undef RG_TIE

}  // namespace detail

/// References to the fields of an aggregate without base classes and C arrays, in the order of their declaration.
/// Source of the technique: structured bindings over as many fields as brace initialisation takes, as in Boost.PFR.
template <class T>
constexpr auto fields_of(T& x) {
    static_assert(std::is_aggregate_v<T>);
    constexpr auto kCount = detail::field_count<std::remove_const_t<T>>();
    static_assert(kCount <= detail::kMostFields, "add a case above");
    return detail::tie_fields(x, detail::Count<kCount>());
}

}  // namespace refactor
