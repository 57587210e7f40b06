#pragma once
#include "reduce/cpu_kernel.h"
#include "reduce/rows.h"

#include <type_traits>

namespace refactor::kernel {

/// The row functions of the best instruction set that the request allows, or why there are none for operands of T (f32
/// or f64) on the CPU.
template <class T>
struct RowChoiceOf {
    RowFunctionsOf<T> const* functions = nullptr;
    Isa isa = Isa::Scalar;
    std::string why_not;
};
using RowChoice = RowChoiceOf<float>;
template <class T = float>
RowChoiceOf<T> choose_rows(Request const&);

/// A kernel of vectorised passes: `Bound(functions, info, args)` is the task, `Bound::why_not(info, args)` a refusal or
/// empty.
template <class Info, class Bound, class T = float>
class RowKernel final : public Kernel {
    RowFunctionsOf<T> const& functions_;
    std::string id_;
    Info info_;
    double ns_per_element_;

public:
    /// `type`: what the id names.
    RowKernel(RowChoiceOf<T> const& choice, std::string_view op, Info info, double ns_per_element,
              DataType type = sizeof(T) == 8 ? DataType::F64 : DataType::F32)
        : functions_(*choice.functions),
          id_(id_of(op, "rows", type, choice.isa)),
          info_(std::move(info)),
          ns_per_element_(ns_per_element * sizeof(T) / sizeof(float)) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        return 20 + static_cast<double>(args.inputs[0]->count()) * ns_per_element_ / args.threads;
    }
    MaybeTask bind(BindArgs const& args) const override {
        if (auto why = Bound::why_not(info_, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new Bound(functions_, info_, args));
    }
};

/// `RowKernel` of f64 where X is f64, else of f32; `Bound` is a template of the type.
template <class Info, template <class> class Bound>
MaybeKernel make_row_kernel(std::string_view op, Info const& info, Request const& request, double ns_per_element) {
    auto make = [&]<class T>(std::type_identity<T>) -> MaybeKernel {
        auto choice = choose_rows<T>(request);
        if (!choice.functions) return reject(choice.why_not);
        return std::unique_ptr<Kernel>(new RowKernel<Info, Bound<T>, T>(choice, op, info, ns_per_element));
    };
    return request.inputs[0].dtype == DataType::F64 ? make(std::type_identity<double>{})
                                                    : make(std::type_identity<float>{});
}

}  // namespace refactor::kernel
