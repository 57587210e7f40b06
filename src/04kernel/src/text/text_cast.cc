#include "common/error.h"
#include "kernel/procedures/text.h"
#include "mem_manager/blob.h"
#include "movement/ranges.h"
#include "numbers.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace refactor::kernel {

using runtime::CallContext;
using runtime::Value;

namespace {

constexpr double kFormatNs = 100, kParseNs = 50;

[[noreturn]] void refuse(std::string const& text, DataType to) {
    constexpr size_t kShown = 80;
    throw InvalidInput("\"" + text.substr(0, kShown) + (text.size() > kShown ? "…" : "") + "\" is no " +
                       std::string(name_of(to)));
}

/// The type that a type is read and written as.
DataType wide_type(DataType type) {
    if (type == DataType::F64 || type == DataType::Bool || type == DataType::U64) return type;
    return is_float(type) ? DataType::F32 : DataType::I64;
}

template <class T>
std::string whole(T value) {
    char buffer[24];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    return {buffer, end};
}

/// Bounds of an integer type; those of 64 bits as their own.
std::pair<int64_t, int64_t> bounds(DataType type) {
    auto bits = bits_of(type);
    if (is_signed(type)) return {-(int64_t{1} << (bits - 2)) * 2, ((int64_t{1} << (bits - 2)) - 1) * 2 + 1};
    return {0, (int64_t{1} << bits) - 1};
}

template <class T>
T parse_whole(std::string const& source, DataType to) {
    auto text = text::trimmed(source);
    T value = 0;
    auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
        auto number = text::parse_double(source);
        // Both bounds are powers of two (or zero), so that comparing doubles is exact.
        constexpr double kAbove = std::is_signed_v<T> ? 0x1p63 : 0x1p64, kBelow = std::is_signed_v<T> ? -0x1p63 : 0;
        if (!number || std::isnan(*number)) refuse(source, to);
        auto cut = std::trunc(*number);
        if (!(cut >= kBelow && cut < kAbove)) refuse(source, to);
        value = static_cast<T>(cut);
    }
    if constexpr (std::is_signed_v<T>) {
        auto [least, most] = bounds(to);
        if (value < least || value > most) refuse(source, to);
    }
    return value;
}

bool parse_bool(std::string const& source) {
    auto text = text::trimmed(source);
    auto is = [&](std::string_view word) {
        auto same = [](char a, char b) { return (a | 0x20) == b; };
        return std::equal(text.begin(), text.end(), word.begin(), word.end(), same);
    };
    if (is("true")) return true;
    if (is("false")) return false;
    auto number = text::parse_double(source);
    if (!number) refuse(source, DataType::Bool);
    return *number != 0;
}

class TextCast final : public runtime::Procedure {
    TextCastInfo info_;

    void write(Value const& x, Value& result, ThreadPool& pool) const {
        auto count = x.count();
        auto wide = wide_type(info_.from);
        Value widened;
        if (wide != info_.from)
            convert(info_.from, x.data<void>(), wide, widened.resize(wide, x.dims), count);
        else
            widened = x;
        std::vector<std::string> y(static_cast<size_t>(count));
        auto fill = [&](auto const* data, auto const& text_of) {
            movement::for_ranges(pool, count, kFormatNs, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i) y[static_cast<size_t>(i)] = text_of(data[i]);
            });
        };
        if (wide == DataType::Bool)
            fill(widened.data<bool>(), [](bool value) { return std::string(value ? "True" : "False"); });
        else if (wide == DataType::U64)
            fill(widened.data<uint64_t>(), [](uint64_t value) { return whole(value); });
        else if (wide == DataType::I64)
            fill(widened.data<int64_t>(), [](int64_t value) { return whole(value); });
        else if (wide == DataType::F64)
            fill(widened.data<double>(), [](double value) { return text::format(value); });
        else if (info_.from == DataType::F32)
            fill(widened.data<float>(), [](float value) { return text::format(value); });
        else
            fill(widened.data<float>(), [this](float value) { return text::format(value, info_.from); });
        result = Value::strings(x.dims, std::move(y));
    }

    void read(Value const& x, Value& result, ThreadPool& pool) const {
        auto const& texts = x.contents->strings;
        auto count = x.count();
        // Wider than any smaller float by more than twice its digits: rounding twice is rounding once.
        auto wide = is_float(info_.to) && info_.to != DataType::F32 ? DataType::F64 : wide_type(info_.to);
        Value widened;
        auto* data = (wide == info_.to ? result : widened).resize(wide, x.dims);
        auto fill = [&](auto* to, auto const& parse) {
            movement::for_ranges(pool, count, kParseNs, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i) to[i] = parse(texts[static_cast<size_t>(i)]);
            });
        };
        auto checked = [this](auto number, std::string const& text) {
            if (!number) refuse(text, info_.to);
            return *number;
        };
        if (wide == DataType::Bool)
            fill(static_cast<bool*>(data), parse_bool);
        else if (wide == DataType::U64)
            fill(static_cast<uint64_t*>(data), [&](auto const& text) { return parse_whole<uint64_t>(text, info_.to); });
        else if (wide == DataType::I64)
            fill(static_cast<int64_t*>(data), [&](auto const& text) { return parse_whole<int64_t>(text, info_.to); });
        else if (wide == DataType::F64)
            fill(static_cast<double*>(data), [&](auto const& text) { return checked(text::parse_double(text), text); });
        else
            fill(static_cast<float*>(data), [&](auto const& text) { return checked(text::parse_float(text), text); });
        if (wide != info_.to)
            convert(wide, data, info_.to, result.resize(info_.to, x.dims), count, info_.saturate, info_.rounding);
    }

public:
    explicit TextCast(TextCastInfo info) : info_(info) {}
    std::string id() const override {
        return "cast:cpu:text:" + std::string(name_of(info_.from == DataType::String ? info_.to : info_.from));
    }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs, CallContext const& c) const override {
        if (info_.from == info_.to)
            outputs[0] = *inputs[0];
        else if (info_.to == DataType::String)
            write(*inputs[0], outputs[0], *c.pool);
        else
            read(*inputs[0], outputs[0], *c.pool);
    }
};

}  // namespace

ProcedurePtr make_text_cast(TextCastInfo info) { return std::make_shared<TextCast>(info); }

}  // namespace refactor::kernel
