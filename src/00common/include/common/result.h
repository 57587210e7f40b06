#pragma once
#include <utility>
#include <variant>

namespace refactor {

/// Marks the failure side of a `Result`: `return Err{InferError{...}};`
template <class E>
struct Err {
    E error;
};
template <class E>
Err(E) -> Err<E>;

/// Either a value or the reason why there is none: expected outcomes are values, not exceptions.
///
/// `value()` of a failure and `error()` of a success are programming errors and throw `std::bad_variant_access`.
template <class T, class E>
class [[nodiscard]] Result {
    std::variant<T, Err<E>> state_;

public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    template <class F>
    Result(Err<F> failure) : state_(std::in_place_index<1>, Err<E>{E(std::move(failure.error))}) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & { return std::get<0>(state_); }
    T const& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    E& error() & { return std::get<1>(state_).error; }
    E const& error() const& { return std::get<1>(state_).error; }
    E&& error() && { return std::get<1>(std::move(state_)).error; }

    T* operator->() { return &value(); }
    T const* operator->() const { return &value(); }
    T& operator*() & { return value(); }
    T const& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
};

}  // namespace refactor
