#include "call.h"

#include "common/half.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <cmath>

// Reading arguments. What is composed of them: compose.cc; formulas of them: evaluate.cc.

namespace refactor::pnnx {

using frontend::Tensor;

Term const* Arguments::find(std::string_view name) const {
    for (auto const& [key, term] : named)
        if (key == name) return &term;
    return nullptr;
}

bool Call::has(std::string_view name) const {
    auto* term = argument(name);
    return term && !term->is(Term::Kind::None);
}

Tensor const& Call::operand(size_t i) const {
    if (!context_.has(i)) refuse_invalid("there is no input ", i);
    return context_.tensor(i);
}

std::optional<std::vector<DimExpr>> Call::known_values(size_t operand) const {
    return context_.view().known_values(operand);
}

bool Call::is_tensor(std::string_view name) const {
    auto* term = argument(name);
    return term && term->is(Term::Kind::Operand);
}

Tensor const* Call::constant(std::string_view name) const {
    auto* term = argument(name);
    if (!term || !term->is(Term::Kind::Operand)) return nullptr;
    auto const& tensor = operand(static_cast<size_t>(term->integer));
    return tensor.constant ? &tensor : nullptr;
}

Item Call::item(std::string_view name) {
    auto* term = argument(name);
    return term ? evaluate(*term) : Item{};
}

Edge Call::tensor(std::string_view name) {
    auto* term = argument(name);
    if (!term || term->is(Term::Kind::None)) refuse_invalid("the argument \"", name, "\" is missing");
    return edge_of(*term);
}

std::vector<Edge> Call::tensors() {
    std::vector<Edge> edges;
    auto add = [&](Term const& term, auto& self) -> void {
        if (term.is(Term::Kind::List))
            for (auto const& inner : term.items) self(inner, self);
        else
            edges.push_back(edge_of(term));
    };
    for (auto const& term : arguments_.positional) add(term, add);
    return edges;
}

Edge Call::edge_of(Term const& term) {
    if (!term.is(Term::Kind::Operand)) return edge_of(evaluate(term));
    operand(static_cast<size_t>(term.integer));
    return context_.edge(static_cast<size_t>(term.integer));
}

Edge Call::edge_of(Item const& item, DataType dtype) {
    if (auto* edge = item.edge()) return *edge;
    if (auto* list = item.list()) {
        std::vector<Edge> parts;
        for (auto const& entry : *list) parts.push_back(unsqueeze(edge_of(entry, dtype), 0));
        if (parts.empty()) refuse_unsupported("an empty list as a tensor");
        return concat(parts, 0);
    }
    auto scalar = scalar_of(item, "an argument");
    auto natural = std::holds_alternative<bool>(item.value) ? DataType::Bool
                   : scalar.is_float()                      ? DataType::F32
                                                            : DataType::I64;
    return size_edge(scalar, dtype == DataType::Undefined ? natural : dtype);
}

namespace {

std::optional<double> constant_number(Tensor const& tensor) {
    double number = 0;
    if (!tensor.constant || element_count(*tensor.shape) != DimExpr(1)) return std::nullopt;
    if (!convert(tensor.dtype, tensor.constant->data(), DataType::F64, &number, 1)) return std::nullopt;
    return number;
}

}  // namespace

Scalar Call::scalar_of(Item const& item, std::string_view what) const {
    if (auto* flag = std::get_if<bool>(&item.value)) return Scalar::of_int(*flag);
    if (auto* scalar = std::get_if<Scalar>(&item.value)) return *scalar;
    if (auto* list = item.list(); list && list->size() == 1) return scalar_of((*list)[0], what);
    for (size_t i = 0; item.edge() && i < context_.input_count(); ++i) {
        if (context_.edge(i) != *item.edge()) continue;
        // One constant element is a number; what a run computes is waited for.
        if (auto number = constant_number(context_.tensor(i))) return Scalar::of_float(*number);
        if (!context_.tensor(i).constant) throw Refusal{frontend::needs_value(i, what, " depends on data")};
    }
    if (item.edge()) refuse_unsupported(what, " depends on data: it must follow from the sizes of the inputs");
    refuse_invalid(what, " is not a number");
}

DimExpr Call::size(std::string_view name) {
    auto scalar = scalar_of(item(name), frontend::concat("the argument \"", name, "\""));
    auto value = scalar.integer();
    if (!value) refuse_invalid("the argument \"", name, "\" is not an integer");
    return *value;
}

int64_t Call::integer(std::string_view name) {
    auto value = size(name);
    if (auto number = value.constant()) return *number;
    refuse_unsupported("the argument \"", name, "\" is ", value.to_string(symbols()), ", it must be a constant");
}

double Call::number(std::string_view name) {
    auto scalar = scalar_of(item(name), frontend::concat("the argument \"", name, "\""));
    if (auto value = scalar.constant()) return *value;
    refuse_unsupported("the argument \"", name, "\" must be a constant");
}

bool Call::flag(std::string_view name, bool fallback) { return has(name) ? integer(name) != 0 : fallback; }

std::string Call::text(std::string_view name, std::string_view fallback) {
    auto found = item(name);
    if (found.is_none()) return std::string(fallback);
    if (auto* value = std::get_if<std::string>(&found.value)) return *value;
    refuse_invalid("the argument \"", name, "\" is ", to_string(*argument(name)), ", expected text");
}

std::vector<DimExpr> Call::sizes(std::string_view name) {
    auto what = frontend::concat("the argument \"", name, "\"");
    auto* term = argument(name);
    if (term && term->is(Term::Kind::Operand))
        if (auto values = known_values(static_cast<size_t>(term->integer))) return *values;
    auto found = item(name);
    std::vector<Item> single{found};
    std::vector<DimExpr> sizes;
    for (auto const& entry : found.list() ? *found.list() : single) {
        auto value = scalar_of(entry, what).integer();
        if (!value) refuse_invalid(what, " has an entry that is not an integer");
        sizes.push_back(*value);
    }
    return sizes;
}

std::vector<int64_t> Call::integers(std::string_view name) {
    std::vector<int64_t> numbers;
    for (auto const& size : sizes(name)) {
        auto number = size.constant();
        if (!number)
            refuse_unsupported("the argument \"", name, "\" has the entry ", size.to_string(symbols()),
                               ", it must be a constant");
        numbers.push_back(*number);
    }
    return numbers;
}

std::vector<int64_t> Call::integers(std::string_view name, size_t count, int64_t fallback) {
    if (!has(name)) return std::vector<int64_t>(count, fallback);
    auto numbers = integers(name);
    if (numbers.size() == 1) numbers.resize(count, numbers[0]);
    if (numbers.size() != count)
        refuse_invalid("the argument \"", name, "\" has ", numbers.size(), " entries, expected ", count);
    return numbers;
}

std::vector<double> Call::numbers(std::string_view name) {
    auto what = frontend::concat("the argument \"", name, "\"");
    auto found = item(name);
    std::vector<Item> single{found};
    std::vector<double> numbers;
    for (auto const& entry : found.list() ? *found.list() : single) {
        auto value = scalar_of(entry, what).constant();
        if (!value) refuse_unsupported(what, " must be constant");
        numbers.push_back(*value);
    }
    return numbers;
}

namespace {

struct TorchType {
    std::string_view name;
    int64_t code;  ///< of c10::ScalarType, as aten operators have it
    DataType dtype;
};
constexpr TorchType kTorchTypes[]{
    {"uint8", 0, DataType::U8},
    {"int8", 1, DataType::I8},
    {"short", 2, DataType::I16},
    {"int16", 2, DataType::I16},
    {"int", 3, DataType::I32},
    {"int32", 3, DataType::I32},
    {"long", 4, DataType::I64},
    {"int64", 4, DataType::I64},
    {"half", 5, DataType::F16},
    {"float16", 5, DataType::F16},
    {"float", 6, DataType::F32},
    {"float32", 6, DataType::F32},
    {"double", 7, DataType::F64},
    {"float64", 7, DataType::F64},
    {"complex64", 9, DataType::Complex64},
    {"complex128", 10, DataType::Complex128},
    {"bool", 11, DataType::Bool},
    {"bfloat16", 15, DataType::BF16},
};

}  // namespace

DataType Call::dtype(std::string_view name, DataType fallback) {
    auto found = item(name);
    if (found.is_none()) return fallback;
    auto* text = std::get_if<std::string>(&found.value);
    auto* code = std::get_if<Scalar>(&found.value);
    auto word = text ? std::string_view(*text) : std::string_view();
    if (word.starts_with("torch.")) word.remove_prefix(6);
    for (auto const& known : kTorchTypes)
        if (text ? known.name == word : code && code->constant() == static_cast<double>(known.code)) return known.dtype;
    refuse_unsupported("the type ", to_string(*argument(name)));
}

std::vector<size_t> Call::axes(std::string_view name, size_t rank) {
    if (has(name))
        if (auto given = integers(name); !given.empty()) return take(frontend::normalize_axes(given, rank));
    std::vector<size_t> all(rank);
    for (size_t i = 0; i < rank; ++i) all[i] = i;
    return all;
}

void Call::expect_rank(Edge edge, size_t least, size_t most, std::string_view what) const {
    if (rank(edge) >= least && rank(edge) <= most) return;
    refuse_invalid(what, " has the shape ", text_of(shape(edge)), ", expected ", least,
                   least == most ? "" : frontend::concat(" to ", most), " axes");
}

void Call::set(size_t i, Edge edge) {
    if (i < output_count()) context_.set_output(i, edge);
}

void Call::set_values(Edge edge, std::vector<DimExpr> values) {
    set(edge);
    values_[0] = std::move(values);
}

}  // namespace refactor::pnnx
