#pragma once
#include "frontend/tensor.h"

#include <utility>

namespace refactor::pnnx {

/// Leaves a build function (`call.h`); the operator turns it into a `Status`.
struct Refusal {
    frontend::InferError reason;
};
template <class... Args>
[[noreturn]] void refuse_invalid(Args const&... args) {
    throw Refusal{frontend::invalid(args...)};
}
template <class... Args>
[[noreturn]] void refuse_unsupported(Args const&... args) {
    throw Refusal{frontend::unsupported(args...)};
}
template <class T>
T take(frontend::Inferred<T> result) {
    if (!result.ok()) throw Refusal{std::move(result).error()};
    return std::move(result).value();
}
inline void check(frontend::Status status) {
    if (status) throw Refusal{std::move(*status)};
}

}  // namespace refactor::pnnx
