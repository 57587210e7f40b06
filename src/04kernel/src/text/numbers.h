#pragma once
#include "common/data_type.h"

#include <optional>
#include <string>
#include <string_view>

namespace refactor::kernel::text {

/// The fewest digits that are `value` again, laid out as Python does: "0.5", "3.0", "1e-05", "nan", "-inf".
std::string format(float value);
std::string format(double value);
/// The same for a value of a smaller float type: the fewest digits that are it again after rounding to `type`.
std::string format(float value, DataType type);

/// Without white space at the ends and a plus sign in front.
std::string_view trimmed(std::string_view text);

/// A whole `text` as a number: decimal with or without exponent, "inf", "infinity", "nan" in any case; values out of
/// range become infinite or zero. Nothing for anything else.
std::optional<float> parse_float(std::string_view text);
std::optional<double> parse_double(std::string_view text);

}  // namespace refactor::kernel::text
