#pragma once
#include "common/small_vector.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refactor {

class DimNode;
using SymbolId = uint32_t;

/// Names of the unknown sizes of one model, numbered in order of creation. Not thread-safe; a Program owns one and
/// stops adding to it.
class SymbolTable {
    std::vector<std::string> names_;

public:
    /// The symbol called `name`, created on first use.
    SymbolId intern(std::string_view name);
    std::optional<SymbolId> find(std::string_view name) const;
    std::string const& name(SymbolId id) const { return names_[id]; }
    size_t size() const { return names_.size(); }
};

/// Values of symbols by `SymbolId`; `kUnbound` where unknown.
inline constexpr int64_t kUnbound = INT64_MIN;
using Bindings = std::vector<int64_t>;

/// A size as an integer expression over symbols, kept in normal form: a sum of integer multiples of products of atoms,
/// where an atom is a symbol or an irreducible floor_div, ceil_div, mod, min, max. Equal normal forms compare equal, so
/// `N + S - N == S`. Immutable; constants carry no allocation.
class DimExpr {
    int64_t constant_ = 0;
    std::shared_ptr<DimNode const> node_;  ///< null: the constant

public:
    DimExpr() = default;
    DimExpr(int64_t value) : constant_(value) {}
    static DimExpr symbol(SymbolId);
    /// For the implementation.
    explicit DimExpr(std::shared_ptr<DimNode const> node) : node_(std::move(node)) {}
    DimNode const* node() const { return node_.get(); }

    bool is_constant() const { return !node_; }
    /// The value if it is constant.
    std::optional<int64_t> constant() const;
    /// The symbol if the expression is exactly one symbol.
    std::optional<SymbolId> as_symbol() const;
    /// `x` if the expression is exactly `max(x, 0)`.
    std::optional<DimExpr> as_clamped() const;

    friend DimExpr operator+(DimExpr const&, DimExpr const&);
    friend DimExpr operator-(DimExpr const&, DimExpr const&);
    friend DimExpr operator*(DimExpr const&, DimExpr const&);
    bool operator==(DimExpr const&) const;
    size_t hash() const;

    /// Value under `bindings`; nothing if a symbol is unbound, a divisor is zero, or the value leaves int64.
    std::optional<int64_t> evaluate(std::span<int64_t const> bindings) const;
    /// The expression with every bound symbol replaced by its value.
    DimExpr substitute(std::span<int64_t const> bindings) const;
    /// Ids of the symbols that occur, ascending, each once.
    std::vector<SymbolId> symbols() const;
    /// Smallest value that can occur if every symbol is ≥ 0 (nothing: unknown); sizes themselves are never negative.
    std::optional<int64_t> lower_bound() const;
    /// The same if every symbol is ≥ 1.
    std::optional<int64_t> lower_bound_if_positive() const;
    std::string to_string(SymbolTable const&) const;
};

/// Rounds toward minus infinity; a constant zero divisor stays unevaluated.
DimExpr floor_div(DimExpr const&, DimExpr const&);
DimExpr ceil_div(DimExpr const&, DimExpr const&);
/// Sign follows the divisor: `a - floor_div(a, b) * b`.
DimExpr mod(DimExpr const&, DimExpr const&);
DimExpr min(DimExpr const&, DimExpr const&);
DimExpr max(DimExpr const&, DimExpr const&);
/// Broadcast of two sizes: `a` where `b` is 1, else `b` where `a` is 1, else `a` if equal; a `bcast(a, b)` atom if that
/// cannot be known yet (evaluating it fails on sizes that neither match nor are 1). Sizes are not negative, so that of
/// `x` and `max(x, 0)` it is `x`. Nothing if the two are different constants, neither being 1.
std::optional<DimExpr> broadcast(DimExpr const&, DimExpr const&);

/// Symbolic sizes of a tensor, outermost first.
using Shape = std::vector<DimExpr>;
std::string to_string(Shape const&, SymbolTable const&);
/// Product of the sizes.
DimExpr element_count(Shape const&);

/// Many expressions flattened into one postfix program, so that binding symbols costs a few ns an expression. Equal
/// expressions are computed once. Example: `DimProgram p; auto i = p.add(N * S); p.evaluate(bindings, values);
/// values[i]`.
class DimProgram {
public:
    struct Instruction {
        enum class Op : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Broadcast } op;
        uint32_t a, b;  ///< slots of the operands; the symbol id in `a` for Symbol
        int64_t value;  ///< the value of Constant
    };
    /// Slot that will hold the value of `expr`.
    uint32_t add(DimExpr const& expr);
    size_t slots() const { return code_.size(); }
    /// One for each slot, operands before what uses them.
    std::span<Instruction const> instructions() const { return code_; }
    /// Fills `values` (size `slots()`). Returns the first slot that could not be computed (unbound symbol, division by
    /// zero, overflow, mismatched broadcast), or nothing; slots that depend on unbound symbols hold `kUnbound` and
    /// evaluation goes on.
    std::optional<uint32_t> evaluate(std::span<int64_t const> bindings, std::span<int64_t> values) const;

    DimProgram();
    ~DimProgram();
    DimProgram(DimProgram&&) noexcept;
    DimProgram& operator=(DimProgram&&) noexcept;

private:
    std::vector<Instruction> code_;
    struct Index;
    std::unique_ptr<Index> index_;
};

}  // namespace refactor
