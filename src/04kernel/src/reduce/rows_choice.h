#pragma once
#include "reduce/cpu_kernel.h"
#include "reduce/rows.h"

namespace refactor::kernel {

/// The row functions of the best instruction set that the request allows, or why there are none for f32 operands on the
/// CPU.
struct RowChoice {
    RowFunctions const* functions = nullptr;
    Isa isa = Isa::Scalar;
    std::string why_not;
};
RowChoice choose_rows(Request const&);

/// A kernel of vectorised passes: `Bound(functions, info, args)` is the task, `Bound::why_not(info, args)` a refusal or
/// empty.
template <class Info, class Bound>
class RowKernel final : public Kernel {
    RowFunctions const& functions_;
    std::string id_;
    Info info_;
    double ns_per_element_;

public:
    RowKernel(RowChoice const& choice, std::string_view op, Info info, double ns_per_element)
        : functions_(*choice.functions),
          id_(id_of(op, "rows", DataType::F32, choice.isa)),
          info_(std::move(info)),
          ns_per_element_(ns_per_element) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return 20 + static_cast<double>(args.inputs[0]->count()) * ns_per_element_ / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = Bound::why_not(info_, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new Bound(functions_, info_, args));
    }
};

}  // namespace refactor::kernel
