#include "common/archive.h"

#include <algorithm>

namespace refactor {

namespace {

using Op = DimProgram::Instruction::Op;

}  // namespace

std::vector<std::byte> ArchiveWriter::finish() && {
    auto body = std::move(body_);
    body_.clear();
    auto code = sizes_.instructions();
    write(std::vector<DimProgram::Instruction>(code.begin(), code.end()));
    body_.insert(body_.end(), body.begin(), body.end());
    return std::move(body_);
}

void ArchiveReader::fail(char const* what) { throw InvalidModel(std::string("not what was written: ") + what); }

void ArchiveReader::take(void* to, size_t bytes) {
    if (bytes > rest_.size()) fail("the data ends early");
    std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
}

void ArchiveReader::read_sizes() {
    for (auto const& step : read<std::vector<DimProgram::Instruction>>()) {
        bool leaf = step.op == Op::Constant || step.op == Op::Symbol;
        if (!leaf && std::max(step.a, step.b) >= sizes_.size()) fail("a size depends on a later one");
        switch (step.op) {
            case Op::Constant:
                sizes_.emplace_back(step.value);
                continue;
            case Op::Symbol:
                if (step.a == UINT32_MAX) fail("a symbol has a number out of range");
                symbols_ = std::max(symbols_, step.a + 1);
                sizes_.push_back(DimExpr::symbol(step.a));
                continue;
            default:
                break;
        }
        auto const &a = sizes_[step.a], &b = sizes_[step.b];
        switch (step.op) {
            case Op::Add:
                sizes_.push_back(a + b);
                break;
            case Op::Mul:
                sizes_.push_back(a * b);
                break;
            case Op::FloorDiv:
                sizes_.push_back(floor_div(a, b));
                break;
            case Op::CeilDiv:
                sizes_.push_back(ceil_div(a, b));
                break;
            case Op::Mod:
                sizes_.push_back(mod(a, b));
                break;
            case Op::Min:
                sizes_.push_back(min(a, b));
                break;
            case Op::Max:
                sizes_.push_back(max(a, b));
                break;
            case Op::Broadcast:
                if (auto both = broadcast(a, b)) {
                    sizes_.push_back(*both);
                    break;
                }
                fail("two sizes do not broadcast");
            default:
                fail("an unknown operation on sizes");
        }
    }
}

}  // namespace refactor
