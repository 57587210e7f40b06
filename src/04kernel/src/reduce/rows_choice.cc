#include "reduce/rows_choice.h"

namespace refactor::kernel {

template <class T>
RowChoiceOf<T> choose_rows(Request const& request) {
    constexpr bool kDouble = sizeof(T) == 8;
    constexpr auto kType = kDouble ? DataType::F64 : DataType::F32;
    RowChoiceOf<T> choice;
    choice.why_not = why_not_plain_cpu(request);
    if (!choice.why_not.empty()) return choice;
    for (auto const& input : request.inputs)
        if (!input.absent() && input.dtype != kType) {
            choice.why_not =
                "an input is " + std::string(name_of(input.dtype)) + ", expected " + std::string(name_of(kType));
            return choice;
        }
#if RG_X86
    if (request.isa < Isa::Avx2) {
        choice.why_not = "needs avx2, allowed is " + std::string(name_of(request.isa));
        return choice;
    }
    choice.isa = request.isa >= Isa::Avx512 ? Isa::Avx512 : Isa::Avx2;
    bool wide = choice.isa == Isa::Avx512;
    if constexpr (kDouble)
        choice.functions = wide ? &row_functions_f64_avx512() : &row_functions_f64_avx2();
    else
        choice.functions = wide ? &row_functions_avx512() : &row_functions_avx2();
#else
    choice.why_not = "not built for this architecture";
#endif
    return choice;
}

template RowChoiceOf<float> choose_rows<float>(Request const&);
template RowChoiceOf<double> choose_rows<double>(Request const&);

}  // namespace refactor::kernel
