#include "term.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace refactor::pnnx {

namespace {

using Kind = Term::Kind;

// Lists in lists: an index of an index is the deepest that exists. It bounds every recursion over terms.
constexpr int kMaxDepth = 64;

struct Function {
    std::string_view name;
    int arity;
};
/// Sorted by name. Source: the operators that pnnx folds into expressions (tools/pnnx/README.md of ncnn).
constexpr Function kFunctions[]{
    {"abs", 1},       {"acos", 1},      {"acosh", 1},  {"add", 2},   {"and", 2},    {"asin", 1},    {"asinh", 1},
    {"atan", 1},      {"atan2", 2},     {"atanh", 1},  {"ceil", 1},  {"cos", 1},    {"cosh", 1},    {"div", 2},
    {"eq", 2},        {"erf", 1},       {"exp", 1},    {"expm1", 1}, {"float", 1},  {"floor", 1},   {"floor_divide", 2},
    {"fmod", 2},      {"ge", 2},        {"gt", 2},     {"int", 1},   {"le", 2},     {"log", 1},     {"log10", 1},
    {"log1p", 1},     {"logaddexp", 2}, {"lshift", 2}, {"lt", 2},    {"max", 2},    {"maximum", 2}, {"min", 2},
    {"minimum", 2},   {"mul", 2},       {"ne", 2},     {"neg", 1},   {"or", 2},     {"pow", 2},     {"reciprocal", 1},
    {"remainder", 2}, {"round", 1},     {"rshift", 2}, {"rsqrt", 1}, {"rsub", 2},   {"sigmoid", 1}, {"sign", 1},
    {"sin", 1},       {"sinh", 1},      {"size", 2},   {"sqrt", 1},  {"square", 1}, {"sub", 2},     {"tan", 1},
    {"tanh", 1},      {"trunc", 1},     {"xor", 2},
};

int arity_of(std::string_view name) {
    auto it = std::lower_bound(std::begin(kFunctions), std::end(kFunctions), name,
                               [](Function const& f, std::string_view n) { return f.name < n; });
    return it != std::end(kFunctions) && it->name == name ? it->arity : 0;
}

bool is_separator(char c) { return c == '(' || c == ')' || c == '[' || c == ']' || c == ','; }

/// A word that is not a function.
Term literal_of(std::string_view word) {
    Term term;
    if (word == "None" || word.empty()) return term;
    if (word == "True" || word == "False") {
        term.kind = Kind::Bool, term.integer = word == "True";
        return term;
    }
    if (parse_number(word, term)) return term;
    return Term::of_text(std::string(word));
}

/// Recursive descent over both grammars: a list is bracketed, a function is followed by its operands.
class Parser {
    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    bool functions_;
    std::string error_;

    Term fail(std::string what) {
        if (error_.empty()) error_ = what + " at character " + std::to_string(at_ + 1);
        at_ = text_.size();
        return {};
    }
    bool take(char c) {
        bool found = at_ < text_.size() && text_[at_] == c;
        at_ += found;
        return found;
    }
    std::string_view word() {
        auto begin = at_;
        while (at_ < text_.size() && !is_separator(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
    }

    Term list(char close) {
        Term term = Term::of_list({});
        if (take(close)) return term;
        do {
            // A trailing comma, as Python writes tuples of one element.
            if (at_ < text_.size() && text_[at_] == close) break;
            term.items.push_back(parse());
        } while (error_.empty() && take(','));
        if (error_.empty() && !take(close)) return fail(std::string("expected \"") + close + "\"");
        return term;
    }

    Term operand(std::string_view digits) {
        uint32_t input = 0;
        auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), input);
        if (problem != std::errc() || end != digits.data() + digits.size())
            return fail("\"@" + std::string(digits.substr(0, 40)) + "\" is no input");
        return Term::of_operand(input);
    }

    Term function(std::string_view name, int arity) {
        Term term;
        term.kind = Kind::Function, term.text = name;
        bool open = take('(');
        // pnnx writes some functions as `expm1,@0`: what counts is the number of operands.
        if (!open && !take(',')) return fail("expected the operands of " + std::string(name));
        for (int i = 0; i < arity && error_.empty(); ++i) {
            if (i && !take(',')) return fail(std::string(name) + " takes " + std::to_string(arity) + " operands");
            term.items.push_back(parse());
        }
        if (error_.empty() && open && !take(')')) return fail("expected \")\" after the operands of " + term.text);
        return term;
    }

    Term parse() {
        if (++depth_ > kMaxDepth) return fail("more than " + std::to_string(kMaxDepth) + " levels");
        Term term;
        if (take('['))
            term = list(']');
        else if (!functions_ && take('('))
            term = list(')');
        else if (auto w = word(); functions_ && w.starts_with('@'))
            term = operand(w.substr(1));
        else if (int arity = functions_ ? arity_of(w) : 0; arity && at_ < text_.size())
            term = function(w, arity);
        else if (functions_ && w.empty())
            return fail("expected an operand");
        else
            term = literal_of(w);
        --depth_;
        return term;
    }

public:
    Parser(std::string_view text, bool functions) : text_(text), functions_(functions) {}

    Result<Term, std::string> run() {
        auto term = parse();
        if (error_.empty() && at_ != text_.size()) fail("unexpected text");
        if (!error_.empty()) return Err{std::move(error_)};
        return term;
    }
};

void append(std::string& text, Term const& term, size_t limit) {
    if (text.size() > limit) return;
    switch (term.kind) {
        case Kind::None:
            text += "None";
            return;
        case Kind::Bool:
            text += term.integer ? "True" : "False";
            return;
        case Kind::Int:
            text += std::to_string(term.integer);
            return;
        case Kind::Float:
            text += std::to_string(term.number);
            return;
        case Kind::Text:
            text += term.text;
            return;
        case Kind::Operand:
            text += "@" + std::to_string(term.integer);
            return;
        case Kind::List:
        case Kind::Function:
            break;
    }
    bool is_list = term.is(Kind::List);
    text += is_list ? "[" : term.text + "(";
    for (size_t i = 0; i < term.items.size() && text.size() <= limit; ++i) {
        if (i) text += ", ";
        append(text, term.items[i], limit);
    }
    text += is_list ? "]" : ")";
}

}  // namespace

Term Term::of_int(int64_t value) {
    Term term;
    term.kind = Kind::Int, term.integer = value;
    return term;
}
Term Term::of_float(double value) {
    Term term;
    term.kind = Kind::Float, term.number = value;
    return term;
}
Term Term::of_text(std::string value) {
    Term term;
    term.kind = Kind::Text, term.text = std::move(value);
    return term;
}
Term Term::of_operand(size_t input) {
    Term term;
    term.kind = Kind::Operand, term.integer = static_cast<int64_t>(input);
    return term;
}
Term Term::of_list(std::vector<Term> items) {
    Term term;
    term.kind = Kind::List, term.items = std::move(items);
    return term;
}

std::string to_string(Term const& term) {
    constexpr size_t kLongest = 200;
    std::string text;
    append(text, term, kLongest);
    return text.size() > kLongest ? text.substr(0, kLongest) + "…" : text;
}

bool parse_number(std::string_view text, Term& result) {
    if (text.empty()) return false;
    auto const *begin = text.data(), *end = begin + text.size();
    int64_t integer = 0;
    if (auto [stop, problem] = std::from_chars(begin, end, integer); problem == std::errc() && stop == end) {
        result = Term::of_int(integer);
        return true;
    }
    double number = 0;
    auto [stop, problem] = std::from_chars(begin, end, number);
    if (stop != end || (problem != std::errc() && problem != std::errc::result_out_of_range)) return false;
    // Out of range: too small is 0, too large infinite, as strtod has it; from_chars leaves the number alone.
    if (problem == std::errc::result_out_of_range) {
        bool tiny = text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
        number = tiny ? 0 : std::numeric_limits<double>::infinity();
        if (text[0] == '-') number = -number;
    }
    result = Term::of_float(number);
    return true;
}

Term parse_literal(std::string_view text) {
    bool bracketed =
        text.size() > 1 && ((text.front() == '(' && text.back() == ')') || (text.front() == '[' && text.back() == ']'));
    if (!bracketed) return literal_of(text);
    auto parsed = Parser(text, false).run();
    return parsed.ok() ? std::move(*parsed) : Term::of_text(std::string(text));
}

Result<Term, std::string> parse_expression(std::string_view text) { return Parser(text, true).run(); }

}  // namespace refactor::pnnx
