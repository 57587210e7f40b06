#pragma once
#include "common/data_type.h"
#include "common/dim_expr.h"
#include "common/result.h"
#include "runtime/value.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace refactor::frontend {

using runtime::ValueKind;

/// What is known about a value of the graph; most are tensors.
struct Tensor {
    std::string name;
    DataType dtype = DataType::Undefined;  ///< Undefined: not known; of a map: of its keys
    std::optional<Shape> shape;            ///< nothing: not even the rank is known
    /// Row-major host data of a tensor that is known completely.
    std::shared_ptr<mem_manager::Blob const> constant;
    /// Elements of a small tensor that only carries sizes (row-major, one per element); floats only if they are whole
    /// numbers.
    std::optional<std::vector<DimExpr>> values;
    /// What the model claims, to be compared with what is inferred.
    DataType declared = DataType::Undefined;
    std::optional<Dims> declared_dims = std::nullopt;  ///< -1: a size that is not declared
    ValueKind kind = ValueKind::Tensor;
    /// Type of the elements of a sequence, of the content of an optional, of the values of a map.
    std::shared_ptr<Tensor const> element = nullptr;
    /// A constant that is no block of memory: text, a sequence, nothing.
    std::shared_ptr<runtime::Value const> literal = nullptr;

    size_t rank() const { return shape->size(); }
    bool is_tensor() const { return kind == ValueKind::Tensor; }
    /// Whether its type is known, and for a tensor its rank too.
    bool is_complete() const {
        return is_tensor() ? dtype != DataType::Undefined && shape.has_value() : element != nullptr;
    }
    /// Whether its content is known, perhaps as expressions.
    bool is_known() const { return constant || values || literal; }
    /// Forgets everything but name and declaration.
    void reset();
};

/// "f32[N, 3, 224, 224]", "i64[?]" for an unknown rank, "sequence of f32[?]".
std::string to_string(Tensor const& tensor, SymbolTable const& symbols);

/// Why types and shapes could not be inferred.
struct InferError {
    enum class Kind : uint8_t {
        Invalid,          ///< the model is illegal here
        NotSupported,     ///< legal, but not supported
        UnknownVariable,  ///< `text` must be known first: an input's rank, a type of a tensor with a problem of its own
        NeedsValue,       ///< the content of input `input` decides about types or sizes: the node waits for it
    };
    Kind kind = Kind::Invalid;
    std::string text;  ///< the reason, or a name
    size_t input = 0;
};
/// Nothing: all is well.
using Status = std::optional<InferError>;
template <class T>
using Inferred = Result<T, InferError>;

namespace detail {
inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, char const* part) { text += part; }
inline void append(std::string& text, std::string const& part) { text += part; }
inline void append(std::string& text, char part) { text += part; }
void append_number(std::string& text, int64_t number);
void append_number(std::string& text, uint64_t number);
void append_number(std::string& text, double number);
template <class T>
    requires std::is_arithmetic_v<T>
void append(std::string& text, T number) {
    using Widest = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    append_number(text, static_cast<std::conditional_t<std::is_floating_point_v<T>, double, Widest>>(number));
}
}  // namespace detail

/// Text of all arguments, one after the other.
template <class... Args>
std::string concat(Args const&... args) {
    std::string text;
    (detail::append(text, args), ...);
    return text;
}
template <class... Args>
InferError invalid(Args const&... args) {
    return {InferError::Kind::Invalid, concat(args...)};
}
template <class... Args>
InferError unsupported(Args const&... args) {
    return {InferError::Kind::NotSupported, concat(args...)};
}
inline InferError unknown_variable(std::string name) { return {InferError::Kind::UnknownVariable, std::move(name)}; }
template <class... Args>
InferError needs_value(size_t input, Args const&... args) {
    return {InferError::Kind::NeedsValue, concat(args...), input};
}

}  // namespace refactor::frontend

/// Declares `name` as the value of a `Result`, or returns its error from the enclosing function.
#define RG_TRY(name, ...)                                           \
    auto name##_or = (__VA_ARGS__);                                 \
    if (!name##_or.ok()) return ::refactor::Err{name##_or.error()}; \
    [[maybe_unused]] auto& name = *name##_or
/// The same in a function that returns `Status`.
#define RG_TRY_STATUS(name, ...)                   \
    auto name##_or = (__VA_ARGS__);                \
    if (!name##_or.ok()) return name##_or.error(); \
    [[maybe_unused]] auto& name = *name##_or
/// Returns from the enclosing function if a `Status` is a failure.
#define RG_CHECK_STATUS(...) \
    if (auto failure_ = (__VA_ARGS__)) return failure_
