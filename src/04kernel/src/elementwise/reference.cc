#include "elementwise/reference.h"

#include "elementwise/elementwise.h"
#include "elementwise/program.h"
#include "movement/movement.h"

#include <cstring>

namespace refactor::kernel {

using namespace elementwise;
using movement::to_string;

namespace {

/// Offset of the element at `at` (coordinates of the output) in a tensor that may be repeated along axes and may be
/// blocked.
int64_t offset_of(TensorDesc const& x, Dims const& at) {
    auto rank = x.dims.size(), lead = at.size() - rank;
    auto coordinate = [&](size_t i) { return x.dims[i] == 1 ? 0 : at[i + lead]; };
    auto block = block_of(x.layout);
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
        auto size = x.dims[i], c = coordinate(i);
        if (block > 1 && i == 1) size = (size + block - 1) / block, c /= block;
        offset = offset * size + c;
    }
    return block > 1 ? offset * block + coordinate(1) % block : offset;
}

/// Whether `x` lies as `y` does, or as its axes say, or has channels alone.
bool has_known_places(TensorDesc const& x, TensorDesc const& y) {
    if (x.layout == y.layout || x.layout == Layout::Plain) return true;
    return x.dims.size() > 1 && x.dims.size() == y.dims.size() &&
           std::all_of(x.dims.begin() + 2, x.dims.end(), [](int64_t size) { return size == 1; });
}

/// Interprets the expression element by element, in double or 64-bit integers.
class ReferenceTask final : public runtime::Task {
public:
    ReferenceTask(ElementwiseInfo const& info, BindArgs const& args) : info_(info) {
        for (auto const* x : args.inputs) inputs_.push_back(x ? *x : TensorDesc{});
        for (auto const* y : args.outputs) outputs_.push_back(*y);
    }

    void run(void* const* arguments, runtime::RunContext const&) const override {
        auto* const* results = arguments + inputs_.size();
        for (size_t i = 0; i < outputs_.size(); ++i)
            if (outputs_[i].layout != Layout::Plain)
                std::memset(results[i], 0, storage_bytes(outputs_[i].dtype, outputs_[i].stored_count()));
        std::vector<Number> registers(info_.code.size());
        movement::for_each_coordinate(outputs_[0].dims, [&](Dims const& at, int64_t) {
            for (size_t i = 0; i < info_.code.size(); ++i)
                registers[i] = value_of(info_.code[i], registers, at, arguments);
            for (size_t i = 0; i < outputs_.size(); ++i)
                store_number(outputs_[i].dtype, results[i], offset_of(outputs_[i], at), registers[info_.outputs[i]]);
        });
    }

private:
    Number value_of(ExprInstruction const& code, std::vector<Number> const& registers, Dims const& at,
                    void* const* arguments) const {
        if (code.op == ExprOp::Input) {
            auto const& x = inputs_[code.operands[0]];
            return load_number(x.dtype, arguments[code.operands[0]], offset_of(x, at));
        }
        DataType types[3]{};
        Number operands[3];
        if (code.op == ExprOp::Constant) {
            bool exact = is_integer(code.dtype) && code.integer != 0;
            ExprInstruction cast{ExprOp::Cast, code.dtype};
            types[0] = exact ? DataType::I64 : DataType::F64;
            operands[0] = {code.value, code.integer};
            return evaluate(cast, types, operands);
        }
        for (int i = 0; i < arity_of(code.op); ++i) {
            types[i] = info_.code[code.operands[i]].dtype;
            operands[i] = registers[code.operands[i]];
        }
        return evaluate(code, types, operands);
    }

    ElementwiseInfo info_;
    std::vector<TensorDesc> inputs_, outputs_;
};

class ReferenceKernel final : public Kernel {
public:
    ReferenceKernel(ElementwiseInfo const& info, std::string id) : info_(info), id_(std::move(id)) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        auto const& y = *args.outputs[0];
        for (auto const* x : args.inputs) {
            if (!x) continue;
            bool fits = x->dims.size() <= y.dims.size() && has_known_places(*x, y);
            for (size_t i = 0; fits && i < x->dims.size(); ++i) {
                auto size = x->dims[i];
                fits = size == 1 || size == y.dims[y.dims.size() - x->dims.size() + i];
            }
            if (!fits)
                return Err{Rejection{"input " + to_string(x->dims) + " does not broadcast to " + to_string(y.dims)}};
        }
        return std::unique_ptr<runtime::Task>(new ReferenceTask(info_, args));
    }

private:
    ElementwiseInfo info_;
    std::string id_;
};

/// The portable tile functions know which operators a type has.
std::optional<Rejection> refuse_undefined(ElementwiseInfo const& info, Request const& request) {
    auto program = TileProgram::make(info, request, Isa::Scalar);
    if (program) return std::nullopt;
    return program.error();
}

}  // namespace

ElementwiseResult elementwise_reference(ElementwiseInfo const& info, Request const& request) {
    if (auto no = refuse_undefined(info, request)) return Err{*no};
    auto id = "elementwise:cpu:reference:" + std::string(name_of(request.outputs[0].dtype));
    return ElementwiseResult(std::make_unique<ReferenceKernel>(info, std::move(id)));
}

}  // namespace refactor::kernel
