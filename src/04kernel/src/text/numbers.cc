#include "numbers.h"

#include "common/half.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace refactor::kernel::text {

namespace {

// The longest: sign, 17 digits, point, exponent of 4 characters.
constexpr size_t kLongest = 32;
// Decimal exponents that need none: as Python's `repr`.
constexpr int kFirstPlain = -4, kLastPlain = 15;

/// From "-d.ddde-XX", as `std::to_chars` writes it.
std::string laid_out(std::string_view scientific) {
    std::string sign, digits;
    if (scientific.front() == '-') sign = "-", scientific.remove_prefix(1);
    auto e = scientific.find('e');
    for (char c : scientific.substr(0, e))
        if (c != '.') digits += c;
    while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
    auto exponent_text = scientific.substr(e + 1);
    if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
    int exponent = 0;
    std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
    if (exponent < kFirstPlain || exponent > kLastPlain) {
        auto number = std::to_string(std::abs(exponent));
        if (number.size() < 2) number.insert(0, 1, '0');
        if (digits.size() > 1) digits.insert(1, 1, '.');
        return sign + digits + (exponent < 0 ? "e-" : "e+") + number;
    }
    if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
    return sign + digits.insert(whole, 1, '.');
}

template <class T>
std::optional<std::string> special(T value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    return std::nullopt;
}

template <class T>
std::string format_shortest(T value) {
    if (auto text = special(value)) return *text;
    char buffer[kLongest];
    auto end = std::to_chars(buffer, buffer + kLongest, value, std::chars_format::scientific).ptr;
    return laid_out({buffer, static_cast<size_t>(end - buffer)});
}

/// Whether a number that is out of range is too large: by the place of its first digit that is not zero.
bool is_large(std::string_view text) {
    int64_t place = 0, exponent = 0;
    bool point = false, found = false;
    for (size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == 'e' || c == 'E') {
            auto rest = text.substr(i + 1);
            if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
            auto result = std::from_chars(rest.data(), rest.data() + rest.size(), exponent);
            if (result.ec == std::errc::result_out_of_range) return rest.front() != '-';
            break;
        }
        if (c == '.') point = true;
        found |= c >= '1' && c <= '9';
        if (c >= '0' && c <= '9') place += found ? !point : -point;
    }
    return place + exponent > 0;
}

template <class T>
std::optional<T> parse(std::string_view text) {
    text = trimmed(text);
    T value = 0;
    auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ptr != text.data() + text.size() || text.empty() || text.back() == ')') return std::nullopt;
    if (result.ec == std::errc()) return value;
    if (result.ec != std::errc::result_out_of_range) return std::nullopt;
    T extreme = is_large(text) ? std::numeric_limits<T>::infinity() : T{0};
    return text.front() == '-' ? -extreme : extreme;
}

}  // namespace

std::string format(float value) { return format_shortest(value); }
std::string format(double value) { return format_shortest(value); }

std::string format(float value, DataType type) {
    if (auto text = special(value)) return *text;
    char buffer[kLongest];
    // Of two decimals at the same distance only the one away from zero may lead back: numbers lie denser below a power
    // of two than above it.
    float const candidates[] = {value, std::nextafter(value, 2 * value)};
    for (int precision = 0;; ++precision)
        for (auto candidate : candidates) {
            auto end =
                std::to_chars(buffer, buffer + kLongest, candidate, std::chars_format::scientific, precision).ptr;
            std::string_view text(buffer, static_cast<size_t>(end - buffer));
            float again = 0;
            std::from_chars(text.data(), text.data() + text.size(), again);
            uint16_t bits = 0;
            convert(DataType::F32, &again, type, &bits, 1);
            convert(type, &bits, DataType::F32, &again, 1);
            if (again == value || precision >= std::numeric_limits<float>::max_digits10) return laid_out(text);
        }
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\n\v\f\r";
    auto first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
    // Behind a plus, `from_chars` would take a minus.
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    return text;
}

std::optional<float> parse_float(std::string_view text) { return parse<float>(text); }
std::optional<double> parse_double(std::string_view text) { return parse<double>(text); }

}  // namespace refactor::kernel::text
