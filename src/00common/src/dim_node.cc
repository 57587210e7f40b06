#include "dim_node.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace refactor::dim {
namespace {

// Operations within operations: models reach a dozen, and every function here recurses over them.
constexpr uint32_t kMaxDepth = 512;

size_t mix(size_t seed, size_t value) {
    // Finaliser of splitmix64 over the running hash.
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + value;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return static_cast<size_t>(x ^ x >> 31);
}

/// All living atoms. An atom leaves it when its last owner drops it.
struct AtomTable {
    struct Entry {
        DimAtom const* address;
        std::weak_ptr<DimAtom const> atom;
    };
    std::mutex mutex;
    std::unordered_multimap<size_t, Entry> entries;

    static AtomTable& instance() {
        // Never destroyed: expressions in static objects may outlive any order of destruction.
        static auto* table = new AtomTable;
        return *table;
    }

    void remove(DimAtom const* atom) {
        std::lock_guard lock(mutex);
        auto [first, last] = entries.equal_range(atom->hash);
        for (; first != last; ++first) {
            if (first->second.address != atom) continue;
            entries.erase(first);
            return;
        }
    }
};

size_t hash_of(DimSum const& terms) {
    size_t hash = terms.size();
    for (auto const& term : terms) {
        hash = mix(hash, static_cast<size_t>(term.coefficient));
        for (auto const& factor : term.factors) hash = mix(hash, factor->hash);
    }
    return hash;
}

uint32_t depth_of(DimExpr const& x) {
    uint32_t depth = 0;
    if (x.node())
        for (auto const& term : x.node()->terms)
            for (auto const& factor : term.factors) depth = std::max(depth, factor->depth);
    return depth;
}

std::optional<int64_t> checked_add(std::optional<int64_t> a, std::optional<int64_t> b) {
    int64_t r;
    if (!a || !b || __builtin_add_overflow(*a, *b, &r)) return std::nullopt;
    return r;
}

std::optional<int64_t> checked_mul(std::optional<int64_t> a, std::optional<int64_t> b) {
    int64_t r;
    if (!a || !b || __builtin_mul_overflow(*a, *b, &r)) return std::nullopt;
    return r;
}

Range product(Range a, Range b) {
    if (!a.low || !b.low || *a.low < 0 || *b.low < 0) return {};
    return {checked_mul(a.low, b.low), checked_mul(a.high, b.high)};
}

Range range_of_term(DimTerm const& term) {
    Range range{1, 1};
    for (size_t i = 0; i < term.factors.size(); ++i) {
        Range factor{term.factors[i]->low, term.factors[i]->high};
        range = i == 0 ? factor : product(range, factor);
    }
    range = {checked_mul(range.low, term.coefficient), checked_mul(range.high, term.coefficient)};
    if (term.coefficient < 0) std::swap(range.low, range.high);
    return range;
}

// Operations of a sum that are told by what they are of; sums have one or two.
constexpr int kMaxReplaced = 4;

/// What a term of a sum is replaced by, and what it differs from that; nothing: it is not known.
struct Replacement {
    DimSum by;
    Range difference;
};

/// `times · c · floor_div(a, c)` is `times · a` less `times` remainders.
std::optional<Replacement> of_division(DimAtom const& division, int64_t coefficient) {
    auto c = division.b.constant();
    if (!c || *c <= 0 || coefficient % *c) return std::nullopt;
    auto whole = multiply_term(sum_of(division.a), {coefficient / *c, {}});
    auto most = checked_mul(-(coefficient / *c), *c - 1);
    if (!whole || !most) return std::nullopt;
    return Replacement{std::move(*whole), {std::min<int64_t>(0, *most), std::max<int64_t>(0, *most)}};
}

/// min is at most, max at least each of its operands.
std::optional<Replacement> of_choice(DimAtom const& choice, DimExpr const& operand, int64_t coefficient) {
    auto by = multiply_term(sum_of(operand), {coefficient, {}});
    if (!by) return std::nullopt;
    bool at_least = (choice.kind == Kind::Max) == (coefficient > 0);
    return Replacement{std::move(*by), at_least ? Range{0, std::nullopt} : Range{std::nullopt, 0}};
}

std::vector<std::optional<Replacement>> replacements(DimTerm const& term) {
    if (term.factors.size() != 1) return {};
    auto const& atom = *term.factors[0];
    if (atom.kind == Kind::FloorDiv) return {of_division(atom, term.coefficient)};
    if (atom.kind != Kind::Min && atom.kind != Kind::Max) return {};
    return {of_choice(atom, atom.a, term.coefficient), of_choice(atom, atom.b, term.coefficient)};
}

/// The sum of ranges of terms, or what is known better of the sum where one operation is replaced, and then others.
Range range_of_sum(DimSum const& terms, int replaced = kMaxReplaced) {
    Range range{0, 0};
    for (auto const& term : terms) {
        auto each = range_of_term(term);
        range = {checked_add(range.low, each.low), checked_add(range.high, each.high)};
    }
    auto narrow = [&](DimSum const& others, Replacement const& replacement) {
        auto sum = add(others, replacement.by);
        if (!sum) return;
        auto known = range_of_sum(*sum, replaced - 1);
        auto low = checked_add(known.low, replacement.difference.low),
             high = checked_add(known.high, replacement.difference.high);
        if (low && (!range.low || *low > *range.low)) range.low = low;
        if (high && (!range.high || *high < *range.high)) range.high = high;
    };
    if (terms.size() < 2 || replaced == 0) return range;
    // Choices first: their operands may have the divisions that the sum has.
    for (bool choices : {true, false})
        for (size_t i = 0; i < terms.size(); ++i) {
            auto found = replacements(terms[i]);
            if (found.empty() || (found.size() > 1) != choices) continue;
            auto others = terms;
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
            for (auto const& replacement : found)
                if (replacement) narrow(others, *replacement);
            return range;
        }
    return range;
}

}  // namespace

AtomPtr intern(Kind kind, SymbolId symbol, DimExpr const& a, DimExpr const& b) {
    size_t hash = mix(mix(mix(static_cast<size_t>(kind), symbol), a.hash()), b.hash());
    auto& table = AtomTable::instance();
    // Declared before the lock: dropping the last reference to an atom takes the lock again.
    std::vector<AtomPtr> candidates;
    std::lock_guard lock(table.mutex);
    auto [first, last] = table.entries.equal_range(hash);
    for (; first != last; ++first) {
        auto atom = first->second.atom.lock();
        if (!atom) continue;
        if (atom->kind == kind && atom->symbol == symbol && atom->a == a && atom->b == b) return atom;
        candidates.push_back(std::move(atom));
    }
    auto range = kind == Kind::Symbol ? Range{0, std::nullopt} : range_of_operation(kind, range_of(a), range_of(b));
    auto depth = std::max(depth_of(a), depth_of(b)) + 1;
    AtomPtr atom(new DimAtom{kind, symbol, a, b, hash, range.low, range.high, depth}, [](DimAtom const* dead) {
        AtomTable::instance().remove(dead);
        delete dead;
    });
    table.entries.emplace(hash, AtomTable::Entry{atom.get(), atom});
    return atom;
}

DimExpr from_sum(DimSum terms) {
    if (terms.empty()) return 0;
    if (terms.size() == 1 && terms[0].factors.empty()) return terms[0].coefficient;
    auto node = std::make_shared<DimNode>();
    node->hash = hash_of(terms);
    node->terms = std::move(terms);
    return DimExpr(std::shared_ptr<DimNode const>(std::move(node)));
}

DimExpr from_atom(AtomPtr atom) {
    DimSum terms(1);
    terms[0].coefficient = 1;
    terms[0].factors.push_back(std::move(atom));
    return from_sum(std::move(terms));
}

DimExpr operation(Kind kind, DimExpr const& a, DimExpr const& b) {
    if (std::max(depth_of(a), depth_of(b)) >= kMaxDepth) return invalid();
    return from_atom(intern(kind, 0, a, b));
}

DimExpr invalid() {
    static auto const* expression = [] {
        auto node = std::make_shared<DimNode>();
        node->terms.push_back({1, {intern(Kind::Invalid, 0, 0, 0)}});
        node->hash = hash_of(node->terms);
        node->invalid = true;
        return new DimExpr(std::shared_ptr<DimNode const>(std::move(node)));
    }();
    return *expression;
}

DimSum sum_of(DimExpr const& x) {
    if (x.node()) return x.node()->terms;
    DimSum terms;
    if (auto value = *x.constant()) terms.push_back({value, {}});
    return terms;
}

std::optional<DimSum> add(DimSum const& a, DimSum const& b) {
    DimSum result;
    result.reserve(a.size() + b.size());
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        int order = compare(a[i].factors, b[j].factors);
        if (order) {
            result.push_back(order < 0 ? a[i++] : b[j++]);
            continue;
        }
        int64_t sum;
        if (__builtin_add_overflow(a[i].coefficient, b[j].coefficient, &sum)) return std::nullopt;
        if (sum) result.push_back({sum, a[i].factors});
        ++i, ++j;
    }
    result.insert(result.end(), a.begin() + static_cast<std::ptrdiff_t>(i), a.end());
    result.insert(result.end(), b.begin() + static_cast<std::ptrdiff_t>(j), b.end());
    return result;
}

std::optional<DimSum> multiply_term(DimSum const& a, DimTerm const& by) {
    DimSum result(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
        if (__builtin_mul_overflow(a[i].coefficient, by.coefficient, &result[i].coefficient)) return std::nullopt;
        auto& factors = result[i].factors;
        factors.resize(a[i].factors.size() + by.factors.size());
        std::merge(a[i].factors.begin(), a[i].factors.end(), by.factors.begin(), by.factors.end(), factors.begin(),
                   [](AtomPtr const& x, AtomPtr const& y) { return compare(x, y) < 0; });
    }
    return result;
}

DimAtom const* single_atom(DimExpr const& x) {
    if (!x.node() || x.node()->terms.size() != 1) return nullptr;
    auto const& term = x.node()->terms[0];
    return term.coefficient == 1 && term.factors.size() == 1 ? term.factors[0].get() : nullptr;
}

int compare(AtomPtr const& a, AtomPtr const& b) {
    if (a == b) return 0;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->symbol != b->symbol) return a->symbol < b->symbol ? -1 : 1;
    if (int order = compare(a->a, b->a)) return order;
    return compare(a->b, b->b);
}

int compare(std::vector<AtomPtr> const& a, std::vector<AtomPtr> const& b) {
    if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
    for (size_t i = 0; i < a.size(); ++i)
        if (int order = compare(a[i], b[i])) return order;
    return 0;
}

int compare(DimExpr const& a, DimExpr const& b) {
    if (a.node() == b.node() && a.node()) return 0;
    if (!a.node() || !b.node()) {
        if (a.node() || b.node()) return a.node() ? -1 : 1;
        auto x = *a.constant(), y = *b.constant();
        return x < y ? -1 : x > y;
    }
    auto const &s = a.node()->terms, &t = b.node()->terms;
    for (size_t i = 0; i < std::min(s.size(), t.size()); ++i) {
        if (int order = compare(s[i].factors, t[i].factors)) return order;
        if (s[i].coefficient != t[i].coefficient) return s[i].coefficient < t[i].coefficient ? -1 : 1;
    }
    return s.size() < t.size() ? -1 : s.size() > t.size();
}

Range range_of(DimExpr const& x) {
    if (auto value = x.constant()) return {*value, *value};
    return range_of_sum(x.node()->terms);
}

Range range_of_operation(Kind kind, Range a, Range b) {
    bool positive = b.low && *b.low >= 0;  // a divisor of 0 has no value at all
    auto exact = [](Range r) { return r.low && r.high && *r.low == *r.high && *r.low != 1; };
    switch (kind) {
        case Kind::FloorDiv:
        case Kind::CeilDiv: {
            if (!positive) return {};
            auto op = op_of(kind);
            if (b.high && *b.low == *b.high && *b.low > 0) {
                auto each = [&](std::optional<int64_t> x) -> std::optional<int64_t> {
                    if (!x || *x == kUnbound) return std::nullopt;
                    return apply(op, *x, *b.low);
                };
                return {each(a.low), each(a.high)};
            }
            if (!a.low || *a.low < 0) return {};
            return {0, a.high};
        }
        case Kind::Mod:
            if (!positive) return {};
            return {0, b.high && *b.high > 0 ? std::optional(*b.high - 1) : std::nullopt};
        case Kind::Min:
            return {a.low && b.low ? std::min(a.low, b.low) : std::nullopt, a.high && b.high ? std::min(a.high, b.high)
                                                                            : a.high         ? a.high
                                                                                             : b.high};
        case Kind::Max:
            return {a.low && b.low ? std::max(a.low, b.low)
                    : a.low        ? a.low
                                   : b.low,
                    a.high && b.high ? std::max(a.high, b.high) : std::nullopt};
        case Kind::Broadcast:
            if (exact(a)) return a;
            if (exact(b)) return b;
            return {a.low && b.low ? std::min(a.low, b.low) : std::nullopt,
                    a.high && b.high ? std::max(a.high, b.high) : std::nullopt};
        case Kind::Product:
            return product(a, b);
        default:
            return {};
    }
}

}  // namespace refactor::dim
