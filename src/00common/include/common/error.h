#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace refactor {

/// Root of everything that the library throws; Python sees the tree as `refactor_graph.Error` and its subclasses.
///
/// A layer that knows more (pass, node, rule) catches by reference, calls `add_context` and rethrows: contexts read
/// outside in.
class Error : public std::exception {
    std::string message_, what_;
    std::vector<std::string> contexts_;

public:
    explicit Error(std::string message);
    Error(Error const&);
    Error(Error&&) noexcept;
    Error& operator=(Error const&);
    Error& operator=(Error&&) noexcept;
    ~Error() override;
    char const* what() const noexcept override { return what_.c_str(); }
    std::string const& message() const { return message_; }
    /// Prepends "context: " to what the user reads.
    void add_context(std::string_view context);
    std::vector<std::string> const& contexts() const { return contexts_; }
};

/// The model breaks its specification; the message lists every problem found.
class InvalidModel : public Error {
public:
    using Error::Error;
};

/// A run-time input, argument or option of the user is wrong.
class InvalidInput : public Error {
public:
    using Error::Error;
};

/// The model is legal but something in it is not supported: names node, operator, opset, dtype, target and reasons.
class Unsupported : public Error {
public:
    using Error::Error;
};

/// Memory of a device ran out; the executor stays usable.
class OutOfMemory : public Error {
public:
    using Error::Error;
};

/// A device is missing, or a call into it failed (`expression`, `code`).
class DeviceError : public Error {
public:
    using Error::Error;
    DeviceError(std::string_view expression, long code, std::string_view text);
};

/// A run was cancelled or ran past its deadline.
class Cancelled : public Error {
public:
    using Error::Error;
};

/// A defect of the library itself.
class InternalError : public Error {
public:
    explicit InternalError(std::string const& message, std::source_location where = std::source_location::current());
};

namespace detail {
[[noreturn]] void throw_internal(char const* message, std::source_location where);
}  // namespace detail

/// Throws `InternalError` unless `condition`: for invariants of our own code, never for what a user can cause.
inline void ensure(bool condition, char const* message, std::source_location where = std::source_location::current()) {
    if (!condition) detail::throw_internal(message, where);
}

}  // namespace refactor
