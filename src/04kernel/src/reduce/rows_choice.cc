#include "reduce/rows_choice.h"

namespace refactor::kernel {

RowChoice choose_rows(Request const& request) {
    RowChoice choice;
    choice.why_not = why_not_plain_cpu(request);
    if (!choice.why_not.empty()) return choice;
    for (auto const& input : request.inputs)
        if (!input.absent() && input.dtype != DataType::F32) {
            choice.why_not = "an input is " + std::string(name_of(input.dtype)) + ", expected f32";
            return choice;
        }
#if RG_X86
    if (request.isa >= Isa::Avx512)
        choice.functions = &row_functions_avx512(), choice.isa = Isa::Avx512;
    else if (request.isa >= Isa::Avx2)
        choice.functions = &row_functions_avx2(), choice.isa = Isa::Avx2;
#endif
    if (!choice.functions) choice.why_not = "needs avx2, allowed is " + std::string(name_of(request.isa));
    return choice;
}

}  // namespace refactor::kernel
