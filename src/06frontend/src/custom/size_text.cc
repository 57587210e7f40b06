#include "frontend/custom_operator.h"

#include <charconv>

namespace refactor::frontend {

namespace {

// Levels of brackets; each takes a few stack frames.
constexpr int kDeepest = 100;

/// Recursive descent over `sum := term {(+|-) term}`, `term := factor {(*|/|//|%) factor}`,
/// `factor := number | symbol | name(sum, sum) | (sum) | -factor`.
class SizeParser {
    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    SymbolTable const& symbols_;

    using Result = Inferred<DimExpr>;

    Err<InferError> failure(std::string_view what) const {
        return Err{invalid("the size \"", text_, "\" cannot be read at character ", at_, ": ", what)};
    }
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(std::string_view token) {
        skip();
        if (text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        return true;
    }
    static bool is_name(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c < 0;
    }

    /// Names of symbols may hold anything: the longest one that is here.
    std::optional<SymbolId> take_symbol() {
        std::optional<SymbolId> best;
        size_t length = 0;
        for (SymbolId id = 0; id < symbols_.size(); ++id) {
            auto const& name = symbols_.name(id);
            if (name.size() <= length || text_.substr(at_, name.size()) != name) continue;
            auto end = at_ + name.size();
            if (end < text_.size() && is_name(name.back()) && is_name(text_[end])) continue;
            best = id, length = name.size();
        }
        at_ += length;
        return best;
    }

    Result call(std::string_view name) {
        RG_TRY(a, sum());
        if (!take(",")) return failure("expected a comma");
        RG_TRY(b, sum());
        if (!take(")")) return failure("expected a closing bracket");
        if (name == "min(") return min(a, b);
        if (name == "max(") return max(a, b);
        if (name == "bcast(") {
            auto common = broadcast(a, b);
            if (!common) return failure("the two sizes cannot be broadcast");
            return *common;
        }
        if (b == DimExpr(0)) return failure("division by zero");
        if (name == "floor_div(") return floor_div(a, b);
        return name == "ceil_div(" ? ceil_div(a, b) : mod(a, b);
    }

    Result factor() {
        skip();
        if (at_ == text_.size()) return failure("expected a number or a symbol");
        if (auto symbol = take_symbol()) return DimExpr::symbol(*symbol);
        if (take("-")) {
            RG_TRY(value, factor());
            return value * -1;
        }
        if (take("(")) {
            RG_TRY(value, sum());
            if (!take(")")) return failure("expected a closing bracket");
            return value;
        }
        for (std::string_view name : {"floor_div(", "ceil_div(", "mod(", "min(", "max(", "bcast("})
            if (take(name)) return call(name);
        int64_t number = 0;
        auto rest = text_.substr(at_);
        auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
        if (error == std::errc::result_out_of_range) return failure("the number is too large");
        if (error != std::errc()) return failure("expected a number or one of the symbols " + names());
        at_ += static_cast<size_t>(end - rest.data());
        return DimExpr(number);
    }

    std::string names() const {
        constexpr size_t kShown = 20;
        std::string list;
        for (SymbolId id = 0; id < symbols_.size() && id < kShown; ++id)
            list += concat(list.empty() ? "" : ", ", symbols_.name(id));
        if (symbols_.size() > kShown) list += ", …";
        return list.empty() ? "(there are none)" : list;
    }

    Result term() {
        RG_TRY(value, factor());
        for (;;) {
            bool times = take("*"), over = !times && (take("//") || take("/")), rest = !times && !over && take("%");
            if (!times && !over && !rest) return value;
            RG_TRY(other, factor());
            if (!times && other == DimExpr(0)) return failure("division by zero");
            value = times ? value * other : over ? floor_div(value, other) : mod(value, other);
        }
    }

    Result sum() {
        if (++depth_ > kDeepest) return failure("brackets are nested too deep");
        RG_TRY(value, term());
        for (;;) {
            bool plus = take("+");
            if (!plus && !take("-")) break;
            RG_TRY(other, term());
            value = plus ? value + other : value - other;
        }
        --depth_;
        return value;
    }

public:
    SizeParser(std::string_view text, SymbolTable const& symbols) : text_(text), symbols_(symbols) {}
    Result run() {
        RG_TRY(value, sum());
        skip();
        if (at_ != text_.size()) return failure("expected an operator or the end");
        return value;
    }
};

}  // namespace

Inferred<DimExpr> parse_size(std::string_view text, SymbolTable const& symbols) {
    return SizeParser(text, symbols).run();
}

}  // namespace refactor::frontend
