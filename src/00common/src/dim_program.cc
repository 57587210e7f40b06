#include "common/error.h"
#include "dim_node.h"

#include <unordered_map>

namespace refactor {
namespace {

using dim::Kind;
using dim::Op;

struct HashExpr {
    size_t operator()(DimExpr const& x) const { return x.hash(); }
};

struct Key {
    Op op;
    uint32_t a, b;
    int64_t value;
    bool operator==(Key const&) const = default;
};

struct HashKey {
    size_t operator()(Key const& k) const {
        uint64_t x = (static_cast<uint64_t>(k.a) << 32 | k.b) * 0x9e3779b97f4a7c15ull;
        return static_cast<size_t>((x ^ static_cast<uint64_t>(k.value)) * 31 + static_cast<uint64_t>(k.op));
    }
};

}  // namespace

struct DimProgram::Index {
    std::vector<Instruction>* code = nullptr;
    std::unordered_map<Key, uint32_t, HashKey> instructions;
    std::unordered_map<DimExpr, uint32_t, HashExpr> expressions;
    std::unordered_map<AtomPtr, uint32_t> atoms;

    uint32_t emit(Op op, uint32_t a, uint32_t b, int64_t value) {
        bool commutes = op == Op::Add || op == Op::Mul || op == Op::Min || op == Op::Max || op == Op::Broadcast;
        if (commutes && a > b) std::swap(a, b);
        auto [found, inserted] = instructions.try_emplace({op, a, b, value}, static_cast<uint32_t>(code->size()));
        if (inserted) code->push_back({op, a, b, value});
        return found->second;
    }
    uint32_t number(int64_t value) { return emit(Op::Constant, 0, 0, value); }

    uint32_t add(AtomPtr const& atom) {
        if (atom->kind == Kind::Symbol) return emit(Op::Symbol, atom->symbol, 0, 0);
        if (auto found = atoms.find(atom); found != atoms.end()) return found->second;
        auto a = add(atom->a), b = add(atom->b);
        // An overflow never has a value: neither has a division by zero.
        auto slot = emit(atom->kind == Kind::Invalid ? Op::FloorDiv : dim::op_of(atom->kind), a, b, 0);
        atoms.emplace(atom, slot);
        return slot;
    }

    uint32_t add(DimExpr const& x) {
        if (x.is_constant()) return number(*x.constant());
        if (auto found = expressions.find(x); found != expressions.end()) return found->second;
        std::optional<uint32_t> sum;
        for (auto const& term : x.node()->terms) {
            std::optional<uint32_t> product;
            for (auto const& factor : term.factors) {
                auto slot = add(factor);
                product = product ? emit(Op::Mul, *product, slot, 0) : slot;
            }
            if (!product)
                product = number(term.coefficient);
            else if (term.coefficient != 1)
                product = emit(Op::Mul, *product, number(term.coefficient), 0);
            sum = sum ? emit(Op::Add, *sum, *product, 0) : *product;
        }
        expressions.emplace(x, *sum);
        return *sum;
    }
};

DimProgram::DimProgram() : index_(std::make_unique<Index>()) {}
DimProgram::~DimProgram() = default;
DimProgram::DimProgram(DimProgram&&) noexcept = default;
DimProgram& DimProgram::operator=(DimProgram&&) noexcept = default;

uint32_t DimProgram::add(DimExpr const& expr) {
    index_->code = &code_;
    return index_->add(expr);
}

std::optional<uint32_t> DimProgram::evaluate(std::span<int64_t const> bindings, std::span<int64_t> values) const {
    ensure(values.size() >= code_.size(), "DimProgram::evaluate: fewer values than slots");
    std::optional<uint32_t> failure;
    auto* out = values.data();
    for (uint32_t i = 0; i < code_.size(); ++i) {
        auto const& step = code_[i];
        if (step.op == Op::Constant) {
            out[i] = step.value;
            continue;
        }
        int64_t value;
        if (step.op == Op::Symbol)
            value = step.a < bindings.size() ? bindings[step.a] : kUnbound;
        else
            value = dim::apply(step.op, out[step.a], out[step.b]);
        out[i] = value;
        if (value == kUnbound && !failure) failure = i;
    }
    return failure;
}

}  // namespace refactor
