// DimExpr beside plain arithmetic. The input is a program in postfix form on a stack of expressions:
//
//     a b c d   a symbol               1 23      a constant         m M   INT64_MAX, INT64_MIN
//     + - *     sum, difference, product         / ^ %    floor_div, ceil_div, mod
//     < > |     min, max, broadcast              = : ;    copy the top, drop it, swap the upper two
//     s         bind symbol a of the top to 3
#include "common/dim_expr.h"
#include "target.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace refactor::fuzz {

namespace {

__extension__ typedef __int128 Wide;
constexpr size_t kBindings = 6, kMaxStack = 24, kMaxTokens = 80;
constexpr int64_t kSizes[kBindings][4]{{2, 3, 5, 7}, {1, 1, 1, 1},      {0, 4, 1, 12},
                                       {8, 8, 0, 3}, {64, 3, 224, 225}, {1000003, 17, 2, 99}};
constexpr Wide kSafe = Wide{1} << 61;

/// The value of an expression computed step by step, and a bound of everything that an equal form may pass through.
struct Plain {
    bool known = true;
    Wide value = 0, bound = 0;
};

struct Item {
    DimExpr expr;
    std::array<Plain, kBindings> plain;
};

Wide magnitude(Wide x) { return x < 0 ? -x : x; }
Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

Plain apply(char op, Plain const& a, Plain const& b) {
    Plain out;
    out.known = a.known && b.known && a.bound < kSafe && b.bound < kSafe;
    if (!out.known) return out;
    Wide x = a.value, y = b.value;
    out.bound = a.bound + b.bound + 1;
    if ((op == '/' || op == '^' || op == '%') && y == 0) return {false, 0, 0};
    switch (op) {
        case '+':
            out.value = x + y;
            break;
        case '-':
            out.value = x - y;
            break;
        case '*':
            out.value = x * y, out.bound = a.bound && b.bound > kSafe / a.bound ? kSafe : a.bound * b.bound + 1;
            break;
        case '/':
            out.value = floor_of(x, y);
            break;
        case '^':
            out.value = -floor_of(-x, y);
            break;
        case '%':
            out.value = x - floor_of(x, y) * y;
            break;
        case '<':
            out.value = std::min(x, y);
            break;
        case '>':
            out.value = std::max(x, y);
            break;
        default:
            out.known = x == y || x == 1 || y == 1;
            out.value = x == 1 ? y : x;
    }
    return out;
}

std::optional<DimExpr> apply(char op, DimExpr const& a, DimExpr const& b) {
    switch (op) {
        case '+':
            return a + b;
        case '-':
            return a - b;
        case '*':
            return a * b;
        case '/':
            return floor_div(a, b);
        case '^':
            return ceil_div(a, b);
        case '%':
            return mod(a, b);
        case '<':
            return min(a, b);
        case '>':
            return max(a, b);
        default:
            return broadcast(a, b);
    }
}

Item leaf(DimExpr expr, std::array<Wide, kBindings> const& values) {
    Item item{std::move(expr), {}};
    for (size_t i = 0; i < kBindings; ++i) item.plain[i] = {true, values[i], std::max(magnitude(values[i]), Wide{1})};
    return item;
}
Item constant(int64_t value) {
    std::array<Wide, kBindings> values;
    values.fill(value);
    return leaf(value, values);
}

class Machine {
    std::vector<Item> stack_;
    SymbolTable symbols_;
    size_t checks_ = 0;

    void check(Item const& item) {
        auto text = [&] { return item.expr.to_string(symbols_); };
        DimProgram program;
        auto slot = program.add(item.expr);
        std::vector<int64_t> values(program.slots());
        auto low = item.expr.lower_bound();
        for (size_t i = 0; i < kBindings; ++i) {
            Plain const& plain = item.plain[i];
            auto actual = item.expr.evaluate(kSizes[i]);
            auto failed = program.evaluate(kSizes[i], values);
            if (actual) require(!failed || values[slot] == *actual, "DimProgram and evaluate differ", text());
            if (actual && !failed) require(values[slot] == *actual, "DimProgram and evaluate differ", text());
            if (!plain.known || plain.bound >= kSafe) continue;
            require(actual == std::optional(static_cast<int64_t>(plain.value)), "wrong value", text());
            require(!low || *low <= *actual, "lower_bound is above a value", text());
            // The dearest check: for one of the bindings.
            if (i != checks_ % kBindings) continue;
            std::vector<int64_t> some{kSizes[i][0], kUnbound, kSizes[i][2]};
            auto rest = item.expr.substitute(some);
            require(rest.evaluate(kSizes[i]) == actual, "substitution changes the value", text());
        }
        ++checks_;
        auto ids = item.expr.symbols();
        require(std::is_sorted(ids.begin(), ids.end()), "symbols are not sorted", text());
        require(item.expr.hash() == DimExpr(item.expr).hash(), "hashes differ", text());
    }

    void binary(char op) {
        if (stack_.size() < 2) return;
        Item b = std::move(stack_.back());
        stack_.pop_back();
        Item& a = stack_.back();
        auto expr = apply(op, a.expr, b.expr);
        std::array<Plain, kBindings> plain;
        for (size_t i = 0; i < kBindings; ++i) plain[i] = apply(op, a.plain[i], b.plain[i]);
        if (!expr) {
            for (auto const& p : plain) require(!p.known, "broadcast is refused", a.expr.to_string(symbols_));
            stack_.pop_back();
            return;
        }
        if (op == '+' || op == '<' || op == '>' || op == '*' || op == '|')
            require(apply(op, b.expr, a.expr) == expr, "not commutative", expr->to_string(symbols_));
        a = {std::move(*expr), plain};
        check(a);
    }

    void special(char op) {
        if (stack_.empty()) return;
        if (op == '=' && stack_.size() < kMaxStack) stack_.push_back(Item(stack_.back()));
        if (op == ':') stack_.pop_back();
        if (op == ';' && stack_.size() > 1) std::swap(stack_.back(), stack_[stack_.size() - 2]);
        if (op != 's') return;
        // The values of other bindings no longer hold.
        std::vector<int64_t> bound{3};
        stack_.back().expr = stack_.back().expr.substitute(bound);
        for (auto& plain : stack_.back().plain) plain.known = false;
        check(stack_.back());
    }

public:
    Machine() {
        for (auto const* name : {"a", "b", "c", "d"}) symbols_.intern(name);
    }

    void run(std::string_view text) {
        size_t tokens = 0;
        for (size_t i = 0; i < text.size() && tokens < kMaxTokens; ++i, ++tokens) {
            char c = text[i];
            bool room = stack_.size() < kMaxStack;
            if (c >= 'a' && c <= 'd' && room) {
                auto id = static_cast<size_t>(c - 'a');
                std::array<Wide, kBindings> values;
                for (size_t k = 0; k < kBindings; ++k) values[k] = kSizes[k][id];
                stack_.push_back(leaf(DimExpr::symbol(static_cast<SymbolId>(id)), values));
            } else if (c >= '0' && c <= '9' && room) {
                int64_t value = 0;
                for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && value < INT64_MAX / 10 - 9; ++i)
                    value = value * 10 + (text[i] - '0');
                --i;
                stack_.push_back(constant(value));
            } else if ((c == 'm' || c == 'M') && room) {
                stack_.push_back(constant(c == 'm' ? INT64_MAX : INT64_MIN));
            } else if (std::string_view("+-*/^%<>|").find(c) != std::string_view::npos) {
                binary(c);
            } else {
                special(c);
            }
        }
    }
};

void run(std::string_view input) { Machine().run(input); }

}  // namespace

Target dim_expr_target() { return {"dim_expr", run}; }

}  // namespace refactor::fuzz
