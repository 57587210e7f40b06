#include "common/error.h"
#include "common/half.h"
#include "computation/compile.h"
#include "frontend/graph.h"
#include "frontend/operator.h"
#include "frontend/shape_rules.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "values.h"

#include <algorithm>

namespace refactor::frontend {

Tensor const& InferContext::input(size_t i) const {
    ensure(has(i), "an omitted input is read");
    return *inputs_[i];
}

Status InferContext::expect_equal(DimExpr const& actual, DimExpr const& expected, std::string_view what) {
    RG_CHECK_STATUS(frontend::expect_equal(actual, expected, what, symbols_));
    if (!(actual == expected)) expect({{}, std::string(what), actual, expected});
    return std::nullopt;
}

Status InferContext::expect_broadcast(Shape const& from, Shape const& to, std::string_view what) {
    bool fits = from.size() <= to.size();
    for (size_t i = 1; fits && i <= from.size(); ++i) {
        auto const &size = from[from.size() - i], &wanted = to[to.size() - i];
        if (size == wanted || size == DimExpr(1)) continue;
        fits = !(size.is_constant() && wanted.is_constant());
        if (fits) expect({{}, concat("a size of ", what), size, wanted, true});
    }
    if (fits) return std::nullopt;
    return invalid(what, " of shape ", text(from), " cannot be broadcast to ", text(to));
}

std::optional<std::vector<DimExpr>> InferContext::known_values(size_t i) const {
    return has(i) ? values_of(input(i), kMaxValues) : std::nullopt;
}

Inferred<std::vector<DimExpr>> InferContext::values(size_t i, std::string_view role) const {
    if (auto known = known_values(i)) return std::move(*known);
    auto const& tensor = input(i);
    return Err{needs_value(i, role, " (\"", tensor.name, "\", ", to_string(tensor, symbols_), ") depends on data")};
}

Inferred<std::vector<DimExpr>> InferContext::sizes(size_t i, std::string_view role) {
    auto const& tensor = input(i);
    auto count = constant_count(*tensor.shape);
    bool is_index = tensor.dtype == DataType::I32 || tensor.dtype == DataType::I64;
    if (!is_open_ || known_values(i) || !is_index || !count || *count > static_cast<int64_t>(kMaxSizes))
        return values(i, role);
    std::vector<DimExpr> symbols;
    for (int64_t element = 0; element < *count; ++element)
        symbols.push_back(DimExpr::symbol(symbols_.intern(content_symbol(tensor, element))));
    sized_.push_back(i);
    return symbols;
}

Inferred<std::vector<int64_t>> InferContext::integers(size_t i, std::string_view role) const {
    RG_TRY(expressions, values(i, role));
    std::vector<int64_t> numbers;
    for (auto const& expression : expressions) {
        auto number = expression.constant();
        if (!number)
            return Err{needs_value(i, role, " (\"", input(i).name, "\") must be a number, it is ", text(expression))};
        numbers.push_back(*number);
    }
    return numbers;
}

Inferred<std::vector<double>> InferContext::floats(size_t i, std::string_view role) const {
    auto const& tensor = input(i);
    auto count = constant_count(*tensor.shape);
    if (tensor.values && !tensor.constant) {
        RG_TRY(whole, integers(i, role));
        return std::vector<double>(whole.begin(), whole.end());
    }
    if (!tensor.constant || !count) return Err{needs_value(i, role, " (\"", tensor.name, "\") depends on data")};
    if (*count > static_cast<int64_t>(kMaxValues))
        return Err{invalid(role, " (\"", tensor.name, "\") has ", *count, " elements")};
    std::vector<double> numbers(static_cast<size_t>(*count));
    if (!convert(tensor.dtype, tensor.constant->data(), DataType::F64, numbers.data(), *count))
        return Err{invalid(role, " (\"", tensor.name, "\") is ", name_of(tensor.dtype), ", expected numbers")};
    return numbers;
}

DimExpr InferContext::fresh(size_t i, size_t axis) {
    if (i >= outputs_.size()) return 0;
    return DimExpr::symbol(symbols_.intern(concat(outputs_[i].name, ".", axis)));
}

void InferContext::set_literal(size_t i, runtime::Value value) {
    if (i < outputs_.size()) outputs_[i].literal = std::make_shared<runtime::Value const>(std::move(value));
}

void InferContext::set_unranked(size_t i, DataType dtype) {
    if (i >= outputs_.size()) return;
    outputs_[i].kind = ValueKind::Tensor, outputs_[i].dtype = dtype;
    outputs_[i].shape.reset();
}

void InferContext::set_kind(size_t i, ValueKind kind, Tensor element, DataType keys) {
    if (i >= outputs_.size()) return;
    outputs_[i].kind = kind, outputs_[i].dtype = keys;
    outputs_[i].element = std::make_shared<Tensor const>(std::move(element));
}

void InferContext::copy(size_t i, Tensor const& tensor) {
    if (i >= outputs_.size()) return;
    auto name = std::move(outputs_[i].name);
    auto declared = outputs_[i].declared;
    auto declared_dims = std::move(outputs_[i].declared_dims);
    outputs_[i] = tensor;
    outputs_[i].name = std::move(name), outputs_[i].declared = declared;
    outputs_[i].declared_dims = std::move(declared_dims);
}

InferContext ProcedureContext::view() const { return {inputs, {}, const_cast<SymbolTable&>(symbols)}; }
mem_manager::Device* ProcedureContext::place() const {
    return options.device == "cpu" ? nullptr : &mem_manager::find_device(options.device, 0);
}

Status InferContext::set(size_t i, DataType dtype, Shape shape) {
    if (i >= outputs_.size()) return std::nullopt;
    if (shape.size() > kMaxRank)
        return unsupported("output ", i, " has ", shape.size(), " axes, at most ", kMaxRank, " are supported");
    // The known part of the product: unknown factors are taken as 1.
    int64_t count = 1;
    bool empty = std::any_of(shape.begin(), shape.end(), [](DimExpr const& size) { return size == DimExpr(0); });
    for (auto const& size : shape) {
        auto n = size.constant().value_or(1);
        if (n < 0) return invalid("output ", i, " would have the sizes ", text(shape), ": sizes cannot be negative");
        if (!empty && (__builtin_mul_overflow(count, n, &count) || count > kMaxBytes))
            return invalid("output ", i, " would have the sizes ", text(shape), ": more than 2^40 elements");
    }
    if (!empty && bits_of(dtype) && count > kMaxBytes / std::max(bits_of(dtype) / 8, 1))
        return invalid("output ", i, " would have the sizes ", text(shape), ": more than 2^40 bytes");
    outputs_[i].kind = ValueKind::Tensor, outputs_[i].dtype = dtype, outputs_[i].shape = std::move(shape);
    return std::nullopt;
}

void InferContext::set_values(size_t i, std::vector<DimExpr> values) {
    if (i < outputs_.size() && values.size() <= kMaxValues) outputs_[i].values = std::move(values);
}

void InferContext::set_constant(size_t i, std::shared_ptr<mem_manager::Blob const> blob) {
    if (i < outputs_.size()) outputs_[i].constant = std::move(blob);
}

}  // namespace refactor::frontend
