#pragma once
#include "common/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refactor::pnnx {

/// What arguments and `pnnx.Expression` are made of: a literal, a list, an operand of the node, or a function of terms.
struct Term {
    enum class Kind : uint8_t { None, Bool, Int, Float, Text, List, Operand, Function };
    Kind kind = Kind::None;
    int64_t integer = 0;      ///< Bool, Int; Operand: which input of the node
    double number = 0;        ///< Float
    std::string text;         ///< Text; Function: its name
    std::vector<Term> items;  ///< List; Function: its operands

    static Term of_int(int64_t value);
    static Term of_float(double value);
    static Term of_text(std::string value);
    static Term of_operand(size_t input);
    static Term of_list(std::vector<Term> items);
    bool is(Kind k) const { return kind == k; }
    bool is_literal() const { return kind < Kind::List; }
};

/// For messages: `[1, mul(@0, 2)]`, cut where it is long.
std::string to_string(Term const& term);

/// The value of a parameter: `None`, `True`, `3`, `1e-5`, `(1,2)`, `[None,[0,2]]`, or text. Everything is something:
/// what is no number is text.
Term parse_literal(std::string_view text);

/// The `expr` of a pnnx.Expression: functions in prefix form of `@0` … (inputs), numbers and lists. Functions are those
/// that pnnx writes; a lone word that is none of them is text. The error says what is wrong where.
Result<Term, std::string> parse_expression(std::string_view text);

/// Whether `text` is a decimal integer or float (`inf` and `nan` included), and which.
bool parse_number(std::string_view text, Term& result);

}  // namespace refactor::pnnx
