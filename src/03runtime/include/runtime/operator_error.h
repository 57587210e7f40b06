#pragma once
#include "common/error.h"

#include <memory>

namespace refactor::runtime {

/// An operator that a user has defined failed, or gave something else than it had announced.
class OperatorError : public Error {
    std::shared_ptr<void> cause_;

public:
    /// `cause`: the exception behind it, for whoever knows its kind (the Python bindings).
    explicit OperatorError(std::string message, std::shared_ptr<void> cause = nullptr)
        : Error(std::move(message)), cause_(std::move(cause)) {}
    std::shared_ptr<void> const& cause() const { return cause_; }
};

}  // namespace refactor::runtime
