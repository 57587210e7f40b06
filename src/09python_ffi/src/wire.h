#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refactor::python {

/// What a field of a serialized protobuf message repeats, in its order, packed or not. Other fields are left out.
/// Throws `InvalidInput` where the message is cut off or malformed. Source:
/// https://protobuf.dev/programming-guides/encoding
std::vector<int64_t> repeated_integers(std::string_view message, uint32_t field);
std::vector<float> repeated_floats(std::string_view message, uint32_t field);
std::vector<std::string> repeated_strings(std::string_view message, uint32_t field);

}  // namespace refactor::python
