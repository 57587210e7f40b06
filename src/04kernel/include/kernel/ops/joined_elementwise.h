#pragma once
#include "kernel/ops/elementwise.h"

namespace refactor::kernel {

/// A concatenation that only an elementwise program reads: `program(concat(pieces, axis), others…)`, of which the first
/// need not exist as a whole. Inputs: `pieces` tensors of one type, then inputs 1, 2, … of the program. The
/// concatenation has the shape of the outputs; the others broadcast to it. On a GPU only, Plain.
struct JoinedElementwiseInfo {
    static constexpr char const* kType = "JoinedElementwise";
    ElementwiseInfo program;
    int64_t axis = 0;
    size_t pieces = 0;
    std::string attributes() const;
};
Candidates candidates(JoinedElementwiseInfo const&, Request const&);

}  // namespace refactor::kernel
