#include "dim_node.h"

#include <algorithm>

// min, max and broadcast: commutative, associative and idempotent, so that nested ones are flattened, sorted and freed
// of duplicates.

namespace refactor {
namespace {

using dim::Kind;

// Up to this many operands are compared with each other: the comparisons grow with the square.
constexpr size_t kMaxCompared = 16;

void flatten(Kind kind, DimExpr const& x, std::vector<DimExpr>& out) {
    auto const* atom = dim::single_atom(x);
    if (!atom || atom->kind != kind) return out.push_back(x);
    flatten(kind, atom->a, out);
    flatten(kind, atom->b, out);
}

std::vector<DimExpr> operands(Kind kind, DimExpr const& a, DimExpr const& b) {
    std::vector<DimExpr> all;
    flatten(kind, a, all);
    flatten(kind, b, all);
    std::sort(all.begin(), all.end(), [](DimExpr const& x, DimExpr const& y) { return dim::compare(x, y) < 0; });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

DimExpr join(Kind kind, std::vector<DimExpr> const& all) {
    DimExpr result = all[0];
    for (size_t i = 1; i < all.size(); ++i) result = dim::operation(kind, result, all[i]);
    return result;
}

/// Whether a ≤ b wherever symbols are ≥ 0.
bool never_greater(DimExpr const& a, DimExpr const& b) {
    // The ends of int64 bound every value; Slice uses them for "to the end".
    if (a == DimExpr(INT64_MIN) || b == DimExpr(INT64_MAX)) return true;
    auto high = dim::range_of(a).high, low = dim::range_of(b).low;
    if (high && low && *high <= *low) return true;
    auto least = dim::range_of(b - a).low;
    return least && *least >= 0;
}

DimExpr extremum(Kind kind, DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    auto all = operands(kind, a, b);
    for (size_t i = 0; all.size() <= kMaxCompared && i < all.size();) {
        bool redundant = false;
        for (size_t j = 0; j < all.size() && !redundant; ++j)
            redundant = i != j && (kind == Kind::Max ? never_greater(all[i], all[j]) : never_greater(all[j], all[i]));
        if (redundant)
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
    return join(kind, all);
}

}  // namespace

DimExpr min(DimExpr const& a, DimExpr const& b) { return extremum(Kind::Min, a, b); }

DimExpr max(DimExpr const& a, DimExpr const& b) { return extremum(Kind::Max, a, b); }

std::optional<DimExpr> broadcast(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    auto all = operands(Kind::Broadcast, a, b);
    std::erase(all, DimExpr(1));
    std::erase_if(all, [sizes = all](DimExpr const& x) {
        auto size = x.as_clamped();
        return size && std::find(sizes.begin(), sizes.end(), *size) != sizes.end();
    });
    if (all.empty()) return DimExpr(1);
    auto constants = std::count_if(all.begin(), all.end(), [](DimExpr const& x) { return x.is_constant(); });
    if (constants > 1) return std::nullopt;
    return join(Kind::Broadcast, all);
}

}  // namespace refactor
