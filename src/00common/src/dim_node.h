#pragma once
#include "common/dim_expr.h"

#include <limits>

namespace refactor {

/// What a normal form multiplies: a symbol or an operation that could not be simplified away. Interned: equal atoms are
/// one object.
struct DimAtom {
    enum class Kind : uint8_t {
        Symbol,
        FloorDiv,
        CeilDiv,
        Mod,
        Min,
        Max,
        Broadcast,
        Product,  ///< of two sums whose expansion would have too many terms
        Invalid,  ///< a constant left int64: never evaluates, and swallows every operation on it
    };
    Kind kind;
    SymbolId symbol = 0;
    DimExpr a, b;
    size_t hash = 0;
    /// Range of values if every symbol is ≥ 0; nothing: unknown.
    std::optional<int64_t> low, high;
    uint32_t depth = 0;  ///< operations within operations
};
using AtomPtr = std::shared_ptr<DimAtom const>;

/// `coefficient` (not 0) times the factors, which are sorted; no factors: the constant term.
struct DimTerm {
    int64_t coefficient;
    std::vector<AtomPtr> factors;
};

/// Terms with distinct factors in descending graded lexicographic order: higher degree first, the constant last. Graded
/// lexicographic order survives multiplication, which polynomial division needs.
using DimSum = std::vector<DimTerm>;

class DimNode {
public:
    DimSum terms;
    size_t hash = 0;
    bool invalid = false;
};

namespace dim {

using Kind = DimAtom::Kind;
using Op = DimProgram::Instruction::Op;

struct Range {
    std::optional<int64_t> low, high;
};

/// The interned atom; its range and hash are computed here.
AtomPtr intern(Kind kind, SymbolId symbol, DimExpr const& a, DimExpr const& b);
/// The expression that is just this atom.
DimExpr from_atom(AtomPtr atom);
/// The expression that stands for an overflow.
DimExpr invalid();
/// The operation as an atom; `invalid` if it would be deeper than recursion over it may go.
DimExpr operation(Kind kind, DimExpr const& a, DimExpr const& b);
inline bool is_invalid(DimExpr const& x) { return x.node() && x.node()->invalid; }

DimSum sum_of(DimExpr const& x);
/// Takes terms in normal form.
DimExpr from_sum(DimSum terms);
/// Nothing on overflow. `multiply_term` keeps the order of terms.
std::optional<DimSum> add(DimSum const& a, DimSum const& b);
std::optional<DimSum> multiply_term(DimSum const& a, DimTerm const& by);
/// The only factor of an expression that is one atom, else null.
DimAtom const* single_atom(DimExpr const& x);

/// Total orders that do not depend on addresses.
int compare(AtomPtr const& a, AtomPtr const& b);
int compare(std::vector<AtomPtr> const& a, std::vector<AtomPtr> const& b);
int compare(DimExpr const& a, DimExpr const& b);

Range range_of(DimExpr const& x);
Range range_of_operation(Kind kind, Range a, Range b);

/// Value of one operation; `kUnbound` if an operand is, or on overflow, a zero divisor, sizes that cannot be broadcast.
inline int64_t apply(Op op, int64_t a, int64_t b) {
    if (a == kUnbound || b == kUnbound) return kUnbound;
    int64_t r;
    auto floor_quotient = [](int64_t x, int64_t y) {
        // A 64-bit division takes up to 90 cycles on older processors, a 32-bit one about 26.
        if (static_cast<uint64_t>(x | y) >> 32 == 0)
            return static_cast<int64_t>(static_cast<uint32_t>(x) / static_cast<uint32_t>(y));
        int64_t q = x / y;
        return q - ((x % y != 0) && ((x < 0) != (y < 0)));
    };
    switch (op) {
        case Op::Add:
            return __builtin_add_overflow(a, b, &r) ? kUnbound : r;
        case Op::Mul:
            return __builtin_mul_overflow(a, b, &r) ? kUnbound : r;
        // `kUnbound` is excluded above, so that x / -1 fits.
        case Op::FloorDiv:
            return b == 0 ? kUnbound : floor_quotient(a, b);
        case Op::CeilDiv:
            return b == 0 ? kUnbound : -floor_quotient(-a, b);
        case Op::Mod:
            return b == 0 ? kUnbound : a - floor_quotient(a, b) * b;
        case Op::Min:
            return a < b ? a : b;
        case Op::Max:
            return a > b ? a : b;
        case Op::Broadcast:
            return b == 1 || a == b ? a : a == 1 ? b : kUnbound;
        default:
            return kUnbound;
    }
}

inline Op op_of(Kind kind) {
    switch (kind) {
        case Kind::FloorDiv:
            return Op::FloorDiv;
        case Kind::CeilDiv:
            return Op::CeilDiv;
        case Kind::Mod:
            return Op::Mod;
        case Kind::Min:
            return Op::Min;
        case Kind::Max:
            return Op::Max;
        case Kind::Broadcast:
            return Op::Broadcast;
        default:
            return Op::Mul;
    }
}

}  // namespace dim
}  // namespace refactor
