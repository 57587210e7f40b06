#pragma once
#include "common/dim_expr.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/small_vector.h"

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refactor {

namespace detail {

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T, uint32_t N>
inline constexpr bool kIsList<SmallVector<T, N>> = true;
template <>
inline constexpr bool kIsList<std::string> = true;
template <class T>
inline constexpr bool kIsArray = false;
template <class T, size_t N>
inline constexpr bool kIsArray<std::array<T, N>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsPointer = false;
template <class T>
inline constexpr bool kIsPointer<std::shared_ptr<T const>> = true;

}  // namespace detail

/// Writes plain data as bytes: numbers and enumerations as they lie in memory, the length of a list before its
/// elements, aggregates field by field (`fields_of`). Sizes are numbers of a table of expressions that comes first,
/// each of which is written once.
class ArchiveWriter {
    std::vector<std::byte> body_;
    DimProgram sizes_;

    void put(void const* from, size_t bytes) {
        auto const* first = static_cast<std::byte const*>(from);
        body_.insert(body_.end(), first, first + bytes);
    }

public:
    template <class T>
    void write(T const& x) {
        if constexpr (std::is_same_v<T, DimExpr>) {
            write(sizes_.add(x));
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            put(&x, sizeof(x));
        } else if constexpr (detail::kIsList<T> || detail::kIsArray<T>) {
            if constexpr (detail::kIsList<T>) write(static_cast<uint64_t>(x.size()));
            for (auto const& element : x) write(element);
        } else if constexpr (detail::kIsPointer<T> || detail::kIsOptional<T>) {
            write(static_cast<bool>(x));
            if (x) write(*x);
        } else {
            std::apply([&](auto const&... fields) { (write(fields), ...); }, fields_of(x));
        }
    }
    std::vector<std::byte> finish() &&;
};

/// Reads what an `ArchiveWriter` wrote, in the same order. Throws `InvalidModel` where the bytes end early or cannot be
/// what was written; an enumeration may have any value of its underlying type.
class ArchiveReader {
    std::span<std::byte const> rest_;
    std::vector<DimExpr> sizes_;
    uint32_t symbols_ = 0;

    void take(void* to, size_t bytes);
    void read_sizes();
    [[noreturn]] static void fail(char const* what);

public:
    explicit ArchiveReader(std::span<std::byte const> bytes) : rest_(bytes) { read_sizes(); }
    /// One more than the largest number of a symbol that occurs.
    uint32_t symbols() const { return symbols_; }
    bool at_end() const { return rest_.empty(); }

    template <class T>
    void read(T& x) {
        if constexpr (std::is_same_v<T, DimExpr>) {
            auto number = read<uint32_t>();
            if (number >= sizes_.size()) fail("a size has a number out of range");
            x = sizes_[number];
        } else if constexpr (std::is_same_v<T, bool>) {
            auto byte = read<uint8_t>();
            if (byte > 1) fail("a flag is neither 0 nor 1");
            x = byte != 0;
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            take(&x, sizeof(x));
        } else if constexpr (detail::kIsList<T>) {
            auto count = read<uint64_t>();
            if (count > rest_.size()) fail("a list is longer than what is left");
            x.resize(count);
            for (auto&& element : x) element = read<typename T::value_type>();
        } else if constexpr (detail::kIsArray<T>) {
            for (auto& element : x) read(element);
        } else if constexpr (detail::kIsOptional<T>) {
            x.reset();
            if (read<bool>()) x = read<typename T::value_type>();
        } else if constexpr (detail::kIsPointer<T>) {
            using Value = std::remove_const_t<typename T::element_type>;
            x = read<bool>() ? std::make_shared<Value const>(read<Value>()) : nullptr;
        } else {
            std::apply([&](auto&... fields) { (read(fields), ...); }, fields_of(x));
        }
    }
    template <class T>
    T read() {
        T x{};
        read(x);
        return x;
    }
};

}  // namespace refactor
