#pragma once
#include "call.h"

#include <string_view>
#include <vector>

/// What an operator source of `ops/` needs: it defines `void define_<family>(Definitions&)`, which adds one
/// `OperatorDef` for every function.
namespace refactor::pnnx {

using kernel::ReduceKind;

struct OperatorDef {
    /// All names of the operator, separated by blanks: "nn.ReLU F.relu aten::relu".
    std::string_view names;
    /// Names of the arguments, separated by blanks: first those that may be given by position, in torch's order, then,
    /// behind "|", those that are only given by name. "*" takes any number of tensors (`Call::tensors`), "weight_*" any
    /// argument that begins so. What is not listed is refused.
    std::string_view signature;
    void (*build)(Call&);
};

/// Where operator sources put their definitions.
using Definitions = std::vector<OperatorDef>;

}  // namespace refactor::pnnx
