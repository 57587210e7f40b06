#pragma once
#include <string>
#include <string_view>

namespace refactor::kernel::text {

/// Every letter in lower (upper) case by the mappings of Unicode that hold in every locale and give one code point;
/// letters that would become several (`ß`) stay.
std::string lower(std::string_view text);
std::string upper(std::string_view text);

}  // namespace refactor::kernel::text
