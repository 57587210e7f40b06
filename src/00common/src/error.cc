#include "common/error.h"

#include <utility>

namespace refactor {

Error::Error(std::string message) : message_(std::move(message)), what_(message_) {}
Error::Error(Error const&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(Error const&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

void Error::add_context(std::string_view context) {
    contexts_.emplace_back(context);
    what_.insert(0, ": ").insert(0, context);
}

DeviceError::DeviceError(std::string_view expression, long code, std::string_view text)
    : Error(std::string(expression) + " failed with code " + std::to_string(code) + ": " + std::string(text)) {}

InternalError::InternalError(std::string const& message, std::source_location where)
    : Error("internal error at " + std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
            message) {}

void detail::throw_internal(char const* message, std::source_location where) { throw InternalError(message, where); }

}  // namespace refactor
